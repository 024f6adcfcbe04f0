"""``executorch-ggml export``: a model as a program."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from ..progress import stage
from . import options, progress
from .checkpoints import generates_text, has_tokenizer, pretrained
from .output import show

_LANGUAGE = ("external_weights", "max_seq_len", "chunk", "cache_type")
"""Options of language models alone."""
_MODULE = ("dynamic", "input_shape", "random_weights", "check", "etrecord")
"""Options of all others."""


@click.command("export", short_help="Make a program of a model.")
@click.argument("model")
@options.output_of("The .pte file to write.")
@click.option(
    "--quantize", metavar="TYPE|FILE", help="Store weights as q8_0, q4_k ..., or by a GgmlQuantConfig's JSON."
)
@click.option("--precision", type=click.Choice(options.PRECISIONS), help="What layers not quantized are computed in.")
@click.option("--layout", type=click.Choice(["cpu"]), help="Store quantized matrices as the CPU reads them.")
@click.option("--dynamic", multiple=True, metavar="DIM=MIN:MAX", help="batch=1:64, or INPUT.DIM=1:512; repeatable.")
@click.option("--input-shape", multiple=True, metavar="SHAPE[:DTYPE]", help="An example input, like 1x3x224x224.")
@click.option("--random-weights", is_flag=True, help="torchvision and timm: no download.")
@click.option("--check", is_flag=True, help="Run the program beside eager PyTorch, and print the error.")
@click.option("--etrecord", type=options.FILE, help="Write what `profile` reads modules and source lines from.")
@click.option("--external-weights", is_flag=True, help="GGUF: leave the weights in that file.")
@click.option("--max-seq-len", type=int, metavar="N", help="Language models: the longest text (2048).")
@click.option("--chunk", type=int, metavar="N", help="Language models: tokens read at once (512).")
@click.option("--cache-type", type=click.Choice(["f32", "f16", "q8_0"]), help="Language models: of the cache (f16).")
@options.as_json
@click.pass_context
@progress.shown
def command(context: click.Context, /, model: str, output: Path, as_json: bool, **choice: Any) -> None:
    """Make a program of a model.

    MODEL is a GGUF file or the folder of a transformers checkpoint, which become programs that generate text where
    they are language models; torchvision:NAME or timm:NAME; package.module:FUNCTION or file.py:FUNCTION that returns
    a module and its example inputs; or a .pt2 file of torch.export.
    """
    language = _is_language_model(Path(model))
    _refuse(context, _MODULE if language else _LANGUAGE, language)
    facts = _language_model(Path(model), output, choice) if language else _module(model, output, choice)
    size = output.stat().st_size
    text = "".join(f"; {note}" for note in facts.pop("notes"))
    show({"file": output, "bytes": size, **facts}, as_json, [f"{output}: {size / 2**20:.1f} MiB{text}"])


def _refuse(context: click.Context, names: tuple[str, ...], language: bool) -> None:
    """Raise for an option that this kind of model would ignore."""
    why, is_one = ("is not for", "is one") if language else ("is for", "is none")
    for name in names:
        if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
            option = f"--{name.replace('_', '-')}"
            raise click.UsageError(f"{option} {why} language models, and {context.params['model']} {is_one}")


def _is_language_model(path: Path) -> bool:
    """Whether it becomes a program that generates text: a GGUF file, or a checkpoint of such a class."""
    if path.suffix == ".gguf":
        return True
    if path.is_file():
        with path.open("rb") as file:
            return file.read(4) == b"GGUF"
    return generates_text(path)


def _language_model(path: Path, output: Path, choice: dict[str, Any]) -> dict[str, Any]:
    """Export a language model with its tokenizer."""
    from .. import llm

    layout, external = choice["layout"], choice["external_weights"]
    if layout is not None and external:
        raise ValueError(
            f"--layout {layout} is for weights in the program, and --external-weights leaves them in the GGUF "
            f"file, in ggml's own layout; pass one of them"
        )
    checkpoint = path.is_dir()
    if not checkpoint and choice["quantize"] is not None:
        raise ValueError(f"--quantize: the weights of {path} have their types; `export-gguf` writes a file with others")
    if checkpoint and external:
        raise ValueError(f"--external-weights leaves weights in a GGUF file, and {path} is a checkpoint")
    parts = _from_checkpoint(path, choice["quantize"]) if checkpoint else _from_gguf(path, external)
    module, weights, tokenizer = parts
    made_for = getattr(module.config.get_text_config(decoder=True), "max_position_embeddings", None)
    longest = min(choice["max_seq_len"] or 2048, made_for or sys.maxsize)
    program = llm.export(
        module,
        max_seq_len=longest,
        chunk=choice["chunk"] or 512,
        cache_type=choice["cache_type"] or "f16",
        weights=weights,
        precision=choice["precision"],
        layout=layout,
        tokenizer=tokenizer,
    )
    with stage(f"writing {output}"):
        program.save(str(output))
    notes = [f"texts of {longest} tokens", *([f"its weights are in {path}"] if external else [])]
    return {"max_seq_len": longest, "notes": notes}


def _from_gguf(path: Path, external: bool) -> tuple[Any, Any, Any]:
    """The module, its weights and its tokenizer."""
    from .. import llm
    from ..gguf import load, tokenizer_of

    model = load(path, external=external)
    has_tokenizer = "tokenizer.ggml.model" in model.file.metadata
    return model.module, model.weights, llm.Tokenizer.load(tokenizer_of(model.file)) if has_tokenizer else None


def _from_checkpoint(folder: Path, quantize: str | None) -> tuple[Any, Any, Any]:
    """The module, how its weights are stored, and its tokenizer."""
    from .. import llm
    from ..quant import GgmlQuantConfig

    module = pretrained(folder, dtype="auto")
    weights = None if quantize is None else GgmlQuantConfig.of(quantize)
    return module, weights, llm.Tokenizer.load(folder) if has_tokenizer(folder) else None


def _module(name: str, output: Path, choice: dict[str, Any]) -> dict[str, Any]:
    """Export a module by its example inputs."""
    from .. import export
    from ..precision_error import error_beside
    from .models import model_of, with_dynamic, with_inputs

    model = with_inputs(model_of(name, random_weights=choice["random_weights"]), choice["input_shape"])
    model, shapes = with_dynamic(model, choice["dynamic"])
    how = {name: choice[name] for name in ("quantize", "precision", "layout")}
    how |= {"report_error": False, "generate_etrecord": choice["etrecord"] is not None}
    if model.exported is not None:
        program = export(model.exported, **how)
    else:
        program = export(model.module, model.args, kwargs=model.kwargs, dynamic_shapes=shapes, **how)
    with stage(f"writing {output}"):
        program.save(str(output))
    if choice["etrecord"] is not None:
        program.get_etrecord().save(choice["etrecord"])
    if not choice["check"]:
        return {"notes": []}
    error = error_beside(program, model.module, model.args, model.kwargs)
    return {"error": error, "notes": [f"largest error {error:.2g} of eager's largest output"]}
