"""Broadcasts after elementwise functions instead of before them, and none of a mask's one row for attention.

Given::

    %0 = broadcast(%seen, ne=(n, n, 1, 1))          # bool[n, 1, 1, 1]
    %1 = select(%0, fill 0, fill -inf)
    %2 = attention(%query, %key, %value, %1)

Result::

    %0 = select(%seen, fill 0, fill -inf)
    %1 = attention(%query, %key, %value, %0)
"""

from __future__ import annotations

from ..ir.dims import is_one, same_dims
from ..ir.graph import Graph, Node, Value
from ..ir.ops import OPS
from .rewrite import Rewriter, computed_by, input_of, present

_ELEMENTWISE = [name for name, spec in OPS.items() if spec.along == ()]


def run(graph: Graph) -> Graph:
    """The graph with broadcasts as late as they can be."""
    if not any(node.op == "broadcast" for node in graph.nodes):
        return graph
    return Rewriter(graph).run({**dict.fromkeys(_ELEMENTWISE, _elementwise), "attention": _attention})


def _elementwise(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    """A function of one value that was broadcast, or of several from and to the same dims, and of single numbers."""
    wide = [value for value in present(inputs) if not all(map(is_one, value.ne))]
    if not wide or not all(computed_by(value, "broadcast") for value in wide):
        return None
    narrow = input_of(wide[0], 0)
    if not all(same_dims(value.ne, node.output.ne) and same_dims(input_of(value, 0).ne, narrow.ne) for value in wide):
        return None
    sources = [value if value is None or value not in wide else input_of(value, 0) for value in inputs]
    return rewriter.builder.broadcast(rewriter.builder.emit(node.op, *sources, **node.attrs), node.output.ne)


def _attention(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    *operands, mask = inputs
    if mask is None or not computed_by(mask, "broadcast") or not is_one(input_of(mask, 0).ne[1]):
        return None
    row = rewriter.builder.broadcast(input_of(mask, 0), (mask.ne[0], 1, *mask.ne[2:]))
    return rewriter.builder.emit("attention", *operands, row, **node.attrs)
