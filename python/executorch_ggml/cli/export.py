"""``executorch-ggml export``: a model as a program."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..progress import stage
from . import options, progress
from .checkpoints import generates_text, has_tokenizer, pretrained
from .output import show

if TYPE_CHECKING:
    from .models import Model

_LANGUAGE = ("external_weights", "max_seq_len", "chunk", "cache_type")
"""Options of language models alone."""
_MODULE = ("dynamic", "input_shape", "random_weights", "check", "device", "etrecord")
"""Options of all others."""


@click.command("export", short_help="Make a program of a model.")
@click.argument("model")
@options.output_of("The .pte file to write.")
@click.option(
    "--quantize", metavar="TYPE|FILE", help="Store weights as q8_0, q4_k ..., or by a GgmlQuantConfig's JSON."
)
@options.for_programs
@options.for_modules
@click.option("--device", default="", help="With --check: the device to run on, or several: CUDA0=3,CUDA1=1 (CPU).")
@click.option("--etrecord", type=options.FILE, help="Write what `profile` reads modules and source lines from.")
@click.option("--external-weights", is_flag=True, help="GGUF: leave the weights in that file.")
@options.for_language_models
@options.as_json
@click.pass_context
@progress.shown
def command(context: click.Context, /, model: str, output: Path, as_json: bool, **choice: Any) -> None:
    """Make a program of a model.

    MODEL is a GGUF file or the folder of a transformers checkpoint, which become programs that generate text where
    they are language models; torchvision:NAME or timm:NAME; package.module:FUNCTION or file.py:FUNCTION that returns
    a module and its example inputs; or a .pt2 file of torch.export.
    """
    language = is_language_model(Path(model))
    check_options(context, language)
    if choice["device"] and not choice["check"]:
        raise click.UsageError(
            "--device says where --check runs the program, which itself is for any device: pass both"
        )
    facts = _language_model(Path(model), output, choice) if language else _module(model, output, choice)
    written = facts_of_file(output, facts)
    show(written, as_json, lines_of_file(written))


def facts_of_file(output: Path, facts: dict[str, Any]) -> dict[str, Any]:
    """What is said of a file that was written."""
    return {"file": output, "bytes": output.stat().st_size, **facts}


def lines_of_file(facts: dict[str, Any]) -> list[str]:
    """The same in a line; none for no file."""
    text = "".join(f"; {note}" for note in facts.pop("notes", ()))
    return [f"{facts['file']}: {facts['bytes'] / 2**20:.1f} MiB{text}"] if facts else []


def check_options(context: click.Context, language: bool) -> None:
    """Raise for an option that this kind of model would ignore."""
    why, is_one = ("is not for", "is one") if language else ("is for", "is none")
    for name in _MODULE if language else _LANGUAGE:
        if name in context.params and context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
            option = f"--{name.replace('_', '-')}"
            raise click.UsageError(f"{option} {why} language models, and {context.params['model']} {is_one}")


def is_language_model(path: Path) -> bool:
    """Whether it becomes a program that generates text: a GGUF file, or a checkpoint of such a class."""
    if path.suffix == ".gguf":
        return True
    if path.is_file():
        with path.open("rb") as file:
            return file.read(4) == b"GGUF"
    return generates_text(path)


def _language_model(path: Path, output: Path, choice: dict[str, Any]) -> dict[str, Any]:
    """Export a language model with its tokenizer."""
    layout, external = choice["layout"], choice["external_weights"]
    if layout is not None and external:
        raise ValueError(
            f"--layout {layout} is for weights in the program, and --external-weights leaves them in the GGUF "
            f"file, in ggml's own layout; pass one of them"
        )
    checkpoint = path.is_dir()
    if not checkpoint and choice["quantize"] is not None:
        raise ValueError(f"--quantize: the weights of {path} have their types; `executorch-ggml quantize` changes them")
    if checkpoint and external:
        raise ValueError(f"--external-weights leaves weights in a GGUF file, and {path} is a checkpoint")
    with stage(f"loading {path}"):
        parts = _from_checkpoint(path, choice["quantize"]) if checkpoint else _from_gguf(path, external)
    module, weights, tokenizer = parts
    written = write_language_model(module, weights, tokenizer, output, choice)
    return {**written, "notes": [*written["notes"], *([f"its weights are in {path}"] if external else [])]}


def write_language_model(
    module: Any, weights: Any, tokenizer: Any, output: Path, choice: Mapping[str, Any]
) -> dict[str, Any]:
    """Write the program of a language model, whose weights are stored as ``weights`` says."""
    from .. import llm

    made_for = getattr(module.config.get_text_config(decoder=True), "max_position_embeddings", None)
    longest = min(choice["max_seq_len"] or 2048, made_for or sys.maxsize)
    program = llm.export(
        module,
        max_seq_len=longest,
        chunk=choice["chunk"] or 512,
        cache_type=choice["cache_type"] or "f16",
        weights=weights,
        precision=choice["precision"],
        layout=choice["layout"],
        tokenizer=tokenizer,
    )
    with stage(f"writing {output}"):
        program.save(str(output))
    return {"max_seq_len": longest, "notes": [f"texts of {longest} tokens"]}


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
    from .quantization import config_of

    module = pretrained(folder, dtype="auto")
    weights = None if quantize is None else config_of(quantize, module)
    return module, weights, llm.Tokenizer.load(folder) if has_tokenizer(folder) else None


def _module(name: str, output: Path, choice: dict[str, Any]) -> dict[str, Any]:
    """Export a module by its example inputs."""
    from .quantization import config_of

    model, shapes = model_and_shapes(name, choice)
    quantize = None if choice["quantize"] is None else config_of(choice["quantize"], model.module)
    return write_module(model, shapes, output, {**choice, "quantize": quantize})


def model_and_shapes(name: str, choice: Mapping[str, Any]) -> tuple[Model, Any]:
    """The module that an argument names with its example inputs, and its dynamic shapes."""
    from .models import model_of, with_dynamic, with_inputs

    model = with_inputs(model_of(name, random_weights=choice["random_weights"]), choice["input_shape"])
    return with_dynamic(model, choice["dynamic"])


def write_module(model: Model, shapes: Any, output: Path, choice: Mapping[str, Any]) -> dict[str, Any]:
    """Write the program of a module."""
    from .. import export
    from ..images import IMAGE_KEY
    from ..precision_error import error_beside

    etrecord = choice.get("etrecord")
    how = {name: choice[name] for name in ("quantize", "precision", "layout")}
    how |= {"report_error": False, "generate_etrecord": etrecord is not None}
    if model.image is not None:
        how["named_data"] = {IMAGE_KEY: model.image.to_bytes()}
    if model.exported is not None:
        program = export(model.exported, **how)
    else:
        program = export(model.module, model.args, kwargs=model.kwargs, dynamic_shapes=shapes, **how)
    with stage(f"writing {output}"):
        program.save(str(output))
    if etrecord is not None:
        program.get_etrecord().save(etrecord)
    if not choice["check"]:
        return {"notes": []}
    error = error_beside(program, model.module, model.args, model.kwargs, choice.get("device", ""))
    return {"error": error, "notes": [f"largest error {error:.2g} of eager's largest output"]}
