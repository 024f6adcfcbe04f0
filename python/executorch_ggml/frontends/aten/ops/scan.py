"""Running sums, products, extremes and log-sum-exps along one dim."""

from __future__ import annotations

from typing import Any

import torch

from ....ir.dtypes import DType
from ....ir.graph import Value
from ....ir.ops.indexing import ScanKind
from ..context import FLOATS, Context, Tensor
from ..registry import Refused, lowers
from .sorting import Pair, computed, line_of, taken

aten = torch.ops.aten


@lowers(aten.cumsum.default)
def cumsum(cx: Context, x: Tensor, dim: int, *, dtype: Any = None) -> Tensor | Refused:
    """Running sum along one dim, in the result's type."""
    del dtype
    if cx.dtype() == DType.F64 or x.dtype == DType.F64:
        return Refused("float64 is left to ExecuTorch: ggml computes in float32")
    value, axis = line_of(cx, x, dim)
    axes = [0, 1, 2, 3]
    axes[0], axes[axis] = axis, 0
    total = cx.builder.emit("cumsum", cx.builder.permute(_summands(cx, value), axes))
    return cx.out(cx.builder.convert(cx.builder.permute(total, axes), cx.dtype()))


@lowers(aten.cumprod.default)
def cumprod(cx: Context, x: Tensor, dim: int, *, dtype: Any = None) -> Tensor | Refused:
    """Running product along one dim, in the result's type."""
    del dtype
    if cx.dtype() == DType.F64 or x.dtype == DType.F64:
        return Refused("float64 is left to ExecuTorch: ggml computes in float32")
    value, axis = line_of(cx, x, dim)
    made = cx.builder.emit("scan", _summands(cx, value), kind=ScanKind.PROD, axis=axis)
    return cx.out(cx.builder.convert(made, cx.dtype()))


def _summands(cx: Context, value: Value) -> Value:
    """Elements in the result's type; where that is small, in one that wraps or rounds to it in the end."""
    given = cx.builder.convert(value, cx.dtype())
    return cx.builder.convert(given, DType.F32 if cx.dtype().is_floating else DType.I64)


@lowers(aten.logcumsumexp.default)
def logcumsumexp(cx: Context, x: Tensor, dim: int) -> Tensor | Refused:
    """Logarithm of the running sum of exponentials along one dim."""
    if x.dtype not in FLOATS:
        return Refused(f"logcumsumexp in {x.dtype.name.lower()}")
    value, axis = line_of(cx, x, dim)
    made = cx.builder.emit("scan", computed(cx, value), kind=ScanKind.LOGSUMEXP, axis=axis)
    return cx.out(cx.builder.convert(made, cx.dtype()))


@lowers(aten.cummax.default)
def cummax(cx: Context, x: Tensor, dim: int) -> Pair | Refused:
    """Running maximum along one dim, and its place, the last of equals."""
    return _running(cx, x, dim, ScanKind.ARGMAX)


@lowers(aten.cummin.default)
def cummin(cx: Context, x: Tensor, dim: int) -> Pair | Refused:
    """Running minimum along one dim, and its place, the last of equals."""
    return _running(cx, x, dim, ScanKind.ARGMIN)


def _running(cx: Context, x: Tensor, dim: int, kind: ScanKind) -> Pair | Refused:
    if x.dtype == DType.F64:
        return Refused("float64 is left to ExecuTorch: ggml computes in float32")
    value, axis = line_of(cx, x, dim)
    places = cx.builder.emit("scan", computed(cx, value), kind=kind, axis=axis)
    return cx.out(taken(cx, value, places, axis), 0), cx.out(places, 1)
