"""Quantizing and dequantizing, with blocks along any dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from ...ir.dtypes import DType
from ...ir.graph import Value
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


def _number(tensor: Tensor) -> float | None:
    """The element of a constant that has one."""
    if tensor.data is None or math.prod(int(n) for n in tensor.shape) != 1:
        return None
    return float(tensor.data())


@dataclass(frozen=True)
class _Grid:
    """A scale and a zero point that are known: what passes and kernels compute in integers with."""

    scale: float
    zero: int

    @staticmethod
    def of(scale: Tensor, zero_point: Tensor, integers: DType) -> _Grid | None:
        """Of 8 bits, one scale for all; None otherwise."""
        number, zero = _number(scale), _number(zero_point)
        if number is None or zero is None or integers not in (DType.I8, DType.U8) or not _is_regular(number):
            return None
        return _Grid(number, int(zero))

    def numbers(self, cx: Emitter, integers: Tensor) -> Value:
        """What integers stand for."""
        return cx.builder.emit("dequantize", integers.value, None, scale=self.scale, zero=self.zero)


def _is_regular(scale: float) -> bool:
    """Whether a scale is a number whose inverse f32 holds."""
    return math.isfinite(scale) and 2.0**-100 < abs(scale) < 2.0**100


@emits("dequantize_linear")
def dequantize_linear(cx: Emitter, input: Tensor, scale: Tensor, zero_point: Tensor) -> Tensor:
    """The difference is exact, then a product of floats."""
    if input.data is not None and scale.data is not None and zero_point.data is not None and _spans(input, scale):
        return _constant(cx, input, scale, zero_point)
    grid = _Grid.of(scale, zero_point, input.dtype)
    if grid is not None:
        return Tensor(grid.numbers(cx, input), input.shape)
    shape = [int(n) for n in input.shape]
    dtype = DType.I32 if input.dtype in (DType.I8, DType.U8) else DType.I64
    zeros = _spread(cx, cx.tensor(zero_point, dtype), shape)
    difference = cx.both(BinaryKind.SUB, cx.tensor(input, dtype), zeros)
    return cx.both(BinaryKind.MUL, cx.tensor(difference, DType.F32), _spread(cx, cx.f32(scale), shape))


def _spans(input: Tensor, scale: Tensor) -> bool:
    """Whether there is a scale for each index of some dims, and no smaller blocks."""
    return all(int(have) in (1, int(size)) for have, size in zip(scale.shape, input.shape, strict=True))


def _constant(cx: Emitter, input: Tensor, scale: Tensor, zero_point: Tensor) -> Tensor:
    """A constant dequantized ahead of time; of int8, passes choose between that and a layer of integers."""

    def floats(integers: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor) -> torch.Tensor:
        return (integers.long() - zeros.long()).float() * scales.float()

    numbers = cx.derived("dequantized", [input, scale, zero_point], [int(n) for n in input.shape], floats, DType.F32)
    grid = _Grid.of(scale, zero_point, input.dtype)
    if grid is not None and 2 <= input.rank <= 4:
        return replace(numbers, value=grid.numbers(cx, input))
    if not _has_channels(input, scale, zero_point):
        return numbers
    return replace(numbers, value=cx.builder.emit("dequantize", input.value, scale.value, scale=1.0, zero=0))


def _has_channels(input: Tensor, scale: Tensor, zero_point: Tensor) -> bool:
    """Whether int8 around 0 has one scale for each index of one dim."""
    wide = [size for size in scale.shape if int(size) > 1]
    is_plain = input.dtype == DType.I8 and scale.dtype == DType.F32 and 2 <= input.rank <= 4 and len(wide) == 1
    return is_plain and zero_point.data is not None and not bool(zero_point.data().any())


@emits("quantize_linear")
def quantize_linear(cx: Emitter, input: Tensor, scale: Tensor, zero_point: Tensor) -> Tensor:
    """Rounded to even, moved by the zero point and limited to the type, in integers."""
    low, high = integer_range(cx.result_type)
    grid = _Grid.of(scale, zero_point, cx.dtype())
    if grid is not None:
        limits = {"zero": grid.zero, "low": low, "high": high, "dtype": cx.dtype()}
        return Tensor(cx.builder.emit("quantize", cx.f32(input).value, inverse=1.0 / grid.scale, **limits), input.shape)
    shape = [int(n) for n in input.shape]
    quotient = cx.both(BinaryKind.DIV, cx.f32(input), _spread(cx, cx.f32(scale), shape))
    rounded = Tensor(cx.builder.emit("unary", quotient.value, kind=UnaryKind.ROUND), quotient.shape)
    whole = cx.tensor(cx.unary("clamp", rounded, min=-(2.0**40), max=2.0**40), DType.I64)
    moved = cx.both(BinaryKind.ADD, whole, _spread(cx, cx.tensor(zero_point, DType.I64), shape))
    return cx.with_number(BinaryKind.MINIMUM, cx.with_number(BinaryKind.MAXIMUM, moved, low), high)
