"""Reductions over any dims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..ir.dims import is_one
from ..ir.dtypes import DType
from ..ir.graph import Value
from ..ir.ops.custom import BinaryKind, ReduceKind
from .context import FLOATS, Context, Tensor
from .layout import inverse, layout_of
from .registry import Refused, lowers

aten = torch.ops.aten


def reduced(cx: Context, x: Tensor, dims: Sequence[int] | None, kind: ReduceKind) -> Value:
    """``x`` with ``dims`` (all where None or empty) reduced to size 1; a permuted tensor is reduced as it lies."""
    every = dims is None or len(dims) == 0
    if every and x.rank > 4:
        x = Tensor(x.value, tuple(reversed(x.value.ne)))
    wanted = range(x.rank) if every else dims
    axes = sorted({x.axis(dim) for dim in wanted or ()}) or [0]
    layout = layout_of(x.value)
    base = cx.builder.permute(x.value, inverse(layout))
    places = [inverse(layout)[axis] for axis in axes]
    return cx.builder.permute(_reduced_base(cx, base, sorted(places), kind), layout)


def _reduced_base(cx: Context, base: Value, axes: Sequence[int], kind: ReduceKind) -> Value:
    """Ggml's own row sums and means where they do it; the custom node for the rest."""
    wide = [axis for axis in axes if not is_one(base.ne[axis])] or list(axes[:1])
    if wide == [0] and base.dtype == DType.F32 and kind in (ReduceKind.SUM, ReduceKind.MEAN):
        return cx.builder.emit("sum_rows" if kind == ReduceKind.SUM else "mean", base)
    return cx.builder.emit("reduce", base, kind=kind, axes=tuple(wide))


def _lower(
    cx: Context, x: Tensor, dims: Sequence[int] | None, kind: ReduceKind, compute: DType | None = None
) -> Tensor:
    if compute is None:
        compute = DType.F32 if x.dtype in FLOATS else x.dtype
    operand = cx.tensor(x, compute)
    value = reduced(cx, operand, dims, kind)
    return Tensor(cx.builder.convert(cx.out(value).value, cx.dtype()), cx.shape())


def _dims(dim: Any) -> Sequence[int] | None:
    return [dim] if isinstance(dim, int) else dim


@lowers(aten.sum.dim_IntList, aten.sum.default)
def sum_(cx: Context, x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor | Refused:
    """Sum, in the result's type."""
    del keepdim, dtype
    if cx.dtype() == DType.F64 or cx.dtype() not in (DType.F32, DType.F16, DType.BF16, DType.I32, DType.I64):
        return Refused(f"a sum in {cx.dtype().name.lower()}")
    return _lower(cx, x, _dims(dim), ReduceKind.SUM, DType.F32 if cx.dtype() in FLOATS else cx.dtype())


@lowers(aten.mean.dim, aten.mean.default)
def mean(cx: Context, x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor | Refused:
    """Mean of floats."""
    del keepdim, dtype
    if cx.dtype() not in FLOATS:
        return Refused(f"a mean in {cx.dtype().name.lower()}")
    return _lower(cx, x, _dims(dim), ReduceKind.MEAN, DType.F32)


@lowers(aten.prod.dim_int, aten.prod.default)
def prod(cx: Context, x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor | Refused:
    """Product, in the result's type."""
    del keepdim, dtype
    if cx.dtype() not in (DType.F32, DType.F16, DType.BF16, DType.I32, DType.I64):
        return Refused(f"a product in {cx.dtype().name.lower()}")
    return _lower(cx, x, _dims(dim), ReduceKind.PROD, DType.F32 if cx.dtype() in FLOATS else cx.dtype())


@lowers(aten.amax.default, aten.max.default)
def amax(cx: Context, x: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor | Refused:
    """Largest element."""
    del keepdim
    return _ordered(cx, x, dim, ReduceKind.MAX)


@lowers(aten.amin.default, aten.min.default)
def amin(cx: Context, x: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor | Refused:
    """Smallest element."""
    del keepdim
    return _ordered(cx, x, dim, ReduceKind.MIN)


def _ordered(cx: Context, x: Tensor, dim: Any, kind: ReduceKind) -> Tensor | Refused:
    if x.dtype not in (DType.F32, DType.F16, DType.BF16, DType.I32, DType.I64):
        return Refused(f"a maximum or minimum in {x.dtype.name.lower()}")
    return _lower(cx, x, _dims(dim), kind)


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
def argmax(cx: Context, x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor | Refused:
    """Place of the largest element, the first of equals."""
    del keepdim
    return _arg(cx, x, dim, ReduceKind.ARGMAX)


@lowers(aten.argmin.default)
def argmin(cx: Context, x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor | Refused:
    """Place of the smallest element, the first of equals."""
    del keepdim
    return _arg(cx, x, dim, ReduceKind.ARGMIN)


def _arg(cx: Context, x: Tensor, dim: int | None, kind: ReduceKind) -> Tensor | Refused:
    if x.dtype not in (DType.F32, DType.F16, DType.BF16, DType.I32, DType.I64) or x.rank > 4:
        return Refused("argmax or argmin over more than four dims, or in another type than floats and i32, i64")
    operand = cx.f32(x).value if x.dtype in FLOATS else x.value
    if dim is None:
        flat = cx.builder.reshape(operand, (operand.count,))
        return cx.out(cx.builder.emit("reduce", flat, kind=kind, axes=(0,)))
    return cx.out(cx.builder.emit("reduce", operand, kind=kind, axes=(x.axis(dim) if x.rank else 0,)))


@lowers(aten.var.correction, preserve=True)
def var(
    cx: Context, x: Tensor, dim: Any = None, *, correction: float | None = None, keepdim: bool = False
) -> Tensor | Refused:
    """Variance: mean of the squared differences from the mean, corrected."""
    del keepdim
    dims = list(range(x.rank)) if not _dims(dim) else [d % x.rank for d in _dims(dim) or ()]
    sizes = [x.shape[d] for d in dims]
    if x.dtype != DType.F32 or x.rank > 4 or not all(isinstance(n, int) for n in sizes):
        return Refused("a variance over symbolic or more than four dims, or not in float32")
    count = 1
    for n in sizes:
        count *= int(n)
    free = count - (1.0 if correction is None else correction)
    if free <= 0:
        return Refused(f"a variance of {count} elements with correction {correction}")
    center = cx.builder.emit("binary", x.value, reduced(cx, x, dims, ReduceKind.MEAN), kind=BinaryKind.SUB)
    squares = Tensor(cx.builder.emit("sqr", center), x.shape)
    total = cx.builder.cont(reduced(cx, squares, dims, ReduceKind.SUM))
    return cx.out(cx.builder.emit("scale_bias", total, s=1.0 / free, b=0.0))


@lowers(aten.cumsum.default)
def cumsum(cx: Context, x: Tensor, dim: int, *, dtype: Any = None) -> Tensor | Refused:
    """Running sum along one dim, in the result's type."""
    del dtype
    if cx.dtype() not in (DType.F32, DType.I32, DType.I64) or x.rank > 4:
        return Refused(f"a running sum in {cx.dtype().name.lower()}, or over more than four dims")
    axes = [0, 1, 2, 3]
    axis = x.axis(dim) if x.rank else 0
    axes[0], axes[axis] = axes[axis], axes[0]
    operand = cx.builder.convert(x.value, cx.dtype())
    moved = cx.builder.emit("cumsum", cx.builder.permute(operand, axes))
    return Tensor(cx.builder.permute(moved, axes), cx.shape())
