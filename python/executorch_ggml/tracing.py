"""``torch.export`` of a module, with errors that name the line of the model."""

from __future__ import annotations

import linecache
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import executorch.exir
import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import (
    GuardOnDataDependentSymNode,
    PendingUnbackedSymbolNotFound,
    free_unbacked_symbols,
)

from .progress import stage

# What torch raises where a branch or a size depends on values in a tensor.
_DATA_DEPENDENT = (
    GuardOnDataDependentSymNode,
    PendingUnbackedSymbolNotFound,
    DataDependentOutputException,
    DynamicOutputShapeException,
)
# Folders of code that calls the model, or that the model calls; installed packages are in one of Python's own.
_NOT_THE_MODEL = tuple(f"{Path(file).parent}{os.sep}" for file in (torch.__file__, executorch.exir.__file__, __file__))
_STANDARD_LIBRARY = f"{sysconfig.get_path('stdlib')}{os.sep}"
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)')


def trace(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None, dynamic_shapes: Any
) -> ExportedProgram:
    """The exported program of a module. Raises ValueError for one whose path or sizes depend on values in a tensor."""
    with (
        stage("tracing"),
        data_dependence_named(),
        _experts(model),
        torch.no_grad(),
    ):  # else what needs no gradients is a region
        return torch.export.export(model, args, kwargs, dynamic_shapes=dynamic_shapes)


@contextmanager
def data_dependence_named(program: ExportedProgram | None = None) -> Iterator[None]:
    """Have torch's errors about sizes and branches that depend on values be a ValueError with the model's line.

    Where the model's code does not run any more, it is the line of the first such size of ``program``.
    """
    try:
        yield
    except _DATA_DEPENDENT as error:
        place = _running_line(error) or (None if program is None else _line_of_unknown_size(program))
        raise ValueError(
            f"{place or 'the model'} depends on the values in a tensor, and a program takes one path and has known "
            f"sizes, whatever its inputs hold: rewrite this line without such a branch or size, or export the parts "
            f"of the model before and after it"
        ) from error


def _running_line(error: BaseException) -> str | None:
    """The innermost line of the model in an error's traceback."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_model(frame.filename)]
    return _described(frames[-1].filename, frames[-1].lineno or 0, frames[-1].name) if frames else None


def _line_of_unknown_size(program: ExportedProgram) -> str | None:
    """The line of the first tensor whose shape depends on values."""
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and free_unbacked_symbols(value.shape):
            frames = [
                frame for frame in _FRAME.finditer(node.meta.get("stack_trace") or "") if _is_model(frame["file"])
            ]
            return _described(frames[-1]["file"], int(frames[-1]["line"]), frames[-1]["function"]) if frames else None
    return None


def _is_model(file: str) -> bool:
    is_standard = file.startswith(_STANDARD_LIBRARY) and "site-packages" not in file
    return not (is_standard or file.startswith(("<", *_NOT_THE_MODEL)))


def _described(file: str, line: int, function: str) -> str:
    return f"{file}:{line}, in {function}: `{linecache.getline(file, line).strip()}`"


def _experts(model: torch.nn.Module) -> AbstractContextManager[None]:
    """Have transformers' mixtures of experts use this project's op: ExecuTorch cannot run theirs."""
    if "transformers" not in sys.modules:  # then the model has none of them
        return nullcontext()
    from .experts import exported_experts

    return exported_experts(model)
