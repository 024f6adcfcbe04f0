"""Rows of a state rounded to f16 by the write itself, wherever nothing else reads the rounded ones.

Given::

    %0 = convert(%src, dtype=F16)
    %1 = update_state($state, %index, %0)

Result::

    %0 = update_state($state, %index, %src)
"""

from __future__ import annotations

from ..ir.dtypes import DType
from ..ir.graph import Graph
from .rewrite import count_reads


def run(graph: Graph) -> Graph:
    """The graph with rows rounded as they are written."""
    reads = count_reads(graph)
    done = set()
    for node in graph.nodes:
        rows = node.inputs[2].producer if node.op == "update_state" and node.inputs[2] is not None else None
        if rows is None or rows.op != "convert" or reads[rows.output] != 1 or node.attrs["axis"] == 0:
            continue
        source = rows.inputs[0]
        if (node.output.dtype, source.dtype if source is not None else None) == (DType.F16, DType.F32):
            node.inputs = (*node.inputs[:2], source)
            done.add(rows)
    graph.nodes = [node for node in graph.nodes if node not in done]
    return graph
