"""Ops that are neither in Core ATen nor decomposed: ExecuTorch's Edge dialect refuses them, under their own names.

They go through it as ops of this project's namespace, with the same schema and the same kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram

from ..frontends.aten.registry import ALIASES, PRESERVED
from .functional import functional_copy

_LIBRARY: Any = torch.library.Library("executorch_ggml", "DEF")  # type: ignore[no-untyped-call] # torch has no types for it


def carried_through(program: ExportedProgram, accepted: Callable[[OpOverload], bool]) -> ExportedProgram:
    """The program with the ops that are accepted renamed; itself where there are none."""
    called = {node.target for node in program.graph.nodes if node.op == "call_function"}
    outside = {overload for overload in called & PRESERVED if _is_outside(overload) and accepted(overload)}
    if not outside:
        return program
    copy = functional_copy(program)
    for node in copy.graph.nodes:
        if node.target in outside:
            node.target = alias(node.target)
    return copy


@cache
def _is_outside(overload: OpOverload) -> bool:
    return torch.Tag.core not in overload.tags and overload not in torch.export.default_decompositions()


@cache
def alias(overload: OpOverload) -> OpOverload:
    """The op of this project that stands for another."""
    schema = str(overload._schema)
    name = str(overload).removeprefix("aten.").removesuffix(".default").replace(".", "_")
    _LIBRARY.define(name + schema[schema.index("(") :])
    _LIBRARY.impl(name, overload, "CompositeExplicitAutograd")
    alias: OpOverload = getattr(torch.ops.executorch_ggml, name).default
    ALIASES[alias] = overload
    return alias
