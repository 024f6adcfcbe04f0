"""The CPU target: the runtime's own kernels, which read images with channels innermost."""

from __future__ import annotations

from ...ir.graph import Graph
from . import batch, layout

PASSES = (layout, batch)


def run(graph: Graph) -> Graph:
    """The graph for the CPU's kernels."""
    for each in PASSES:
        graph = each.run(graph)
    return graph


__all__ = ["PASSES", "batch", "layout", "run"]
