"""Reading and writing at indices, which are put in range first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from coremltools.converters.mil.mil import Builder as mb

from .emitter import Emitter, Var, emits


def _inside(indices: Var, sizes: Sequence[int] | int) -> Var:
    """Indices from 0 on; ``sizes`` is one number, or one for each place in the last dimension."""
    limits = np.asarray(sizes, np.int32)
    x = mb.minimum(x=mb.maximum(x=indices, y=-limits), y=limits - np.int32(1))
    return mb.mod(x=x, y=limits)


@emits("gather")
def gather(e: Emitter, input: Var, indices: Var, axis: int) -> Var:
    """Gather."""
    del e
    return mb.gather(x=input, indices=_inside(indices, int(input.shape[axis])), axis=axis)


@emits("gather_elements")
def gather_elements(e: Emitter, input: Var, indices: Var, axis: int) -> Var:
    """GatherAlongAxis."""
    del e
    return mb.gather_along_axis(x=input, indices=_inside(indices, int(input.shape[axis])), axis=axis)


@emits("gather_nd")
def gather_nd(e: Emitter, input: Var, indices: Var) -> Var:
    """GatherNd."""
    del e
    return mb.gather_nd(x=input, indices=_inside(indices, [int(n) for n in input.shape[: int(indices.shape[-1])]]))


@emits("scatter_elements")
def scatter_elements(e: Emitter, input: Var, indices: Var, updates: Var, axis: int) -> Var:
    """ScatterAlongAxis."""
    del e
    places = _inside(indices, int(input.shape[axis]))
    return mb.scatter_along_axis(data=input, indices=places, updates=updates, axis=axis, mode="update")


@emits("scatter_nd")
def scatter_nd(e: Emitter, input: Var, indices: Var, updates: Var) -> Var:
    """ScatterNd."""
    del e
    places = _inside(indices, [int(n) for n in input.shape[: int(indices.shape[-1])]])
    return mb.scatter_nd(data=input, indices=places, updates=updates, mode="update")
