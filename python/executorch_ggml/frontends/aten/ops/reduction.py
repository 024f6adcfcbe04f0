"""Reductions over any dims."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence, Set
from typing import Any

import torch

from ....ir.dims import ne_of, product
from ....ir.dtypes import DType
from ....ir.graph import Value
from ....ir.op import Dim
from ....ir.ops.custom import ReduceKind
from ..context import FLOATS, Context, Tensor, compute_type
from ..layout import along, permuted
from ..registry import Refused, lowers

aten = torch.ops.aten


def reduced(cx: Context, x: Tensor, dims: Sequence[int] | None, kind: ReduceKind) -> Value:
    """``x`` with ``dims`` (all where None or empty) reduced to size 1."""
    wanted = {dim % max(x.rank, 1) for dim in dims or range(x.rank)}
    if x.rank > 4:
        return _reduced_in_steps(cx, x, wanted, kind)
    return cx.builder.reduce(x.value, kind, sorted(max(x.axis(dim), 0) for dim in wanted) or [0])


def _reduced_in_steps(cx: Context, x: Tensor, dims: Set[int], kind: ReduceKind) -> Value:
    """More than four dims: neighbours merge, and the inner ones are reduced first where that is not enough."""
    value = x.value
    runs = [(size, dim in dims) for dim, size in enumerate(x.shape)]
    while True:
        merged = [
            (product(size for size, _ in run), drops) for drops, run in itertools.groupby(runs, key=lambda r: r[1])
        ]
        outer, inner = (merged[:-3], merged[-3:]) if len(merged) > 4 else ([], merged)
        sizes = [product(size for size, _ in outer)] * bool(outer) + [size for size, _ in inner]
        value = cx.builder.reshape(value, sizes[::-1])
        axes = [len(inner) - 1 - place for place, (_, drops) in enumerate(inner) if drops]
        value = cx.builder.reduce(value, kind, sorted(axes)) if axes else value
        if not outer:
            return value
        runs = outer + [(size, drops) for size, drops in inner if not drops]


def _lower(cx: Context, x: Tensor, dims: Sequence[int] | None, kind: ReduceKind, compute: DType) -> Tensor:
    value = reduced(cx, cx.tensor(x, compute), dims, kind)
    return Tensor(cx.builder.convert(cx.out(value).value, cx.dtype()), cx.shape())


def _reduced_type(dtype: DType) -> DType:
    """The type that a type is reduced in: reductions alone have float64 itself, as models ask for means in it."""
    return dtype if dtype == DType.F64 else compute_type(dtype)


def _dims(dim: Any) -> Sequence[int] | None:
    return [dim] if isinstance(dim, int) else dim


@lowers(aten.sum.dim_IntList, aten.sum.default)
def sum_(cx: Context, x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor | Refused:
    """Sum, in the result's type."""
    del keepdim, dtype
    return _total(cx, x, dim, ReduceKind.SUM)


def _total(cx: Context, x: Tensor, dim: Any, kind: ReduceKind) -> Tensor | Refused:
    if cx.dtype() == DType.BOOL:
        return Refused("a sum or product in bool")
    return _lower(cx, x, _dims(dim), kind, _reduced_type(cx.dtype()))


@lowers(aten.mean.dim, aten.mean.default)
def mean(cx: Context, x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor | Refused:
    """Mean of floats."""
    del keepdim, dtype
    if cx.dtype() not in FLOATS and cx.dtype() != DType.F64:
        return Refused(f"a mean in {cx.dtype().name.lower()}")
    return _lower(cx, x, _dims(dim), ReduceKind.MEAN, _reduced_type(cx.dtype()))


@lowers(aten.prod.dim_int, aten.prod.default)
def prod(cx: Context, x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor | Refused:
    """Product, in the result's type."""
    del keepdim, dtype
    return _total(cx, x, dim, ReduceKind.PROD)


@lowers(aten.amax.default, aten.max.default)
def amax(cx: Context, x: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """Largest element."""
    del keepdim
    return _ordered(cx, x, dim, ReduceKind.MAX)


@lowers(aten.amin.default, aten.min.default)
def amin(cx: Context, x: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """Smallest element."""
    del keepdim
    return _ordered(cx, x, dim, ReduceKind.MIN)


def _ordered(cx: Context, x: Tensor, dim: Any, kind: ReduceKind) -> Tensor:
    if x.dtype == DType.BOOL:
        kind = ReduceKind.ANY if kind == ReduceKind.MAX else ReduceKind.ALL
    return _lower(cx, x, _dims(dim), kind, _reduced_type(x.dtype))


@lowers(aten.any.default, aten.any.dim, aten.any.dims)
def any_(cx: Context, x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Whether some element is not zero."""
    del keepdim
    return _lower(cx, x, _dims(dim), ReduceKind.ANY, DType.BOOL)


@lowers(aten.all.default, aten.all.dim, aten.all.dims)
def all_(cx: Context, x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Whether no element is zero."""
    del keepdim
    return _lower(cx, x, _dims(dim), ReduceKind.ALL, DType.BOOL)


@lowers(aten.argmax.default)
def argmax(cx: Context, x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Place of the largest element, the first of equals."""
    del keepdim
    return _arg(cx, x, dim, ReduceKind.ARGMAX)


@lowers(aten.argmin.default)
def argmin(cx: Context, x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Place of the smallest element, the first of equals."""
    del keepdim
    return _arg(cx, x, dim, ReduceKind.ARGMIN)


def _arg(cx: Context, x: Tensor, dim: int | None, kind: ReduceKind) -> Tensor:
    operand = cx.tensor(x, _reduced_type(x.dtype))
    if dim is None:
        flat = cx.builder.reshape(operand.value, (operand.value.count,))
        return cx.out(cx.builder.emit("reduce", flat, kind=kind, axes=(0,)))
    folded, at = along(cx.builder, operand, dim)
    return cx.out(cx.builder.emit("reduce", folded.value, kind=kind, axes=(folded.axis(at) if x.rank else 0,)))


@lowers(aten.var.correction, preserve=True)
def var(
    cx: Context, x: Tensor, dim: Any = None, *, correction: float | None = None, keepdim: bool = False
) -> Tensor | Refused:
    """Variance: mean of the squared differences from the mean, corrected."""
    del keepdim
    made = _moments(cx, x, _dims(dim), 1 if correction is None else correction)
    return made if isinstance(made, Refused) else _typed(cx, made[0])


@lowers(aten.var.dim)
def var_dim(cx: Context, x: Tensor, dim: Any, unbiased: bool = True, keepdim: bool = False) -> Tensor | Refused:
    """Variance, corrected by one element or not at all."""
    return var(cx, x, dim, correction=int(unbiased), keepdim=keepdim)


@lowers(aten.var_mean.correction)
def var_mean(
    cx: Context, x: Tensor, dim: Any = None, *, correction: float | None = None, keepdim: bool = False
) -> tuple[Tensor, Tensor] | Refused:
    """Variance and mean."""
    del keepdim
    made = _moments(cx, x, _dims(dim), 1 if correction is None else correction)
    return made if isinstance(made, Refused) else (_typed(cx, made[0], 0), _typed(cx, made[1], 1))


def _typed(cx: Context, value: Value, index: int | None = None) -> Tensor:
    return cx.out(cx.builder.convert(value, cx.dtype(index)), index)


def _moments(cx: Context, x: Tensor, dims: Sequence[int] | None, correction: float) -> tuple[Value, Value] | Refused:
    """Variance and mean over ``dims``, all where None or empty."""
    if x.dtype not in FLOATS:
        return Refused(f"a variance in {x.dtype.name.lower()}")
    if not math.isfinite(correction):
        return Refused(f"a variance with correction {correction}")
    dims = sorted({dim % max(x.rank, 1) for dim in dims or range(x.rank)})
    count = product(x.shape[dim] for dim in dims if x.rank)
    value = cx.f32(x).value
    if x.rank > 4:  # into two: those kept, and those that go
        kept = [dim for dim in range(x.rank) if dim not in dims]
        turned = permuted(cx.builder, value, x.shape, [*kept, *dims])
        shape: tuple[Dim, ...] = (product(x.shape[dim] for dim in kept), count)
        x, dims = Tensor(cx.builder.reshape(turned, ne_of(shape)), shape), [1]
        value = x.value
    operand = Tensor(value, x.shape)
    mean = reduced(cx, operand, dims, ReduceKind.MEAN)
    squares = cx.builder.emit("sqr", cx.builder.emit("sub", value, mean))
    total = reduced(cx, Tensor(squares, x.shape), dims, ReduceKind.SUM)
    return averaged(cx, total, count, correction), mean


def averaged(cx: Context, total: Value, count: Dim, correction: float) -> Value:
    """``total / max(count - correction, 0)``, of a size that may be symbolic."""
    if isinstance(count, int):
        free = cx.builder.scalar(max(count - correction, 0.0), DType.F32)
    else:
        size = cx.builder.scalar(count, DType.F32)
        free = cx.builder.emit("scale_bias", size, s=1.0, b=-float(correction))
        free = cx.builder.emit("clamp", free, min=0.0, max=math.inf)
    return cx.builder.emit("div", total, free)
