"""Operators that move elements."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ...ir.dims import ne_of
from ...ir.dtypes import DType
from ...ir.ops.custom import BinaryKind
from ..aten.ops.shape import joined, turned, window
from .emitter import Emitter, Tensor, emits

aten = torch.ops.aten


@emits("concat")
def concat(cx: Emitter, inputs: list[Tensor], axis: int) -> Tensor:
    """One after the other."""
    return joined(cx, inputs, axis)


@emits("expand")
def expand(cx: Emitter, input: Tensor, new_shape: Sequence[int]) -> Tensor:
    """Repeated where the size is 1."""
    return cx.spread(input, new_shape)


@emits("reshape")
def reshape(cx: Emitter, input: Tensor, new_shape: Sequence[int]) -> Tensor:
    """Another shape."""
    made = cx.builder.reshape(input.value, ne_of(new_shape))
    return Tensor(made, tuple(new_shape))


@emits("reverse")
def reverse(cx: Emitter, input: Tensor, axes: Sequence[int]) -> Tensor:
    """The other way round."""
    return cx.aten(aten.flip.default, input, axes)


@emits("slice")
def slice_(cx: Emitter, input: Tensor, starts: Sequence[int], sizes: Sequence[int], strides: Sequence[int]) -> Tensor:
    """A strided part."""
    for axis, (start, size, stride) in enumerate(zip(starts, sizes, strides, strict=True)):
        if (start, size, stride) != (0, input.shape[axis], 1):
            input = window(cx, input, axis, start, -(-size // stride), stride)
    return input


@emits("split")
def split(cx: Emitter, input: Tensor, splits: Sequence[int], axis: int) -> list[Tensor]:
    """Parts."""
    starts = [sum(splits[:i]) for i in range(len(splits))]
    return [window(cx, input, axis, start, size) for start, size in zip(starts, splits, strict=True)]


@emits("tile")
def tile(cx: Emitter, input: Tensor, repetitions: Sequence[int]) -> Tensor:
    """The whole, repeated."""
    return cx.aten(aten.repeat.default, input, repetitions)


@emits("transpose")
def transpose(cx: Emitter, input: Tensor, permutation: Sequence[int]) -> Tensor:
    """Dimensions in another order."""
    return turned(cx, input, permutation) if permutation else input


@emits("triangular")
def triangular(cx: Emitter, input: Tensor, upper: bool, diagonal: int) -> Tensor:
    """0 on one side of a diagonal: where column - row is below it, or above it."""
    rows, columns = input.shape[-2:]
    line = Tensor(cx.builder.emit("iota", ne=(columns, 1, 1, 1), start=0, step=1, dtype=DType.I64), (1, columns))
    down = cx.builder.emit("iota", ne=(rows, 1, 1, 1), start=0, step=1, dtype=DType.I64)
    apart = cx.both(BinaryKind.SUB, line, cx.reshaped(Tensor(down, (rows,)), (rows, 1)))
    kept = cx.with_number(BinaryKind.GE if upper else BinaryKind.LE, apart, diagonal)
    return cx.chosen(kept, input, cx.number(0, input.dtype))


@emits("pad")
def pad(
    cx: Emitter, input: Tensor, beginning_padding: Sequence[int], ending_padding: Sequence[int], mode: str, value: float
) -> Tensor:
    """A number around, or what the tensor itself has."""
    amounts = [n for pair in zip(reversed(beginning_padding), reversed(ending_padding), strict=True) for n in pair]
    if mode == "constant":
        carried = int(value) - 2**64 if cx.data_type == "uint64" and value >= 2**63 else value
        return cx.aten(aten.constant_pad_nd.default, input, amounts, carried)
    modes = {"edge": "replicate", "reflection": "reflect"}
    return cx.aten(aten.pad.default, input, amounts, modes[mode])
