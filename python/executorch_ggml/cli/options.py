"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

FILE = click.Path(path_type=Path)
Command = TypeVar("Command", bound=Callable[..., Any])

as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
threads = click.option("--threads", type=click.IntRange(min=0), default=0, help="CPU threads (default: one a core).")
device = click.option("--device", default="", help="A device of ggml's, or several: CUDA0=3,CUDA1=1 (default: CPU).")
files = click.option("-i", "--input", "files", type=FILE, multiple=True, help="A file with an input; repeatable.")
transforms = click.option(
    "--transforms", metavar="NAME", help="Of images: torchvision:NAME, timm:NAME or resize (default: the program's)."
)
data = click.option("--data", type=FILE, help="The .ptd file with the weights, where they are apart.")
gguf = click.option(
    "--gguf", type=FILE, multiple=True, help="The GGUF file with the weights, where they were left there; repeatable."
)
PRECISIONS = ("bf16", "f16", "int8-dynamic")


def _together(*several: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Options that go together, in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(several):
            command = option(command)
        return command

    return decorate


random_weights = click.option("--random-weights", is_flag=True, help="torchvision and timm: no download.")
of_example = _together(
    click.option("--input-shape", multiple=True, metavar="SHAPE[:DTYPE]", help="An example input, like 1x3x224x224."),
    random_weights,
)
of_shapes = _together(
    click.option("--dynamic", multiple=True, metavar="DIM=MIN:MAX", help="batch=1:64, or INPUT.DIM=1:512; repeatable."),
    of_example,
)
for_modules = _together(
    of_shapes,
    click.option("--check", is_flag=True, help="Run the program beside eager PyTorch, and print the error."),
)
for_programs = _together(
    click.option("--precision", type=click.Choice(PRECISIONS), help="What layers not quantized are computed in."),
    click.option("--layout", type=click.Choice(["cpu"]), help="Store quantized matrices as the CPU reads them."),
)
for_language_models = _together(
    click.option("--max-seq-len", type=int, metavar="N", help="Language models: the longest text (2048)."),
    click.option("--chunk", type=int, metavar="N", help="Language models: tokens read at once (512)."),
    click.option(
        "--cache-type", type=click.Choice(["f32", "f16", "q8_0"]), help="Language models: of the cache (f16)."
    ),
)


def output_of(what: str) -> Callable[[Command], Command]:
    """The option ``-o``, which must be there: a file whose folder exists."""
    return click.option("-o", "--output", type=FILE, required=True, callback=_in_a_folder, help=what)


def _in_a_folder(_context: click.Context, _option: click.Parameter, path: Path) -> Path:
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path.parent}: no such folder to write {path.name} to")
    return path
