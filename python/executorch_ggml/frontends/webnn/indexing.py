"""Reading and writing at indices, which are put in range first."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ...ir.ops.custom import BinaryKind
from ..aten.ops.indexing import picked
from ..aten.ops.shape import window
from .emitter import Emitter, Tensor, emits

aten = torch.ops.aten


def _inside(cx: Emitter, indices: Tensor, size: int) -> Tensor:
    """Indices from 0 on: those beyond are clamped, and then negative ones count from the end."""
    clamped = cx.with_number(BinaryKind.MINIMUM, cx.with_number(BinaryKind.MAXIMUM, indices, -size), size - 1)
    return cx.with_number(BinaryKind.REMAINDER, clamped, size)


def _coordinates(cx: Emitter, indices: Tensor, sizes: Sequence[int]) -> list[Tensor]:
    """The coordinates in the last dimension, each as a tensor of indices."""
    shape = indices.shape[:-1]
    parts = [window(cx, indices, len(shape), i, 1) for i in range(len(sizes))]
    return [_inside(cx, cx.reshaped(part, shape), size) for part, size in zip(parts, sizes, strict=True)]


@emits("gather")
def gather(cx: Emitter, input: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Slices along an axis."""
    places = _inside(cx, indices, int(input.shape[axis]))
    line = cx.builder.reshape(places.value, (places.value.count,))
    return Tensor(picked(cx, input, axis, axis + 1, line, wrap=False), cx.shape())


@emits("gather_elements")
def gather_elements(cx: Emitter, input: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Elements along an axis."""
    return cx.aten(aten.gather.default, input, axis, _inside(cx, indices, int(input.shape[axis])))


@emits("gather_nd")
def gather_nd(cx: Emitter, input: Tensor, indices: Tensor) -> Tensor:
    """Slices at coordinates."""
    sizes = [int(n) for n in input.shape[: int(indices.shape[-1])]]
    return cx.aten(aten.index.Tensor, input, _coordinates(cx, indices, sizes))


@emits("scatter_elements")
def scatter_elements(cx: Emitter, input: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    """Elements written along an axis."""
    return cx.aten(aten.scatter.src, input, axis, _inside(cx, indices, int(input.shape[axis])), updates)


@emits("scatter_nd")
def scatter_nd(cx: Emitter, input: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """Slices written at coordinates."""
    sizes = [int(n) for n in input.shape[: int(indices.shape[-1])]]
    return cx.aten(aten.index_put.default, input, _coordinates(cx, indices, sizes), updates)
