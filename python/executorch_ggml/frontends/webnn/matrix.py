"""Matrix products."""

from __future__ import annotations

import math

import torch

from ...ir.dtypes import DType
from ...ir.ops.custom import BinaryKind
from ..aten.ops.shape import turned
from .emitter import Emitter, Tensor, emits

aten = torch.ops.aten


@emits("matmul")
def matmul(cx: Emitter, a: Tensor, b: Tensor) -> Tensor:
    """Of stacks of matrices: one product where the second is one matrix, else a batch."""
    a, b = cx.tensor(a, DType.F32), cx.tensor(b, DType.F32)
    *batch, rows, columns = (int(n) for n in cx.shape())
    inner = int(a.shape[-1])
    if math.prod(int(n) for n in b.shape[:-2]) == 1:
        count = math.prod(int(n) for n in a.shape[:-1])
        matrix = b if b.rank == 2 else cx.reshaped(b, (inner, columns))
        return cx.to(cx.shape(), DType.F32).aten(aten.mm.default, cx.reshaped(a, (count, inner)), matrix)
    outer = batch if len(batch) <= 2 else [math.prod(batch)]
    first = cx.reshaped(cx.spread(a, [*batch, rows, inner]), (*outer, rows, inner))
    second = cx.reshaped(cx.spread(b, [*batch, inner, columns]), (*outer, inner, columns))
    return cx.to(cx.shape(), DType.F32).aten(aten.bmm.default, first, second)


@emits("gemm")
def gemm(
    cx: Emitter,
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float,
    beta: float,
    a_transpose: bool,
    b_transpose: bool,
) -> Tensor:
    """``alpha * a @ b + beta * c``, in float32."""
    a, b = cx.tensor(a, DType.F32), cx.tensor(b, DType.F32)
    a = turned(cx, a, (1, 0)) if a_transpose else a
    inside = cx.to(cx.shape(), DType.F32)
    if c is not None and c.data is not None and alpha == beta == 1 and [int(n) for n in c.shape] == [inside.shape()[1]]:
        bias = cx.f32(c)
        return (
            inside.aten(aten.linear.default, a, b, bias) if b_transpose else inside.aten(aten.addmm.default, bias, a, b)
        )
    made = inside.aten(aten.linear.default if b_transpose else aten.mm.default, a, b)
    made = made if alpha == 1 else cx.affine(made, alpha, -0.0)
    if c is None:
        return made
    addend = cx.f32(c) if beta == 1 else cx.affine(c, beta, -0.0)
    return cx.both(BinaryKind.ADD, made, addend)
