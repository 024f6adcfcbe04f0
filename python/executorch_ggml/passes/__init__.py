"""Passes over the IR: each takes a graph and gives one that computes the same in fewer or cheaper nodes.

A pass is a module with one function ``run``; its docstring draws Given and Result. Those of :data:`PASSES` run in that
order on every graph, whatever frontend it comes from, and each can be switched off by its name.
"""

from __future__ import annotations

from collections.abc import Collection
from types import ModuleType

from ..ir.graph import Graph
from . import (
    activation,
    attention,
    batch_norm,
    blocked_weights,
    constant_folding,
    gate,
    half_weights,
    integer_averages,
    integer_functions,
    integer_layers,
    integer_movement,
    integer_tiles,
    joined_products,
    known_comparisons,
    late_broadcast,
    panels,
    quantize_states,
    recurrent,
    rms_norm,
    rotary,
    round_when_written,
    update_in_place,
    weighted_norm,
)
from .precision import BEFORE, PRECISIONS, check_precision

_ORDERED = (
    integer_movement,
    integer_functions,
    integer_averages,
    integer_tiles,
    integer_layers,
    constant_folding,
    known_comparisons,
    late_broadcast,
    batch_norm,
    activation,
    rms_norm,
    weighted_norm,
    gate,
    rotary,
    attention,
    recurrent,
    joined_products,
    update_in_place,
    round_when_written,
    half_weights,
    blocked_weights,
)
PASSES: dict[str, ModuleType] = {module.__name__.rpartition(".")[2]: module for module in _ORDERED}
# Whose layout quantized matrices are stored in, by name: each is run on request, after all others.
LAYOUTS: dict[str, ModuleType] = {"cpu": panels}
# Those that make no constants, which in a graph of ggml's are another's memory, and have to do with no states.
FOR_DEVICES = ("activation", "rms_norm", "weighted_norm", "gate", "rotary", "attention")


def run_passes(graph: Graph, names: Collection[str] = PASSES.keys(), precision: str | None = None) -> Graph:
    """The graph after the passes of these names (all by default), in their order, with layers in a ``precision``."""
    check_precision(precision, names)
    for name, module in PASSES.items():
        if precision is not None and name == BEFORE:
            graph = PRECISIONS[precision].run(graph)
        if name in names:
            graph = module.run(graph)
    return graph


def check_layout(name: str | None) -> None:
    """Raise ValueError for a layout that there is none of."""
    if name is not None and name not in LAYOUTS:
        raise ValueError(f"layout {name!r}, expected one of {', '.join(LAYOUTS)}")


def summary(name: str) -> str:
    """What a pass does: the first line of its docstring."""
    return (PASSES[name].__doc__ or "").partition("\n")[0].rstrip(".")


__all__ = [
    "FOR_DEVICES",
    "LAYOUTS",
    "PASSES",
    "PRECISIONS",
    "check_layout",
    "check_precision",
    "quantize_states",
    "run_passes",
    "summary",
]
