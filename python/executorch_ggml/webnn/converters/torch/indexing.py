"""Reading and writing at indices."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from .module import computes

Tensor = torch.Tensor


def _inside(indices: Tensor, size: int) -> Tensor:
    """Indices from 0 on: negative ones count from the end, and those beyond are clamped."""
    indices = indices.to(torch.int64)
    return torch.where(indices < 0, indices + size, indices).clamp(0, size - 1)


def _flat(indices: Tensor, sizes: Sequence[int]) -> Tensor:
    """Coordinates, in the last dimension, as one index each."""
    flat = torch.zeros(indices.shape[:-1], dtype=torch.int64)
    for i, size in enumerate(sizes):
        flat = flat * size + _inside(indices[..., i], size)
    return flat.reshape(-1)


@computes("gather", moves=True)
def gather(input: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Slices along an axis."""
    places = _inside(indices, input.shape[axis]).reshape(-1)
    return input.index_select(axis, places).reshape(input.shape[:axis] + indices.shape + input.shape[axis + 1 :])


@computes("gather_elements", moves=True)
def gather_elements(input: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Elements along an axis."""
    return torch.gather(input, axis, _inside(indices, input.shape[axis]))


@computes("gather_nd", moves=True)
def gather_nd(input: Tensor, indices: Tensor) -> Tensor:
    """Slices at coordinates."""
    depth = indices.shape[-1]
    outer, inner = input.shape[:depth], input.shape[depth:]
    rows = input.reshape(math.prod(outer), math.prod(inner))
    return rows.index_select(0, _flat(indices, outer)).reshape(indices.shape[:-1] + inner)


@computes("scatter_elements", moves=True)
def scatter_elements(input: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    """Elements written along an axis."""
    return torch.scatter(input, axis, _inside(indices, input.shape[axis]), updates)


@computes("scatter_nd", moves=True)
def scatter_nd(input: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """Slices written at coordinates."""
    depth = indices.shape[-1]
    outer, inner = input.shape[:depth], input.shape[depth:]
    rows = input.reshape(math.prod(outer), math.prod(inner))
    places = _flat(indices, outer)[:, None].expand(-1, rows.shape[1])
    return torch.scatter(rows, 0, places, updates.reshape(-1, rows.shape[1])).reshape(input.shape)
