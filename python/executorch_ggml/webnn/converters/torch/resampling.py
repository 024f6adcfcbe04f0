"""Resizing of images: along one axis after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from ..places import source_places
from .module import computes

Tensor = torch.Tensor


@computes("resample2d")
def resample2d(input: Tensor, mode: str, scales: Sequence[float], sizes: Sequence[int], axes: Sequence[int]) -> Tensor:
    """By the nearest pixel, or by a line between two; 8-bit results are rounded."""
    del scales
    if mode == "nearest-neighbor":
        for axis, size in zip(axes, sizes, strict=True):
            places = [math.ceil(at - 0.5) for at in source_places(input.shape[axis], size)]
            input = input.index_select(axis, torch.tensor(places))
        return input
    x = input if input.is_floating_point() else input.float()
    for axis, size in zip(axes, sizes, strict=True):
        at = source_places(x.shape[axis], size)
        shape = [size if i == axis else 1 for i in range(4)]
        part = torch.tensor([place - math.floor(place) for place in at], dtype=x.dtype).reshape(shape)
        low = x.index_select(axis, torch.tensor([math.floor(place) for place in at]))
        high = x.index_select(axis, torch.tensor([math.ceil(place) for place in at]))
        x = low * (1 - part) + high * part
    return x if input.is_floating_point() else torch.round(x)
