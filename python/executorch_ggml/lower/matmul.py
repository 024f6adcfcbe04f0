"""Matrix products. ggml's ``mul_mat(a, b)`` is ``b @ a.T`` with both read along rows."""

from __future__ import annotations

from typing import Any

import torch

from ..ir.dims import product
from ..ir.dtypes import DType
from ..ir.graph import Value
from .context import Context, Tensor
from .registry import Refused, lowers

aten = torch.ops.aten


def _not_f32(*tensors: Tensor | None) -> Refused | None:
    for tensor in tensors:
        if tensor is not None and tensor.dtype != DType.F32:
            return Refused(f"a matrix product in {tensor.dtype.name.lower()}: only float32 is supported")
    return None


def columns(cx: Context, tensor: Tensor) -> Value:
    """A matrix transposed, so that its columns can be read as rows; a constant is transposed ahead of time."""
    if tensor.data is not None and tensor.rank == 2:
        rows, cols = (int(n) for n in tensor.shape)
        return cx.derived("transposed", [tensor], (cols, rows), lambda w: w.t()).value
    return cx.builder.transpose(tensor.value)


def affine(cx: Context, x: Value, weight: Value, bias: Tensor | None) -> Value:
    """``x @ weight.T + bias``."""
    y = cx.builder.emit("mul_mat", weight, x)
    return y if bias is None else cx.builder.emit("add", y, bias.value)


@lowers(aten.linear.default, preserve=True)
def linear(cx: Context, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor | Refused:
    """``x @ weight.T + bias``."""
    if refused := _not_f32(x, weight, bias):
        return refused
    if x.rank == 0 or weight.rank != 2:
        return Refused("a linear layer over a scalar, or with a weight that is not a matrix")
    rows = cx.builder.reshape(x.value, (x.shape[-1], product(x.shape[:-1])))
    return cx.out(affine(cx, rows, weight.value, bias))


@lowers(aten.mm.default)
def mm(cx: Context, a: Tensor, b: Tensor) -> Tensor | Refused:
    """``a @ b`` of two matrices."""
    return _not_f32(a, b) or cx.out(cx.builder.emit("mul_mat", columns(cx, b), a.value))


@lowers(aten.bmm.default)
def bmm(cx: Context, a: Tensor, b: Tensor) -> Tensor | Refused:
    """``a @ b`` of two batches of matrices."""
    return _not_f32(a, b) or cx.out(cx.builder.emit("mul_mat", cx.builder.transpose(b.value), a.value))


@lowers(aten.addmm.default)
def addmm(cx: Context, bias: Tensor, a: Tensor, b: Tensor, beta: Any = 1, alpha: Any = 1) -> Tensor | Refused:
    """``beta * bias + alpha * (a @ b)``."""
    if refused := _not_f32(bias, a, b):
        return refused
    product_ = cx.builder.emit("mul_mat", columns(cx, b), a.value)
    if alpha != 1:
        product_ = cx.builder.emit("scale_bias", product_, s=float(alpha), b=0.0)
    addend = bias.value
    if beta != 1:
        addend = cx.builder.emit("scale_bias", addend, s=float(beta), b=0.0)
    return cx.out(cx.builder.emit("add", product_, addend))
