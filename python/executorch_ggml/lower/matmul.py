"""Matrix products. ggml's ``mul_mat(a, b)`` is ``b @ a.T`` with both read along rows."""

from __future__ import annotations

from typing import Any

import torch

from ..ir.dims import product
from ..ir.dtypes import DType
from ..ir.graph import Value
from .context import Context, Tensor
from .convolution import Epilogue, PackedLinear
from .registry import Refused, lowers

aten = torch.ops.aten


def _not_f32(*tensors: Tensor | None) -> Refused | None:
    for tensor in tensors:
        if tensor is not None and tensor.dtype != DType.F32:
            return Refused(f"a matrix product in {tensor.dtype.name.lower()}: only float32 is supported")
    return None


def columns(cx: Context, matrix: Tensor) -> Tensor:
    """A matrix transposed, so that its columns can be read as rows; a constant is transposed ahead of time."""
    rows, cols = matrix.shape
    if matrix.data is not None:
        return cx.derived("transposed", [matrix], (int(cols), int(rows)), lambda w: w.t())
    return Tensor(cx.builder.transpose(matrix.value), (cols, rows))


def affine(cx: Context, rows: Value, weight: Tensor, bias: Tensor | None) -> Tensor:
    """``rows @ weight.T + bias``: with packed weights where they are constant, else with ggml's product."""
    constant = weight.data is not None and (bias is None or (bias.data is not None and bias.rank == 1))
    constant = constant and 0 not in weight.shape
    if "packed_linear" in cx.fusions and constant:
        return PackedLinear(rows, weight, bias).emit(cx, Epilogue())
    y = cx.builder.emit("mul_mat", weight.value, rows)
    return cx.out(y if bias is None else cx.builder.emit("add", y, bias.value))


@lowers(aten.linear.default, preserve=True)
def linear(cx: Context, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor | Refused:
    """``x @ weight.T + bias``."""
    if refused := _not_f32(x, weight, bias):
        return refused
    if x.rank == 0 or weight.rank != 2:
        return Refused("a linear layer over a scalar, or with a weight that is not a matrix")
    rows = cx.builder.reshape(x.value, (x.shape[-1], product(x.shape[:-1])))
    return affine(cx, rows, weight, bias)


@lowers(aten.mm.default)
def mm(cx: Context, a: Tensor, b: Tensor) -> Tensor | Refused:
    """``a @ b`` of two matrices."""
    return _not_f32(a, b) or affine(cx, a.value, columns(cx, b), None)


@lowers(aten.bmm.default)
def bmm(cx: Context, a: Tensor, b: Tensor) -> Tensor | Refused:
    """``a @ b`` of two batches of matrices."""
    return _not_f32(a, b) or cx.out(cx.builder.emit("mul_mat", cx.builder.transpose(b.value), a.value))


@lowers(aten.addmm.default)
def addmm(cx: Context, bias: Tensor, a: Tensor, b: Tensor, beta: Any = 1, alpha: Any = 1) -> Tensor | Refused:
    """``beta * bias + alpha * (a @ b)``."""
    if refused := _not_f32(bias, a, b):
        return refused
    if alpha == 1 and beta == 1:
        return affine(cx, a.value, columns(cx, b), bias)
    scaled = cx.builder.emit("scale_bias", affine(cx, a.value, columns(cx, b), None).value, s=float(alpha), b=0.0)
    if beta == 0:
        return cx.out(scaled)  # torch reads no bias then, so that its NaN does not matter
    addend = cx.builder.emit("scale_bias", bias.value, s=float(beta), b=0.0)
    return cx.out(cx.builder.emit("add", scaled, addend))
