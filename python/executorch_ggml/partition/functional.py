"""The copy of a program that the partitioner's transforms rewrite in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakSet

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram

_COPIES: WeakSet[ExportedProgram] = WeakSet()


def functional_copy(
    program: ExportedProgram, decompositions: Mapping[OpOverload, Callable[..., Any]] | None = None
) -> ExportedProgram:
    """A copy in which no op writes to a tensor that another reads, and regions are inlined; the inputs' names stay.

    A program that is such a copy already is returned as it is, unless ops are to be decomposed: tracing it again takes
    as long as exporting it.
    """
    if program in _COPIES and not decompositions:
        return program
    with torch.no_grad():
        copy: ExportedProgram = program.run_decompositions(dict(decompositions or {}))
    copy._state_dict = dict(copy.state_dict)
    copy._constants = dict(copy.constants)
    _COPIES.add(copy)
    return copy
