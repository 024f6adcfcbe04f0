"""Quantizing and dequantizing, with blocks along any dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...ir.dtypes import DType
from ...ir.ops.custom import BinaryKind, UnaryKind
from ...webnn.data_types import integer_range
from .emitter import Emitter, Tensor, emits


def _spread(cx: Emitter, blocks: Tensor, shape: Sequence[int]) -> Tensor:
    """A value for each block as one for each element, but where one is for all of a dimension."""
    for axis, size in enumerate(shape):
        have = int(blocks.shape[axis])
        if 1 < have < size:
            sizes = [int(n) for n in blocks.shape]
            outer, inner, times = math.prod(sizes[:axis]), math.prod(sizes[axis + 1 :]), size // have
            apart = cx.builder.reshape(blocks.value, (inner, 1, have, outer))
            repeated = Tensor(cx.builder.broadcast(apart, (inner, times, have, outer)), (outer, have, times, inner))
            blocks = cx.reshaped(repeated, [*sizes[:axis], size, *sizes[axis + 1 :]])
    return blocks


@emits("dequantize_linear")
def dequantize_linear(cx: Emitter, input: Tensor, scale: Tensor, zero_point: Tensor) -> Tensor:
    """The difference is exact, then a product of floats."""
    shape = [int(n) for n in input.shape]
    dtype = DType.I32 if input.dtype in (DType.I8, DType.U8) else DType.I64
    zeros = _spread(cx, cx.tensor(zero_point, dtype), shape)
    difference = cx.both(BinaryKind.SUB, cx.tensor(input, dtype), zeros)
    return cx.both(BinaryKind.MUL, cx.tensor(difference, DType.F32), _spread(cx, cx.f32(scale), shape))


@emits("quantize_linear")
def quantize_linear(cx: Emitter, input: Tensor, scale: Tensor, zero_point: Tensor) -> Tensor:
    """Rounded to even, moved by the zero point and limited to the type, in integers."""
    shape = [int(n) for n in input.shape]
    quotient = cx.both(BinaryKind.DIV, cx.f32(input), _spread(cx, cx.f32(scale), shape))
    rounded = Tensor(cx.builder.emit("unary", quotient.value, kind=UnaryKind.ROUND), quotient.shape)
    whole = cx.tensor(cx.unary("clamp", rounded, min=-(2.0**40), max=2.0**40), DType.I64)
    moved = cx.both(BinaryKind.ADD, whole, _spread(cx, cx.tensor(zero_point, DType.I64), shape))
    low, high = integer_range(cx.result_type)
    return cx.with_number(BinaryKind.MINIMUM, cx.with_number(BinaryKind.MAXIMUM, moved, low), high)
