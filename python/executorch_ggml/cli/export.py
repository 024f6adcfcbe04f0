"""``executorch-ggml export``: a GGUF file as a program that generates text."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def register(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser("export", help="make a program of a GGUF file's language model")
    parser.add_argument("model", type=Path, help="the GGUF file")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the .pte file to write")
    parser.add_argument("--external-weights", action="store_true", help="leave the weights in the GGUF file")
    parser.add_argument(
        "--max-seq-len", type=int, default=2048, metavar="N", help="longest text (default: %(default)s)"
    )
    parser.add_argument(
        "--chunk", type=int, default=512, metavar="N", help="tokens read at once (default: %(default)s)"
    )
    parser.add_argument("--cache-type", default="f16", choices=("f32", "f16", "q8_0"), help="default: %(default)s")
    parser.add_argument(
        "--precision",
        choices=("bf16", "f16", "int8-dynamic"),
        help="what layers are computed in whose weights the file has in float32; others keep their type",
    )
    parser.add_argument(
        "--layout",
        choices=("cpu",),
        help="store matrices of q4_0, q4_k and q6_k as the CPU reads them, which is quicker to load",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Rebuild the module, export it with its tokenizer, and write the program."""
    from .. import llm
    from ..gguf import load, tokenizer_of

    if not args.output.parent.is_dir():
        raise FileNotFoundError(f"{args.output.parent}: no such folder to write {args.output.name} to")
    if args.layout is not None and args.external_weights:
        raise ValueError(
            f"--layout {args.layout} is for weights in the program, and --external-weights leaves them in the GGUF "
            f"file, in ggml's own layout; pass one of them"
        )
    model = load(args.model, external=args.external_weights)
    longest = min(args.max_seq_len, model.module.config.max_position_embeddings)
    has_tokenizer = "tokenizer.ggml.model" in model.file.metadata
    tokenizer = llm.Tokenizer.load(tokenizer_of(model.file)) if has_tokenizer else None
    program = llm.export(
        model.module,
        max_seq_len=longest,
        chunk=args.chunk,
        cache_type=args.cache_type,
        weights=model.weights,
        precision=args.precision,
        layout=args.layout,
        tokenizer=tokenizer,
    )
    program.save(str(args.output))
    outside = f"; its weights are in {args.model}" if args.external_weights else ""
    print(f"{args.output}: {args.output.stat().st_size / 2**20:.1f} MiB, texts of {longest} tokens{outside}")
