"""Images read between their pixels: resizing, and sampling at given places."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np

from ....ir.graph import Node
from ....ir.ops.spatial import SampleBorder, SampleKind, ScaleMode
from ..registry import Function, planned, shape_of

Floats = np.ndarray[Any, Any]  # of f32


# ----------------------------------------------------------------------------------------------------------- resizing


def _places(size: int, out: int, mode: ScaleMode) -> Floats:
    """Where each output pixel lies in the input, counted in f32 as torch does."""
    number, half = np.arange(out, dtype=np.float32), np.float32(0.5)
    if mode == ScaleMode.BILINEAR_ALIGN_CORNERS:
        step = np.float32(size - 1) / np.float32(out - 1) if out > 1 else np.float32(0)
        return np.multiply(number, step)
    scale = np.float32(size) / np.float32(out)
    if mode == ScaleMode.NEAREST:
        places: Floats = np.floor(number * scale)
    else:
        places = np.maximum(scale * (number + half) - half, np.float32(0))
    return places


@planned()
def interpolate_nhwc(node: Node) -> Function:
    """Images resized, one axis after the other."""
    mode = ScaleMode(node.attrs["mode"])
    a = node.inputs[0]
    assert a is not None
    steps: list[Callable[[mx.array], mx.array]] = []
    for axis in (1, 2):
        size, out = shape_of(a)[axis], shape_of(node.output)[axis]
        places = _places(size, out, mode)
        low = np.minimum(places.astype(np.int32), size - 1)
        steps.append(_blend(axis, low, np.minimum(low + 1, size - 1), places - low, nearest=mode == ScaleMode.NEAREST))
    return lambda a: steps[1](steps[0](a))


def _blend(axis: int, low: Any, high: Any, weight: Any, *, nearest: bool) -> Callable[[mx.array], mx.array]:
    """Pixels at two places along an axis, weighted."""
    first, second = mx.array(low), mx.array(high)
    share = mx.array(weight.astype(np.float32).reshape([-1 if d == axis else 1 for d in range(4)]))

    def blend(a: mx.array) -> mx.array:
        near = mx.take(a, first, axis=axis)
        return near if nearest else near * (1 - share) + mx.take(a, second, axis=axis) * share

    return blend


# ----------------------------------------------------------------------------------------------------------- sampling


def _unnormalized(place: mx.array, size: int, align_corners: bool) -> mx.array:
    """-1 to 1 as pixels."""
    return (place + 1) / 2 * (size - 1) if align_corners else ((place + 1) * size - 1) / 2


def _reflected(place: mx.array, twice_low: int, twice_high: int) -> mx.array:
    """Mirrored at both ends until it is between them; the ends are given doubled."""
    if twice_low == twice_high:
        return mx.zeros_like(place)
    low, span = twice_low / 2, (twice_high - twice_low) / 2
    place = mx.abs(place - low)
    flips = mx.floor(place / span)
    rest = place - flips * span
    odd = mx.remainder(flips, 2) != 0
    return mx.where(odd, span - rest, rest) + low


def _bordered(place: mx.array, size: int, border: SampleBorder, align_corners: bool) -> mx.array:
    if border == SampleBorder.ZEROS:
        return place
    if border == SampleBorder.REFLECTION:
        ends = (0, 2 * (size - 1)) if align_corners else (-1, 2 * size - 1)
        place = _reflected(place, *ends)
    return mx.clip(mx.where(mx.isnan(place), 0.0, place), 0, size - 1)


def _cubic(t: mx.array) -> list[mx.array]:
    """Weights of four neighbours, of which the second is ``t`` before the place (a = -0.75)."""
    a = -0.75

    def near(x: mx.array) -> mx.array:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: mx.array) -> mx.array:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


@planned()
def grid_sample_nhwc(node: Node) -> Function:
    """Pixels sampled at coordinates between -1 and 1."""
    kind, border = SampleKind(node.attrs["kind"]), SampleBorder(node.attrs["border"])
    align = bool(node.attrs["align_corners"])
    image = node.inputs[0]
    assert image is not None
    batch, height, width, _ = shape_of(image)
    number = mx.array(np.arange(batch).reshape(-1, 1, 1))

    def pixel(x: mx.array, row: mx.array, column: mx.array) -> mx.array:
        """Pixels at whole places; zeros outside, and for NaN."""
        inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        row, column = (mx.where(inside, place, 0.0).astype(mx.int32) for place in (row, column))
        return mx.where(inside[..., None], x[number, row, column], 0.0)

    def sample(x: mx.array, grid: mx.array) -> mx.array:
        across, down = _unnormalized(grid[..., 0], width, align), _unnormalized(grid[..., 1], height, align)
        if kind == SampleKind.BICUBIC:
            left, top = mx.floor(across), mx.floor(down)
            columns, rows = _cubic(across - left), _cubic(down - top)
            total = mx.zeros((), dtype=mx.float32)
            for i, j in itertools.product(range(4), range(4)):
                row = _bordered(top + (i - 1), height, border, align)
                column = _bordered(left + (j - 1), width, border, align)
                total = total + pixel(x, row, column) * (rows[i] * columns[j])[..., None]
            return total
        across, down = _bordered(across, width, border, align), _bordered(down, height, border, align)
        if kind == SampleKind.NEAREST:
            return pixel(x, mx.round(down), mx.round(across))
        left, top = mx.floor(across), mx.floor(down)
        right, low = across - left, down - top
        shares = (
            (0, 0, (1 - low) * (1 - right)),
            (0, 1, (1 - low) * right),
            (1, 0, low * (1 - right)),
            (1, 1, low * right),
        )
        total = mx.zeros((), dtype=mx.float32)
        for i, j, share in shares:
            total = total + pixel(x, top + i, left + j) * share[..., None]
        return total

    return sample
