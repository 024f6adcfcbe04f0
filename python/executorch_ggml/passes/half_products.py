"""Layers whose operands are rounded to a half type: weights when the program is written, the others as they come.

Given::

    constant @weight: f32[64, 96, 1, 1]     # or of a half type
    %0 = linear(%x, @weight, @bias)         # or conv_2d; or mul_mat(@weight, %x) with a weight of a half type

Result, for bf16::

    constant @weight: f32[64, 96, 1, 1]     # kept in bf16: the pass half_weights rounds it
    %0 = unary(%x, kind=ROUND_BF16)         # still f32, and one for all layers that read it
    %1 = linear(%0, @weight, @bias)

A matrix that `mul_mat` shares with an embedding stays as it is.

Products of two such numbers are exact in f32, and so every CPU computes the same up to the order of the sums, with
instructions for the half type or without. Depthwise convolutions stay in f32: they take longer to load what they
multiply than to multiply it.
"""

from __future__ import annotations

from functools import partial

from ..ir.dtypes import DType
from ..ir.formulas import holds
from ..ir.graph import Graph, Node, Value
from ..ir.ops.custom import ROUNDED_TO
from ..ir.ops.matrix import is_layer
from ..ir.ops.spatial import NO_EPILOGUE
from .layers import LAYERS, weight_at_hand
from .rewrite import Rewriter, present

_ROUNDING = {dtype: kind for kind, dtype in ROUNDED_TO.items()}
_FLOATS = frozenset({DType.F32, *_ROUNDING})


def run(graph: Graph, half: DType) -> Graph:
    """The graph with the operands of its layers rounded to a half type."""
    layers = dict.fromkeys(LAYERS, partial(_rounded, half))
    return Rewriter(graph).run({**layers, "mul_mat": partial(_as_layer, half)})


def applies(graph: Graph) -> bool:
    """Whether the pass has rounded operands in a graph: no frontend does."""
    return any(node.op == "unary" and node.attrs["kind"] in ROUNDED_TO for node in graph.nodes)


def _rounded(half: DType, rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    x, weight, bias = inputs
    constant = weight_at_hand(rewriter, weight)
    if constant is None or constant.value.dtype not in _FLOATS or _is_depthwise(node):
        return None
    constant.kept_in = half
    rounded = rewriter.builder.emit("unary", x, kind=_ROUNDING[half])
    return rewriter.builder.emit(node.op, rounded, weight, bias, **node.attrs)


def _as_layer(half: DType, rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    """A product with a matrix of a half type, which nothing else reads, as a layer."""
    weight, x = present(inputs)
    constant = weight_at_hand(rewriter, weight)
    if constant is None or constant.value.dtype not in _ROUNDING or rewriter.reads(constant.value) > 1:
        return None
    if not holds(is_layer, x, weight):
        return None
    constant.kept_in = half
    rounded = rewriter.builder.emit("unary", rewriter.builder.convert(x, DType.F32), kind=_ROUNDING[half])
    return rewriter.builder.emit("linear", rounded, weight, None, epilogue=NO_EPILOGUE)


def _is_depthwise(node: Node) -> bool:
    """Whether each output channel is a sum over the window of one input channel."""
    weight = node.inputs[1]
    return node.op == "conv_2d" and weight is not None and weight.ne[2] == 1 and node.attrs["groups"] != 1
