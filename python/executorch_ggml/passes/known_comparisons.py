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

from collections.abc import Callable, Mapping
from functools import partial

from ..ir._lazy import torch
from ..ir.dims import is_one
from ..ir.dtypes import DType
from ..ir.graph import Graph, Node, Symbol, Value
from ..ir.op import Dim, Moves
from ..ir.ops.custom import BinaryKind
from .rewrite import Rewriter, present

Interval = tuple[int, int]  # the least and the greatest integer that a value's elements can be
_INTEGERS = (DType.I32, DType.I64)


def run(graph: Graph) -> Graph:
    """The graph with comparisons that are decided as their results."""
    return Rewriter(graph).run({"binary": partial(_decided, _intervals(graph))})


def _decided(
    intervals: Mapping[Value, Interval], rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]
) -> Value | None:
    kind = BinaryKind(node.attrs["kind"])
    if kind in _COMPARISONS:
        a, b = (intervals.get(value) for value in present(node.inputs))
        holds = None if a is None or b is None else _COMPARISONS[kind](a, b)
        return None if holds is None else rewriter.builder.fill(node.output.ne, holds, DType.BOOL)
    if kind in _CONNECTIVES and node.output.dtype == DType.BOOL:
        first, second = present(inputs)
        for condition, other in ((first, second), (second, first)):
            if (holds := _known(condition)) is not None:
                return rewriter.builder.broadcast(other if holds is _CONNECTIVES[kind] else condition, node.output.ne)
    return None


def _known(condition: Value) -> bool | None:
    """Whether a condition holds everywhere or nowhere; None where that is not known."""
    fill = condition.producer
    integer = fill.attrs["integer"] if fill is not None and fill.op == "fill" else None
    return bool(integer) if isinstance(integer, int) else None


def _intervals(graph: Graph) -> dict[Value, Interval]:
    """Between which integers the elements of values are, where that is known and fits their types."""
    found: dict[Value, Interval] = {}
    for constant in graph.constants:
        value = constant.value
        if value.dtype in _INTEGERS and constant.data is not None and all(map(is_one, value.ne)):
            found[value] = (int(constant.data()),) * 2
    for node in graph.nodes:
        interval = _computed(node, found, graph.symbols) if node.output.dtype in _INTEGERS else None
        if interval is not None and _fits(node.output.dtype, interval):
            found[node.output] = interval
    return found


def _computed(node: Node, found: Mapping[Value, Interval], symbols: list[Symbol]) -> Interval | None:
    if node.op == "fill":
        return _size(node.attrs["integer"], symbols)
    if node.op == "iota":
        return _positions(node, symbols)
    operands = [found.get(value) for value in present(node.inputs)]
    operation = _OPERATIONS.get(BinaryKind(node.attrs["kind"]) if node.op == "binary" else node.op)
    if operation is not None:
        a, b = operands
        return None if a is None or b is None else operation(a, b)
    keeps = node.op in ("convert", "broadcast") or node.spec.moves is Moves.VIEW
    return operands[0] if keeps else None


def _positions(iota: Node, symbols: list[Symbol]) -> Interval | None:
    start, count = _size(iota.attrs["start"], symbols), _size(iota.output.ne[0], symbols)
    if start is None or count is None:
        return None
    last = iota.attrs["step"] * max(0, count[1] - 1)
    return start[0] + min(0, last), start[1] + max(0, last)


def _size(size: Dim, symbols: list[Symbol]) -> Interval | None:
    if isinstance(size, int):
        return size, size
    from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

    bounds = bound_sympy(size, {each.symbol: ValueRanges(each.min, each.max) for each in symbols})
    whole = bounds.lower.is_Integer and bounds.upper.is_Integer
    return (int(bounds.lower), int(bounds.upper)) if whole else None


def _fits(dtype: DType, interval: Interval) -> bool:
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


_OPERATIONS: dict[str | BinaryKind, Callable[[Interval, Interval], Interval]] = {
    "add": _sum,
    BinaryKind.ADD: _sum,
    "sub": _difference,
    BinaryKind.SUB: _difference,
}
