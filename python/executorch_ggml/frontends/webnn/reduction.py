"""Reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from ...ir.dtypes import DType
from ...ir.ops.custom import BinaryKind, ReduceKind
from ..aten.ops.reduction import reduced
from ..aten.ops.shape import joined, window
from .emitter import Emitter, Tensor, emits, is_float

aten = torch.ops.aten


def _reduced(cx: Emitter, x: Tensor, axes: Sequence[int], kind: ReduceKind) -> Tensor:
    """The dimensions reduced to size 1."""
    if not axes:
        return x
    shape = tuple(1 if i in axes else int(size) for i, size in enumerate(x.shape))
    return cx.reshaped(Tensor(reduced(cx, x, axes, kind), shape), shape)


def _summable(cx: Emitter, x: Tensor) -> Tensor:
    """Integers in int64, of whose sums the lowest bits are kept."""
    return cx.f32(x) if is_float(x) else cx.tensor(x, DType.I64)


def _row(
    name: str,
    kind: ReduceKind,
    before: Callable[[Emitter, Tensor], Tensor],
    after: str = "",
) -> None:
    @emits(name)
    def emit(cx: Emitter, input: Tensor, axes: Sequence[int], keep_dimensions: bool) -> Tensor:
        del keep_dimensions
        total = _reduced(cx, before(cx, _summable(cx, input)), axes, kind)
        return cx.unary(after, total) if after else cx.unsigned(total)


def _itself(cx: Emitter, x: Tensor) -> Tensor:
    del cx
    return x


def _square(cx: Emitter, x: Tensor) -> Tensor:
    return cx.unary("sqr", x) if is_float(x) else cx.both(BinaryKind.MUL, x, x)


def _size(cx: Emitter, x: Tensor) -> Tensor:
    if cx.data_type.startswith("u"):
        return x
    return cx.to(x.shape, x.dtype).aten(aten.abs.default, x)


_row("reduce_sum", ReduceKind.SUM, _itself)
_row("reduce_l1", ReduceKind.SUM, _size)
_row("reduce_sum_square", ReduceKind.SUM, _square)
_row("reduce_l2", ReduceKind.SUM, _square, "sqrt")
_row("reduce_log_sum", ReduceKind.SUM, _itself, "log")
_row("reduce_mean", ReduceKind.MEAN, _itself)
_row("reduce_product", ReduceKind.PROD, _itself)


@emits("reduce_log_sum_exp")
def reduce_log_sum_exp(cx: Emitter, input: Tensor, axes: Sequence[int], keep_dimensions: bool) -> Tensor:
    """The greatest, and the logarithm of the sum of what is left of the exponentials without it."""
    del keep_dimensions
    x = cx.f32(input)
    if not axes:
        return x
    most = _reduced(cx, x, axes, ReduceKind.MAX)
    finite = cx.unary("clamp", most, min=-3.4028234663852886e38, max=3.4028234663852886e38)
    total = _reduced(cx, cx.unary("exp", cx.both(BinaryKind.SUB, x, finite)), axes, ReduceKind.SUM)
    return cx.both(BinaryKind.ADD, cx.unary("log", total), finite)


def _extreme(name: str, kind: ReduceKind) -> None:
    @emits(name)
    def emit(cx: Emitter, input: Tensor, axes: Sequence[int], keep_dimensions: bool) -> Tensor:
        del keep_dimensions
        made = _reduced(cx, cx.ordered(input), axes, kind)
        return cx.flipped(made) if cx.data_type == "uint64" else made


_extreme("reduce_max", ReduceKind.MAX)
_extreme("reduce_min", ReduceKind.MIN)


def _place(name: str, overload: object) -> None:
    @emits(name)
    def emit(cx: Emitter, input: Tensor, axis: int, keep_dimensions: bool, output_data_type: str) -> Tensor:
        """The first of equals."""
        del keep_dimensions, output_data_type
        return cx.to(cx.shape(), DType.I64).aten(overload, cx.ordered(input), axis)


_place("arg_max", aten.argmax.default)
_place("arg_min", aten.argmin.default)


@emits("cumulative_sum")
def cumulative_sum(cx: Emitter, input: Tensor, axis: int, exclusive: bool, reversed: bool) -> Tensor:
    """Running sums; an exclusive one is that of the elements moved by a place."""
    x = cx.aten(aten.flip.default, input, [axis]) if reversed else input
    if exclusive:
        size = int(x.shape[axis])
        first = tuple(1 if i == axis else n for i, n in enumerate(x.shape))
        zero = cx.spread(cx.number(0, x.dtype), [int(n) for n in first])
        x = joined(cx, [zero, window(cx, x, axis, 0, size - 1)], axis) if size > 1 else zero
    total = cx.unsigned(cx.aten(aten.cumsum.default, x, axis))
    return cx.aten(aten.flip.default, total, [axis]) if reversed else total
