"""Comparisons whose result the bounds of positions and sizes decide, and what follows of conditions.

Given::

    symbol s0: input 0 dim 1, 0 to 512
    %0 = iota(ne=(s0, 1, 1, 1), start=0, step=1)
    %1 = binary(%0, fill 0, kind=GE)
    %2 = binary(%mask, %1, kind=BITWISE_AND)

Result::

    %0 = broadcast(%mask, ne=(s0, s0, 1, 1))

So are written the masks of transformers' encoders, whose positions all see each other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..ir._lazy import torch
from ..ir.dims import is_one
from ..ir.dtypes import DType
from ..ir.graph import Graph, Node, Symbol, Value
from ..ir.op import Dim, Moves
from ..ir.ops.custom import BinaryKind
from .rewrite import Rewriter, present

Interval = tuple[int, int]  # the least and the greatest integer that a value's elements can be


def run(graph: Graph) -> Graph:
    """The graph with comparisons that are decided as their results."""
    return Rewriter(graph).run({"binary": partial(_rule, _Intervals(graph.symbols))})


def _rule(intervals: _Intervals, rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    a, b = present(inputs)
    kind = BinaryKind(node.attrs["kind"])
    if kind in _COMPARISONS:
        of_a, of_b = intervals.of(rewriter, a), intervals.of(rewriter, b)
        holds = None if of_a is None or of_b is None else _COMPARISONS[kind](of_a, of_b)
        return None if holds is None else rewriter.builder.fill(node.output.ne, holds, DType.BOOL)
    if kind in _CONNECTIVES and node.output.dtype == DType.BOOL:
        for condition, other in ((a, b), (b, a)):
            known = condition.producer
            if known is None or known.op != "fill":
                continue
            if bool(known.attrs["integer"]) is _CONNECTIVES[kind]:
                return rewriter.builder.broadcast(other, node.output.ne)
            return rewriter.builder.fill(node.output.ne, known.attrs["integer"], DType.BOOL)
    return None


class _Intervals:
    """Between which integers the elements of values are, where that is known."""

    def __init__(self, symbols: list[Symbol]) -> None:
        self._symbols = symbols
        self._known: dict[Value, Interval | None] = {}

    def of(self, rewriter: Rewriter, value: Value) -> Interval | None:
        """The interval of a value of the new graph; None where it may not fit its type."""
        if value not in self._known:
            interval = self._computed(rewriter, value) if value.dtype in (DType.I32, DType.I64) else None
            self._known[value] = interval if interval is None or _holds(value.dtype, interval) else None
        return self._known[value]

    def _computed(self, rewriter: Rewriter, value: Value) -> Interval | None:
        constant = rewriter.constant(value)
        if constant is not None:
            one = constant.data is not None and all(map(is_one, value.ne))
            return (int(constant.data()), int(constant.data())) if one and constant.data is not None else None
        node = value.producer
        if node is None:
            return None
        if node.op == "fill":
            return self._size(node.attrs["integer"])
        if node.op == "iota":
            return self._positions(node)
        operation = _OPERATIONS.get(node.op) or _OPERATIONS.get(node.attrs.get("kind"))
        if operation is not None:
            a, b = (self.of(rewriter, operand) for operand in present(node.inputs))
            return None if a is None or b is None else operation(a, b)
        source = node.inputs[0] if node.inputs else None
        keeps = node.op in ("convert", "broadcast") or node.spec.moves is Moves.VIEW
        return self.of(rewriter, source) if keeps and source is not None else None

    def _positions(self, node: Node) -> Interval | None:
        start, count, step = self._size(node.attrs["start"]), self._size(node.output.ne[0]), node.attrs["step"]
        if start is None or count is None:
            return None
        last = step * max(0, count[1] - 1)
        return start[0] + min(0, last), start[1] + max(0, last)

    def _size(self, size: Dim) -> Interval | None:
        if isinstance(size, int):
            return size, size
        from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

        bounds = bound_sympy(size, {each.symbol: ValueRanges(each.min, each.max) for each in self._symbols})
        whole = bounds.lower.is_Integer and bounds.upper.is_Integer
        return (int(bounds.lower), int(bounds.upper)) if whole else None


def _holds(dtype: DType, interval: Interval) -> bool:
    info = torch.iinfo(dtype.torch)
    return info.min <= interval[0] and interval[1] <= info.max


def _less(a: Interval, b: Interval) -> bool | None:
    return True if a[1] < b[0] else False if a[0] >= b[1] else None


def _less_or_equal(a: Interval, b: Interval) -> bool | None:
    return True if a[1] <= b[0] else False if a[0] > b[1] else None


_COMPARISONS: dict[BinaryKind, Callable[[Interval, Interval], bool | None]] = {
    BinaryKind.LT: _less,
    BinaryKind.LE: _less_or_equal,
    BinaryKind.GT: lambda a, b: _less(b, a),
    BinaryKind.GE: lambda a, b: _less_or_equal(b, a),
}
# The condition that leaves the other one as it is.
_CONNECTIVES = {
    BinaryKind.BITWISE_AND: True,
    BinaryKind.LOGICAL_AND: True,
    BinaryKind.BITWISE_OR: False,
    BinaryKind.LOGICAL_OR: False,
}


def _sum(a: Interval, b: Interval) -> Interval:
    return a[0] + b[0], a[1] + b[1]


def _difference(a: Interval, b: Interval) -> Interval:
    return a[0] - b[1], a[1] - b[0]


_OPERATIONS = {"add": _sum, BinaryKind.ADD: _sum, "sub": _difference, BinaryKind.SUB: _difference}
