"""Quantizing and dequantizing."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ...data_types import integer_range
from .module import computes

Tensor = torch.Tensor


def _spread(blocks: Tensor, shape: Sequence[int]) -> Tensor:
    """A value for each block as one for each element."""
    for axis, size in enumerate(shape):
        if 1 < blocks.shape[axis] < size:
            blocks = blocks.repeat_interleave(size // blocks.shape[axis], axis)
    return blocks


@computes("dequantize_linear")
def dequantize_linear(input: Tensor, scale: Tensor, zero_point: Tensor) -> Tensor:
    """The difference is exact, then a product of floats."""
    difference = input.to(torch.int64) - _spread(zero_point, input.shape).to(torch.int64)
    return difference.to(scale.dtype) * _spread(scale, input.shape)


@computes("quantize_linear", typed=True)
def quantize_linear(input: Tensor, scale: Tensor, zero_point: Tensor, from_type: str, to_type: str) -> Tensor:
    """Rounded to even, moved by the zero point, limited to the type."""
    del from_type
    low, high = integer_range(to_type)
    rounded = torch.round(input / _spread(scale, input.shape)).double()
    moved = torch.nan_to_num(rounded, nan=0.0) + _spread(zero_point, input.shape).double()
    return moved.clamp(low, high).to(torch.int64)
