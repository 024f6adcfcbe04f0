"""Weights that are kept in a half type, rounded once all that passes fold into them is there.

Given::

    constant @weight: f32[3, 3, 8, 16]     # kept in f16
    %0 = conv_2d(%x, @weight, @bias)

Result::

    constant @weight.f16: f16[3, 3, 8, 16]
    %0 = conv_2d(%x, @weight.f16, @bias)
"""

from __future__ import annotations

from ..ir.graph import Graph, Node, Value
from .layers import LAYERS
from .rewrite import Rewriter


def run(graph: Graph) -> Graph:
    """The graph with its half weights."""
    return Rewriter(graph).run(dict.fromkeys(LAYERS, _rounded))


def _rounded(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    x, weight, bias = inputs
    constant = None if weight is None else rewriter.constant(weight)
    if weight is None or constant is None or constant.kept_in is None:
        return None
    half = rewriter.builder.constant(
        f"{constant.key}.{constant.kept_in.name.lower()}", constant.kept_in, weight.ne, constant.data
    )
    return rewriter.builder.emit(node.op, x, half, bias, **node.attrs)
