"""Tensors made from nothing: fills and ranges."""

from __future__ import annotations

from typing import Any

import executorch.exir.passes.dim_order_ops_registry  # noqa: F401 - declares the dim_order_ops
import torch

from ....ir.dims import as_dim
from ....ir.dtypes import DType
from ..context import FLOATS, Context, Tensor
from ..registry import Refused, lowers
from .shape import expand, filled

aten = torch.ops.aten
dim_order_ops = torch.ops.dim_order_ops


def _constant(cx: Context, value: Any) -> Tensor | Refused:
    dtype = cx.dtype()
    if dtype == DType.F64:
        return Refused("float64 is left to ExecuTorch: ggml computes in float32")
    return Tensor(filled(cx, cx.shape(), value, dtype), cx.shape())


@lowers(aten.full.default)
def full(cx: Context, size: Any, fill_value: Any, **_: Any) -> Tensor | Refused:
    """One value everywhere."""
    del size
    return _constant(cx, fill_value)


@lowers(aten.full_like.default)
def full_like(cx: Context, x: Tensor, fill_value: Any, **_: Any) -> Tensor | Refused:
    """One value everywhere."""
    del x
    return _constant(cx, fill_value)


@lowers(aten.new_full.default)
def new_full(cx: Context, x: Tensor, size: Any, fill_value: Any, **_: Any) -> Tensor | Refused:
    """One value everywhere."""
    del x, size
    return _constant(cx, fill_value)


@lowers(aten.fill.Scalar)
def fill(cx: Context, x: Tensor, value: Any) -> Tensor | Refused:
    """One value everywhere."""
    del x
    return _constant(cx, value)


@lowers(aten.fill.Tensor, aten.copy.default)
def copy(cx: Context, x: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    """The source, as the tensor's type and in its shape."""
    del non_blocking
    return expand(cx, cx.tensor(source, x.dtype), x.shape)


@lowers(aten.scalar_tensor.default)
def scalar_tensor(cx: Context, value: Any, **_: Any) -> Tensor | Refused:
    """One value."""
    return _constant(cx, value)


@lowers(
    aten.empty.memory_format,
    aten.empty_like.default,
    aten.empty_permuted.default,
    aten.empty_strided.default,
    aten.new_empty.default,
    dim_order_ops._empty_dim_order.default,
)
def empty(cx: Context, *_: Any, **__: Any) -> Tensor | Refused:
    """Any values: zeros."""
    return _constant(cx, 0)


@lowers(aten.zeros.default, aten.zeros_like.default, aten.new_zeros.default)
def zeros(cx: Context, *_: Any, **__: Any) -> Tensor | Refused:
    """Zero everywhere."""
    return _constant(cx, 0)


@lowers(aten.ones.default, aten.ones_like.default, aten.new_ones.default)
def ones(cx: Context, *_: Any, **__: Any) -> Tensor | Refused:
    """One everywhere."""
    return _constant(cx, 1)


@lowers(aten.arange.start_step)
def arange(cx: Context, start: Any, end: Any, step: Any = 1, **_: Any) -> Tensor | Refused:
    """A range."""
    del end  # the traced shape has it
    dtype, shape = cx.dtype(), cx.shape()
    ne = (shape[0], 1, 1, 1)
    if dtype in (DType.I32, DType.I64):
        if isinstance(step, float) or not isinstance(as_dim(step), int):
            return Refused(f"an integer range with step {step}")
        first = as_dim(int(start) if isinstance(start, float) else start)
        return Tensor(cx.builder.emit("iota", ne=ne, start=first, step=int(step), dtype=dtype), shape)
    if dtype not in FLOATS or not isinstance(start, (int, float)) or not isinstance(step, (int, float)):
        return Refused(f"a range in {dtype.name.lower()}, or with symbolic bounds in floats")
    steps = cx.builder.emit("iota", ne=ne, start=0, step=1, dtype=DType.F32)
    return cx.rounded(cx.builder.emit("scale_bias", steps, s=float(step), b=float(start)))
