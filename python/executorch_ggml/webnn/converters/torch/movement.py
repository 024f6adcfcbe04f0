"""Operators that move elements."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ...data_types import cast_number
from .module import computes

Tensor = torch.Tensor


@computes("concat", moves=True)
def concat(inputs: list[Tensor], axis: int) -> Tensor:
    """One after the other."""
    return torch.cat(inputs, axis)


@computes("expand", moves=True)
def expand(input: Tensor, new_shape: Sequence[int]) -> Tensor:
    """Repeated where the size is 1."""
    return input.expand(list(new_shape)).clone()


@computes("reshape", moves=True)
def reshape(input: Tensor, new_shape: Sequence[int]) -> Tensor:
    """Another shape."""
    return input.reshape(list(new_shape)).clone()


@computes("reverse", moves=True)
def reverse(input: Tensor, axes: Sequence[int]) -> Tensor:
    """The other way round."""
    return torch.flip(input, list(axes))


@computes("slice", moves=True)
def slice_(input: Tensor, starts: Sequence[int], sizes: Sequence[int], strides: Sequence[int]) -> Tensor:
    """A strided part."""
    for axis, (start, size, stride) in enumerate(zip(starts, sizes, strides, strict=True)):
        input = input.narrow(axis, start, size)
        if stride > 1:
            input = torch.ops.aten.slice.Tensor(input, axis, 0, size, stride)
    return input.clone()


@computes("split", moves=True)
def split(input: Tensor, splits: Sequence[int], axis: int) -> list[Tensor]:
    """Parts."""
    return [part.clone() for part in torch.split(input, list(splits), axis)]


@computes("tile", moves=True)
def tile(input: Tensor, repetitions: Sequence[int]) -> Tensor:
    """The whole, repeated."""
    return input.repeat(list(repetitions))


@computes("transpose", moves=True)
def transpose(input: Tensor, permutation: Sequence[int]) -> Tensor:
    """Dimensions in another order."""
    return input.permute(list(permutation)).clone(memory_format=torch.contiguous_format)


@computes("triangular", moves=True)
def triangular(input: Tensor, upper: bool, diagonal: int) -> Tensor:
    """A triangle of each matrix."""
    return torch.triu(input, diagonal) if upper else torch.tril(input, diagonal)


@computes("pad", moves=True)
def pad(
    input: Tensor, beginning_padding: Sequence[int], ending_padding: Sequence[int], mode: str, value: float
) -> Tensor:
    """A number around, or by the index of what stands there instead."""
    if mode == "constant":
        both = [n for pair in zip(reversed(beginning_padding), reversed(ending_padding), strict=True) for n in pair]
        number = int(cast_number(value, "int64")) if not input.is_floating_point() and value < 2**63 else value
        if number >= 2**63 and not input.is_floating_point():
            number = int(number) - 2**64  # uint64 is carried in int64
        return torch.nn.functional.pad(input, both, value=number)
    for axis, (before, after) in enumerate(zip(beginning_padding, ending_padding, strict=True)):
        if before or after:
            size = input.shape[axis]
            places = [_inside(i, size, mode) for i in range(-before, size + after)]
            input = input.index_select(axis, torch.tensor(places))
    return input.clone()


def _inside(place: int, size: int, mode: str) -> int:
    if mode == "edge":
        return min(max(place, 0), size - 1)
    return abs(place) if place < size else 2 * (size - 1) - place
