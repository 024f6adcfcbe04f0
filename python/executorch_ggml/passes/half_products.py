"""Layers whose operands are rounded to a half type: weights when the program is written, the others as they come.

Given::

    constant @weight: f32[64, 96, 1, 1]     # or of a half type
    %0 = linear(%x, @weight, @bias)         # or conv_2d; or mul_mat(@weight, %x) with a weight of a half type

Result, for bf16::

    constant @weight: f32[64, 96, 1, 1]     # kept in bf16: the pass half_weights rounds it
    %0 = unary(%x, kind=ROUND_BF16)         # still f32, and one for all layers that read it
    %1 = linear(%0, @weight, @bias)

A matrix that `mul_mat` shares with an embedding stays as it is. Attention, for bf16, but not over a cache::

    %0 = attention(%q, %k, %v, %mask)

    %0 = convert(%k, dtype=BF16)
    %1 = convert(%v, dtype=BF16)
    %2 = attention(%q, %0, %1, %mask)       # rounds %q and the weights, as ggml's products round their rows

Products of two such numbers are exact in f32, and so every CPU computes the same up to the order of the sums, with
instructions for the half type or without. Depthwise convolutions stay in f32: they take longer to load what they
multiply than to multiply it.
"""

from __future__ import annotations

from functools import partial

from ..ir.dtypes import DType
from ..ir.formulas import holds
from ..ir.graph import Graph, Node, Value
from ..ir.op import Writes
from ..ir.ops.custom import ROUNDED_TO
from ..ir.ops.matrix import is_layer
from ..ir.ops.spatial import NO_EPILOGUE
from .layers import LAYERS, weight_at_hand
from .rewrite import Rewriter, input_of, present

_ROUNDING = {dtype: kind for kind, dtype in ROUNDED_TO.items()}
_FLOATS = frozenset({DType.F32, *_ROUNDING})
_VIEWS = frozenset({"view", "permute", "reshape", "cont"})


def run(graph: Graph, half: DType) -> Graph:
    """The graph with the operands of its layers rounded to a half type."""
    layers = dict.fromkeys(LAYERS, partial(_rounded, half))
    attention = {"attention": _attention} if half is DType.BF16 else {}
    return Rewriter(graph).run({**layers, **attention, "mul_mat": partial(_as_layer, half)})


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


def _attention(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    """Attention over computed keys and values in bf16. To round a cache again at each step would cost more."""
    q, k, v, mask = inputs
    assert k is not None
    assert v is not None
    states = {state.value for state in rewriter.graph.states}
    if k.dtype != DType.F32 or any(_shown(t) in states for t in (k, v)):
        return None
    halves = (rewriter.builder.convert(t, DType.BF16) for t in (k, v))
    return rewriter.builder.emit("attention", q, *halves, mask, **node.attrs)


def _shown(value: Value) -> Value:
    """What a value is a view of, or a new version of: a state where there is one."""
    while value.producer is not None and (value.producer.op in _VIEWS or value.producer.spec.writes is not Writes.NO):
        value = input_of(value, 0)
    return value


def _is_depthwise(node: Node) -> bool:
    """Whether each output channel is a sum over the window of one input channel."""
    weight = node.inputs[1]
    return node.op == "conv_2d" and weight is not None and weight.ne[2] == 1 and node.attrs["groups"] != 1
