"""Reductions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from .writer import Value, Writer, emits

# ONNX Runtime 1.31 sums and multiplies integers in float64, and limits the result.
_EXACT = {"ReduceSum": "Add", "ReduceProd": "Mul"}


def _reduced(w: Writer, op: str, x: Value, axes: Sequence[int], keep: bool) -> Value:
    if not axes:
        return x
    if op in _EXACT and not x.is_float:
        return w.reshape(_halved(w, _EXACT[op], x, axes), w.shape)
    return w.call(op, x, w.ints(axes), shape=w.shape, keepdims=int(keep))


def _halved(w: Writer, op: str, x: Value, axes: Sequence[int]) -> Value:
    """All elements along axes joined by a node of two inputs: one half with the other, until one is left."""
    kept = [axis for axis in range(x.rank) if axis not in axes]
    x = w.transpose(x, [*axes, *kept])
    x = w.reshape(x, (math.prod(x.shape[: len(axes)]), *x.shape[len(axes) :]))
    while (size := x.shape[0]) > 1:
        half = size // 2
        joined = w.broadcast(op, _rows(w, x, 0, half), _rows(w, x, half, 2 * half))
        if size % 2:
            joined = w.call("Concat", joined, _rows(w, x, size - 1, size), shape=(half + 1, *x.shape[1:]), axis=0)
        x = joined
    return x


def _rows(w: Writer, x: Value, begin: int, end: int) -> Value:
    shape = (end - begin, *x.shape[1:])
    return w.call("Slice", x, w.ints([begin]), w.ints([end]), w.ints([0]), shape=shape)


def _row(name: str, op: str, before: Callable[[Writer, Value], Value], after: str = "") -> None:
    @emits(name)
    def emit(w: Writer, input: Value, axes: Sequence[int], keep_dimensions: bool) -> Value:
        total = _reduced(w, op, before(w, w.wide(input)), axes, keep_dimensions)
        return w.call(after, total) if after else total


def _extreme(name: str, op: str) -> None:
    @emits(name)
    def emit(w: Writer, input: Value, axes: Sequence[int], keep_dimensions: bool) -> Value:
        x = w.ordered(input)
        if x.data_type != "int64":
            return _reduced(w, op, x, axes, keep_dimensions)
        for axis in axes:  # ONNX Runtime 1.31 reduces int64 by its lower half
            x, _ = _best(w, x, axis, largest=op == "ReduceMax")
        return w.unordered(w.reshape(x, w.shape))


def _best(w: Writer, x: Value, axis: int, *, largest: bool) -> tuple[Value, Value]:
    """The extreme along an axis, and its place."""
    shape = [1 if i == axis else size for i, size in enumerate(x.shape)]
    best, place = w.fresh(x.data_type, shape), w.fresh("int64", shape)
    w.node("TopK", [x, w.ints([1])], [best, place], {"axis": axis, "largest": int(largest)})
    return best, place


def _itself(w: Writer, x: Value) -> Value:
    return x


def _square(w: Writer, x: Value) -> Value:
    return w.call("Mul", x, x)


_row("reduce_sum", "ReduceSum", _itself)
_row("reduce_sum_square", "ReduceSum", _square)
_row("reduce_l2", "ReduceSum", _square, "Sqrt")
_row("reduce_log_sum", "ReduceSum", _itself, "Log")
_row("reduce_log_sum_exp", "ReduceLogSumExp", _itself)
_row("reduce_mean", "ReduceMean", _itself)
_row("reduce_product", "ReduceProd", _itself)
_extreme("reduce_max", "ReduceMax")
_extreme("reduce_min", "ReduceMin")


@emits("reduce_l1")
def reduce_l1(w: Writer, input: Value, axes: Sequence[int], keep_dimensions: bool) -> Value:
    """The sum of absolute values, which unsigned ones are already."""
    x = w.wide(input)
    return _reduced(w, "ReduceSum", x if input.data_type[0] == "u" else w.call("Abs", x), axes, keep_dimensions)


def _place(name: str, *, largest: bool) -> None:
    @emits(name)
    def emit(w: Writer, input: Value, axis: int, keep_dimensions: bool, output_data_type: str) -> Value:
        """TopK of 1, for more types than ArgMax; of equals it takes the first."""
        del keep_dimensions, output_data_type
        return w.reshape(_best(w, w.ordered(input), axis, largest=largest)[1], w.shape)


_place("arg_max", largest=True)
_place("arg_min", largest=False)


@emits("cumulative_sum")
def cumulative_sum(w: Writer, input: Value, axis: int, exclusive: bool, reversed: bool) -> Value:
    """CumSum."""
    place = w.constant(axis, "int64")
    return w.call("CumSum", w.wide(input), place, exclusive=int(exclusive), reverse=int(reversed))
