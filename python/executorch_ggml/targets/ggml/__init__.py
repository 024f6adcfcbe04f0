"""The ggml target: stock ops alone, for whatever device ggml has."""

from __future__ import annotations

from ...ir.graph import Graph
from ...ir.target import Target
from . import prologue, stock_ops


def run(graph: Graph) -> Graph:
    """The graph for a device: in stock ops, with what only the CPU computes in front of it."""
    graph = prologue.run(stock_ops.run(graph))
    graph.target = Target.GGML
    return graph


__all__ = ["prologue", "run", "stock_ops"]
