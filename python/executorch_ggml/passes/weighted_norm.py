"""A normalization of rows with the row that it is multiplied by, and the one that is added.

Given::

    %0 = norm(%x, eps=eps)          # or rms_norm
    %1 = mul(%0, @weight)
    %2 = add(%1, @bias)             # of a norm, not an rms_norm

Result::

    %0 = norm(%x, @weight, @bias, eps=eps)
"""

from __future__ import annotations

from ..ir.dims import is_one, same
from ..ir.dtypes import DType
from ..ir.graph import Graph, Node, Value
from .rewrite import Rewriter, present

_NORMS = ("norm", "rms_norm")


def run(graph: Graph) -> Graph:
    """The graph with weights and biases in its normalizations."""
    return Rewriter(graph).run({"mul": _weighted, "add": _biased})


def _weighted(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    del node
    norm, weight = _norm_and_row(rewriter, inputs)
    if norm is None or norm.inputs[1] is not None:
        return None
    return rewriter.builder.emit(norm.op, norm.inputs[0], weight, **norm.attrs)


def _biased(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    del node
    norm, bias = _norm_and_row(rewriter, inputs)
    if norm is None or norm.op != "norm" or norm.inputs[1] is None or norm.inputs[2] is not None:
        return None
    return rewriter.builder.emit("norm", *norm.inputs[:2], bias, **norm.attrs)


def _norm_and_row(rewriter: Rewriter, inputs: tuple[Value | None, ...]) -> tuple[Node, Value] | tuple[None, None]:
    """A normalization that nothing else reads, and the row that goes with each of its rows."""
    a, b = present(inputs)
    for normed, row in ((a, b), (b, a)):
        norm = normed.producer
        is_norm = norm is not None and norm.op in _NORMS and rewriter.reads(normed) == 1
        if norm is not None and is_norm and _is_row(row, normed):
            return norm, row
    return None, None


def _is_row(row: Value, normed: Value) -> bool:
    return row.dtype == DType.F32 and same(row.ne[0], normed.ne[0]) and all(map(is_one, row.ne[1:]))
