"""A rotary embedding (RoPE) written out as one node.

Given::

    %0 = mul(%x, %cos)
    %1 = view(%x, start=(half, 0, 0, 0), ...)
    %2 = neg(%1)
    %3 = view(%x, start=(0, 0, 0, 0), ...)
    %4 = concat(%2, %3, dim=0)
    %5 = mul(%4, %sin)
    %6 = add(%0, %5)

Result::

    %0 = rotary(%x, %cos, %sin, interleaved=False)

The rotated tensor puts the second half of a row, negated, before the first ("NeoX", ``rotate_half``), or does that to
each pair of neighbours ("GPT-J", ``rotate_every_two``: ``interleaved``).
"""

from __future__ import annotations

from ..ir.dims import is_one, same_dims
from ..ir.dtypes import DType
from ..ir.formulas import broadcasts_to, holds
from ..ir.graph import Graph, Node, Value
from ..ir.ops.custom import BinaryKind
from .rewrite import Rewriter, computed_by, input_of, present


def run(graph: Graph) -> Graph:
    """The graph with its rotary embeddings as nodes."""
    return Rewriter(graph).run({"add": _rotary})


def _rotary(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    a, b = present(inputs)
    if a.dtype != DType.F32:
        return None
    for plain, turned in ((a, b), (b, a)):
        embedded = _embedded(rewriter, plain, turned)
        if embedded is not None and same_dims(embedded.ne, a.ne):
            return embedded
    return None


def _embedded(rewriter: Rewriter, plain: Value, turned: Value) -> Value | None:
    """``rotary(x, cos, sin)`` where ``plain`` is ``x * cos`` and ``turned`` is ``rotated(x) * sin``, or None."""
    for x, cos in _factors(plain):
        for rotated, sin in _factors(turned):
            interleaved = _rotation(rotated, x)
            if interleaved is not None and _fits(x, cos) and _fits(x, sin):
                return rewriter.builder.emit("rotary", x, cos, sin, interleaved=interleaved)
    return None


def _fits(x: Value, table: Value) -> bool:
    return same_dims(x.ne[:1], table.ne[:1]) and holds(broadcasts_to, table.ne, x.ne) and table.has_dense_rows


def _factors(product: Value) -> list[tuple[Value, Value]]:
    """The operands of a multiplication, in both orders."""
    node = product.producer
    if node is None or not (node.op == "mul" or (node.op == "binary" and node.attrs["kind"] == BinaryKind.MUL)):
        return []
    left, right = (input_of(product, index) for index in (0, 1))
    return [(left, right), (right, left)]


def _rotation(rotated: Value, x: Value) -> bool | None:
    """Whether ``rotated`` is x with its halves rotated (False), its pairs (True), or something else (None)."""
    width = x.ne[0]
    node = rotated.producer
    if not isinstance(width, int) or width % 2 != 0 or node is None:
        return None
    interleaved = node.op == "reshape"  # pairs are stacked along a dim of their own
    node = input_of(rotated, 0).producer if interleaved else node
    if node is None or node.op != "concat":
        return None
    dim, (negated, kept) = node.attrs["dim"], (value for value in node.inputs if value is not None)
    inner = [size for value in (negated, kept) for size in value.ne[: dim + 1]]
    if not (all(map(is_one, inner)) if interleaved else dim == 0):
        return None
    if interleaved:
        negated, kept = (input_of(v, 0) if computed_by(v, "reshape") else v for v in (negated, kept))
    if not computed_by(negated, "neg"):
        return None
    low, high, step = (0, 1, 2) if interleaved else (0, width // 2, 1)
    return interleaved if _is_part(input_of(negated, 0), x, high, step) and _is_part(kept, x, low, step) else None


def _is_part(part: Value, x: Value, start: int, step: int) -> bool:
    """Whether a value is every ``step``-th element of x's rows from ``start`` on, up to half a row of them."""
    while computed_by(part, "cont") or computed_by(part, "reshape"):
        part = input_of(part, 0)
    if not computed_by(part, "view") or input_of(part, 0) is not x:
        return False
    attrs = part.producer.attrs if part.producer is not None else {}
    whole = same_dims(attrs["ne"], (x.ne[0] // 2, *x.ne[1:])) and same_dims(attrs["start"], (start, 0, 0, 0))
    return whole and tuple(attrs["step"]) == (step, 1, 1, 1)
