"""Matrix products. ggml's ``mul_mat(a, b)`` is ``b @ a.T`` with both read along rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from ....ir.dims import ne_of, product
from ....ir.dtypes import DType
from ....ir.graph import Value
from ....ir.ops.quantized import UNBOUNDED
from ....ir.ops.spatial import NO_EPILOGUE
from ..context import FLOATS, Context, Tensor
from ..registry import Refused, lowers
from .quantized import constant_behind, rearranged, widened

aten = torch.ops.aten


def _refusal(*tensors: Tensor | None) -> Refused | None:
    dtypes = {tensor.dtype for tensor in tensors if tensor is not None}
    if len(dtypes) == 1 and dtypes <= FLOATS:
        return None
    given = " and ".join(sorted(dtype.name.lower() for dtype in dtypes))
    return Refused(f"a matrix product in {given}: float32, float16 and bfloat16 are supported, one for all operands")


def columns(cx: Context, matrix: Tensor) -> Tensor:
    """A matrix transposed, so that its columns can be read as rows; a constant is transposed ahead of time."""
    rows, cols = matrix.shape
    if matrix.data is not None:
        made = rearranged(cx, matrix, "transposed", (int(cols), int(rows)), lambda w: w.t(), lambda dim: (1 - dim, 1))
        transposed = None if matrix.stored is None else matrix.stored.transposed
        return made if transposed is None else replace(made, stored=transposed())
    return Tensor(cx.builder.transpose(matrix.value), (cols, rows))


def product_of_rows(cx: Context, a: Value, b: Value) -> Value:
    """``b @ a.T``, in f32.

    Of bfloat16 ggml sums the products in f32 on every CPU. Of float16 it does not: those operands are widened.
    """
    if a.dtype == DType.F16:
        a, b = cx.builder.convert(a, DType.F32), cx.builder.convert(b, DType.F32)
    return cx.builder.emit("mul_mat", a, b)


def affine(cx: Context, rows: Value, weight: Tensor, bias: Tensor | None) -> Tensor:
    """``rows @ weight.T + bias``: a layer where the weight is constant, else ggml's product.

    A bfloat16 weight is left to ggml's product, which reads it as it is: CPUs have instructions for that. So is one
    that is stored in another type: ggml rounds the rows to what it multiplies that type with (blocks of int8, or f16).
    """
    if (stored := cx.as_stored_rows(weight)) is not None:
        matrix, factor = stored
        y = cx.builder.emit("mul_mat", matrix, cx.builder.convert(rows, DType.F32))
        y = y if factor is None else cx.builder.emit("mul", y, factor)
        return cx.rounded(y if bias is None else cx.builder.emit("add", y, cx.f32(bias).value))
    is_layer = weight.data is not None and 0 not in weight.shape and weight.dtype != DType.BF16
    if is_layer and (bias is None or tuple(bias.shape) == (weight.shape[0],)):
        addend = None if bias is None else cx.f32(bias).value
        x = cx.builder.convert(rows, DType.F32)
        return cx.rounded(cx.builder.emit("linear", x, weight.value, addend, epilogue=NO_EPILOGUE))
    y = product_of_rows(cx, weight.value, rows)
    return cx.rounded(y if bias is None else cx.builder.emit("add", y, cx.f32(bias).value))


@lowers(aten.linear.default, preserve=True)
def linear(cx: Context, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor | Refused:
    """``x @ weight.T + bias``."""
    if refused := _refusal(x, weight, bias):
        return refused
    if x.rank == 0 or weight.rank != 2:
        return Refused("a linear layer over a scalar, or with a weight that is not a matrix")
    rows = cx.builder.reshape(x.value, (x.shape[-1], product(x.shape[:-1])))
    return affine(cx, rows, weight, bias)


@lowers(aten.mm.default)
def mm(cx: Context, a: Tensor, b: Tensor) -> Tensor | Refused:
    """``a @ b`` of two matrices."""
    return _refusal(a, b) or affine(cx, a.value, widened(cx, columns(cx, b)), None)


@lowers(aten._int_mm.default, preserve=True)
def int_mm(cx: Context, a: Tensor, b: Tensor) -> Tensor | Refused:
    """``a @ b`` of two matrices of 8-bit integers, exactly: a sum of products that f32 counts to at a time."""
    width, rows = a.shape[-1], columns(cx, b)
    if not isinstance(width, int) or not {a.dtype, b.dtype} <= {DType.I8, DType.U8}:
        return Refused("an integer product of other types than int8 and uint8, or of a symbolic number of terms")
    rows = constant_behind(cx, rows) or rows
    total: Value | None = None
    for start in range(0, width, _EXACT_TERMS):
        count = min(_EXACT_TERMS, width - start)
        part = _product_of_bytes(cx, rows, a, start, count)
        part = cx.builder.convert(part, DType.I32)
        total = part if total is None else cx.builder.emit("add", total, part)
    return cx.out(cx.builder.fill(ne_of(cx.shape()), 0, DType.I32) if total is None else total)


def _product_of_bytes(cx: Context, rows: Tensor, a: Tensor, start: int, count: int) -> Value:
    """``a @ rows.T`` of some of the columns, in f32."""
    x = cx.builder.view(a.value, (start, 0, 0, 0), (count, a.value.ne[1]))
    if rows.data is None or rows.dtype != DType.I8 or 0 in rows.shape:
        matrix = cx.builder.view(cx.tensor(rows, DType.F32).value, (start, 0, 0, 0), (count, rows.value.ne[1]))
        return cx.builder.emit("mul_mat", matrix, cx.builder.convert(x, DType.F32))
    shape = (int(rows.shape[0]), count)
    weight = cx.derived(f"from{start}", [rows], shape, lambda w: w[:, start : start + count]).value
    ones = cx.builder.constant(f"ones{shape[0]}", DType.F32, (shape[0], 1, 1, 1), lambda: torch.ones(shape[0]))
    return cx.builder.emit("quantized_linear", x, weight, ones, None, zero=0, output=UNBOUNDED)


_EXACT_TERMS = 512  # 2 ** 24 over 255 * 128


@lowers(aten.bmm.default)
def bmm(cx: Context, a: Tensor, b: Tensor) -> Tensor | Refused:
    """``a @ b`` of two batches of matrices."""
    return _refusal(a, b) or cx.rounded(product_of_rows(cx, cx.builder.transpose(b.value), a.value))


@lowers(aten.addmm.default)
def addmm(cx: Context, bias: Tensor, a: Tensor, b: Tensor, beta: Any = 1, alpha: Any = 1) -> Tensor | Refused:
    """``beta * bias + alpha * (a @ b)``."""
    if refused := _refusal(bias, a, b):
        return refused
    if alpha == 1 and beta == 1:
        return affine(cx, a.value, columns(cx, b), bias)
    y = product_of_rows(cx, columns(cx, b).value, a.value)
    scaled = cx.builder.emit("scale_bias", y, s=float(alpha), b=0.0)
    if beta == 0:
        return cx.rounded(scaled)  # torch reads no bias then, so that its NaN does not matter
    addend = cx.builder.emit("scale_bias", cx.f32(bias).value, s=float(beta), b=0.0)
    return cx.rounded(cx.builder.emit("add", scaled, addend))
