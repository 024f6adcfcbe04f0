"""Resizing of images: along one axis after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...ir.dtypes import DType
from ...ir.ops.custom import BinaryKind, UnaryKind
from ...webnn.converters.places import source_places
from ..aten.ops.indexing import picked
from .emitter import Emitter, Tensor, emits, is_float


@emits("resample2d")
def resample2d(
    cx: Emitter, input: Tensor, mode: str, scales: Sequence[float], sizes: Sequence[int], axes: Sequence[int]
) -> Tensor:
    """By the nearest pixel, or by a line between two; 8-bit results are rounded."""
    del scales
    x = input if mode == "nearest-neighbor" else cx.tensor(input, DType.F32)
    for axis, size in zip(axes, sizes, strict=True):
        at = source_places(int(x.shape[axis]), size)
        if mode == "nearest-neighbor":
            x = _taken(cx, x, axis, [math.ceil(place - 0.5) for place in at])
            continue
        along = [size if i == axis else 1 for i in range(4)]
        low, high = (_taken(cx, x, axis, [part(place) for place in at]) for part in (math.floor, math.ceil))
        share = [place - math.floor(place) for place in at]
        low = cx.both(BinaryKind.MUL, low, cx.list([1 - part for part in share], DType.F32, along))
        x = cx.both(BinaryKind.ADD, low, cx.both(BinaryKind.MUL, high, cx.list(share, DType.F32, along)))
    if mode == "nearest-neighbor" or is_float(input):
        return x
    return Tensor(cx.builder.emit("unary", x.value, kind=UnaryKind.ROUND), x.shape)


def _taken(cx: Emitter, x: Tensor, axis: int, places: Sequence[int]) -> Tensor:
    shape = tuple(len(places) if i == axis else int(n) for i, n in enumerate(x.shape))
    if list(places) == list(range(int(x.shape[axis]))):
        return x
    line = cx.list(places, DType.I32, (len(places),))
    return Tensor(picked(cx, x, axis, axis + 1, line.value, wrap=False), shape)
