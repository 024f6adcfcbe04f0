"""``executorch-ggml export-gguf``: a ``transformers`` checkpoint as a GGUF file that llama.cpp runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from . import options, progress
from .checkpoints import generates_text, has_tokenizer, pretrained
from .output import show


@click.command("export-gguf", short_help="Write a checkpoint as a GGUF file.")
@click.argument("checkpoint", type=options.FILE)
@options.output_of("The GGUF file to write.")
@click.option(
    "--type",
    "kind",
    default="f16",
    show_default=True,
    metavar="TYPE",
    help="Of the matrices: f16, q8_0, q4_0, q4_k, q4_k_m ...",
)
@click.option("--config", type=options.FILE, help="A GgmlQuantConfig as JSON, in place of a type.")
@options.as_json
@progress.shown
def command(checkpoint: Path, output: Path, kind: str, config: Path | None, as_json: bool) -> None:
    """Write a transformers checkpoint as a GGUF file, for llama.cpp and this.

    CHECKPOINT is its folder, or a GGUF file to write in other types.
    """
    from ..gguf.mixtures import MIXTURES, mixture
    from ..gguf.model import load
    from ..gguf.writer import export_gguf
    from ..quant import GgmlQuantConfig

    if kind not in MIXTURES:
        raise ValueError(f"no type is called {kind!r}; there are {', '.join(MIXTURES)}")
    if output.exists() and output.samefile(checkpoint):
        raise ValueError(f"{output} is the file to read; give another to write")
    tokenizer = None
    if checkpoint.is_file():
        module = load(checkpoint, dequantize=True).module
    else:
        module, tokenizer = model_and_tokenizer(checkpoint)
    types = mixture(kind, module.config) if config is None else GgmlQuantConfig.of(config)
    export_gguf(module, output, types=types, tokenizer=tokenizer)
    size = output.stat().st_size
    show({"file": output, "bytes": size}, as_json, [f"{output}: {size / 2**20:.1f} MiB"])


def model_and_tokenizer(folder: Path) -> tuple[Any, Any]:
    """The causal LM in a folder, and its tokenizer if there is one."""
    from transformers import AutoTokenizer

    if not generates_text(folder):
        raise FileNotFoundError(f"{folder}: neither a GGUF file nor a folder with the checkpoint of a language model")
    module = pretrained(folder, dtype="auto")
    return module, AutoTokenizer.from_pretrained(folder, local_files_only=True) if has_tokenizer(folder) else None
