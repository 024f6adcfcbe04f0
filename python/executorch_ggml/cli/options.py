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
data = click.option("--data", type=FILE, help="The .ptd file with the weights, where they are apart.")
gguf = click.option(
    "--gguf", type=FILE, multiple=True, help="The GGUF file with the weights, where they were left there; repeatable."
)
PRECISIONS = ("bf16", "f16", "int8-dynamic")


def output_of(what: str) -> Callable[[Command], Command]:
    """The option ``-o``, which must be there: a file whose folder exists."""
    return click.option("-o", "--output", type=FILE, required=True, callback=_in_a_folder, help=what)


def _in_a_folder(_context: click.Context, _option: click.Parameter, path: Path) -> Path:
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path.parent}: no such folder to write {path.name} to")
    return path
