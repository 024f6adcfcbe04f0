"""Layers whose operands are rounded to a half type: weights when the program is written, the others as they come.

Given::

    constant @weight: f32[64, 96, 1, 1]
    %0 = linear(%x, @weight, @bias)         # or conv_2d

Result, for bf16::

    constant @weight: f32[64, 96, 1, 1]     # kept in bf16: the pass half_weights rounds it
    %0 = unary(%x, kind=ROUND_BF16)         # still f32, and one for all layers that read it
    %1 = linear(%0, @weight, @bias)

Products of two such numbers are exact in f32, and so every CPU computes the same up to the order of the sums, with
instructions for the half type or without.
"""

from __future__ import annotations

from functools import partial

from ..ir.dtypes import DType
from ..ir.graph import Graph, Node, Value
from ..ir.ops.custom import ROUNDED_TO
from .layers import LAYERS, own_weight
from .rewrite import Rewriter

_ROUNDING = {dtype: kind for kind, dtype in ROUNDED_TO.items()}


def run(graph: Graph, half: DType) -> Graph:
    """The graph with the operands of its layers rounded to a half type."""
    return Rewriter(graph).run(dict.fromkeys(LAYERS, partial(_rounded, half)))


def applies(graph: Graph) -> bool:
    """Whether the pass has rounded operands in a graph: no frontend does."""
    return any(node.op == "unary" and node.attrs["kind"] in ROUNDED_TO for node in graph.nodes)


def _rounded(half: DType, rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    x, weight, bias = inputs
    constant = own_weight(rewriter, weight)
    if constant is None:
        return None
    constant.kept_in = half
    rounded = rewriter.builder.emit("unary", x, kind=_ROUNDING[half])
    return rewriter.builder.emit(node.op, rounded, weight, bias, **node.attrs)
