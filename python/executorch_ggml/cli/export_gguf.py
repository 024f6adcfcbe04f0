"""``executorch-ggml export-gguf``: a ``transformers`` checkpoint as a GGUF file that llama.cpp runs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def register(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser("export-gguf", help="write a transformers checkpoint as a GGUF file")
    parser.add_argument("checkpoint", type=Path, help="its folder, or a GGUF file to write in other types")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the GGUF file to write")
    parser.add_argument(
        "--type", default="f16", help="of the matrices: f16, q8_0, q4_0, q4_k, q4_k_m ... (default: f16)"
    )
    parser.add_argument("--config", type=Path, help="a GgmlQuantConfig as JSON, in place of a type")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Load the module, and write it."""
    from ..gguf.mixtures import MIXTURES, mixture
    from ..gguf.model import load
    from ..gguf.writer import export_gguf
    from ..quant import GgmlQuantConfig

    if args.type not in MIXTURES:
        raise ValueError(f"no type is called {args.type!r}; there are {', '.join(MIXTURES)}")
    if args.output.exists() and args.output.samefile(args.checkpoint):
        raise ValueError(f"{args.output} is the file to read; give another to write")
    tokenizer = None
    if args.checkpoint.is_file():
        module = load(args.checkpoint, dequantize=True).module
    else:
        module, tokenizer = _checkpoint(args.checkpoint)
    types = mixture(args.type, module.config) if args.config is None else GgmlQuantConfig.of(args.config)
    export_gguf(module, args.output, types=types, tokenizer=tokenizer)
    print(f"{args.output}: {args.output.stat().st_size / 2**20:.1f} MiB")


def _checkpoint(folder: Path) -> tuple[Any, Any]:
    """The causal LM in a folder, and its tokenizer if there is one."""
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    if not (folder / "config.json").is_file():
        raise FileNotFoundError(f"{folder}: neither a GGUF file nor a folder with a transformers checkpoint")
    logging.disable_progress_bar()
    module = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True, dtype="auto")
    has_tokenizer = any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer_config.json"))
    return module, AutoTokenizer.from_pretrained(folder, local_files_only=True) if has_tokenizer else None
