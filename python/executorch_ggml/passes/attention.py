"""Attention written out as one node, without the matrix of scores.

Given::

    %0 = mul_mat(%key, %query)
    %1 = soft_max_ext(%0, none, scale=s)      # scaled before instead, by scale_bias, mul or div: the same
    %2 = permute(%value, axes=(1, 0, 2, 3))
    %3 = mul_mat(%2, %1)

Result::

    %0 = attention(%query, %key, %value, none, scale=s)
    %1 = permute(%0, axes=(0, 2, 1, 3))
"""

from __future__ import annotations

from ..ir.dims import same_dims
from ..ir.dtypes import DType
from ..ir.graph import Graph, Node, Value
from .rewrite import Rewriter, computed_by, input_of, present


def run(graph: Graph) -> Graph:
    """The graph with its attentions as nodes."""
    return Rewriter(graph).run({"mul_mat": _attention})


def _attention(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    columns, weights = present(inputs)
    softmax = _behind(weights, "soft_max_ext")
    if softmax is None or softmax.inputs[1] is not None or not _is_read_once(rewriter, weights):
        return None
    factor, scores = _unscaled(input_of(softmax.output, 0))
    product = _behind(scores, "mul_mat")
    if product is None:
        return None
    value = rewriter.builder.transpose(input_of(columns, 0) if computed_by(columns, "cont") else columns)
    key, query = input_of(product.output, 0), input_of(product.output, 1)
    floats = all(t.dtype == DType.F32 for t in (key, query, value))
    if not floats or not all(same_dims(t.ne[2:], value.ne[2:]) for t in (key, query)):
        return None
    scale = factor * softmax.attrs["scale"]
    attended = rewriter.builder.emit("attention", query, key, value, None, scale=scale, logit_softcap=0.0)
    return rewriter.builder.reshape(rewriter.builder.permute(attended, (0, 2, 1, 3)), node.output.ne)


def _unscaled(scores: Value) -> tuple[float, Value]:
    """Scores as a factor and what is multiplied with it."""
    for op in ("scale_bias", "mul", "div"):
        node = _behind(scores, op)
        if node is None:
            continue
        if op == "scale_bias":
            return (node.attrs["s"], input_of(node.output, 0)) if node.attrs["b"] == 0.0 else (1.0, scores)
        number = input_of(node.output, 1).producer
        if number is not None and number.op == "fill" and number.attrs["value"] != 0.0:
            value = number.attrs["value"]
            return value if op == "mul" else 1.0 / value, input_of(node.output, 0)
    return 1.0, scores


def _behind(value: Value, op: str) -> Node | None:
    """The node of that op which computes a value, but for the shape of its outer dims."""
    node = value.producer
    while node is not None and node.op == "reshape":
        source = input_of(node.output, 0)
        if not same_dims(source.ne[:2], value.ne[:2]):
            return None
        node = source.producer
    return node if node is not None and node.op == op else None


def _is_read_once(rewriter: Rewriter, value: Value) -> bool:
    """Whether one node reads a value, and what it is another shape of."""
    while computed_by(value, "reshape") and rewriter.reads(value) == 1:
        value = input_of(value, 0)
    return rewriter.reads(value) == 1
