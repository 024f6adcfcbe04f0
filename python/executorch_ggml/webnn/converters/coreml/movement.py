"""Operators that move elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from coremltools.converters.mil.mil import Builder as mb

from .emitter import Emitter, Var, emits


@emits("concat")
def concat(e: Emitter, inputs: list[Var], axis: int) -> Var:
    """Concat."""
    del e
    return mb.concat(values=inputs, axis=axis)


@emits("expand")
def expand(e: Emitter, input: Var, new_shape: Sequence[int]) -> Var:
    """Tile, where the size is 1."""
    del e
    return repeated(input, new_shape)


def repeated(x: Var, shape: Sequence[int]) -> Var:
    """A value broadcast to a shape."""
    if not shape:
        return x
    padded = [1] * (len(shape) - len(x.shape)) + [int(n) for n in x.shape]
    x = x if list(x.shape) == padded else mb.reshape(x=x, shape=padded)
    times = [wanted // size for wanted, size in zip(shape, padded, strict=True)]
    return x if all(n == 1 for n in times) else mb.tile(x=x, reps=times)


@emits("reshape")
def reshape(e: Emitter, input: Var, new_shape: Sequence[int]) -> Var:
    """Reshape; of one element to a scalar by squeezing."""
    del e
    return reshaped(input, new_shape)


def reshaped(x: Var, shape: Sequence[int]) -> Var:
    """A value in another shape."""
    if tuple(x.shape) == tuple(shape):
        return x
    if not shape:
        return mb.squeeze(x=x)
    return mb.reshape(x=x, shape=list(shape))


@emits("reverse")
def reverse(e: Emitter, input: Var, axes: Sequence[int]) -> Var:
    """Reverse."""
    del e
    return mb.reverse(x=input, axes=list(axes)) if axes else input


@emits("slice")
def slice_(e: Emitter, input: Var, starts: Sequence[int], sizes: Sequence[int], strides: Sequence[int]) -> Var:
    """A range of each dimension."""
    del e
    if not starts:
        return input
    ends = [start + size for start, size in zip(starts, sizes, strict=True)]
    return mb.slice_by_index(x=input, begin=list(starts), end=ends, stride=list(strides))


@emits("split")
def split(e: Emitter, input: Var, splits: Sequence[int], axis: int) -> list[Var]:
    """Split; one part is the whole."""
    del e
    made = mb.split(x=input, split_sizes=list(splits), axis=axis) if len(splits) > 1 else [input]
    return list(made)


@emits("tile")
def tile(e: Emitter, input: Var, repetitions: Sequence[int]) -> Var:
    """Tile."""
    del e
    return mb.tile(x=input, reps=list(repetitions)) if repetitions else input


@emits("transpose")
def transpose(e: Emitter, input: Var, permutation: Sequence[int]) -> Var:
    """Transpose."""
    del e
    return turned(input, permutation)


def turned(x: Var, permutation: Sequence[int]) -> Var:
    """A value with its dimensions in another order."""
    return x if list(permutation) == list(range(len(permutation))) else mb.transpose(x=x, perm=list(permutation))


@emits("triangular")
def triangular(e: Emitter, input: Var, upper: bool, diagonal: int) -> Var:
    """A product with a matrix of ones and zeros would make NaN of infinities, so a choice."""
    rows, columns = e.shape[-2:]
    apart = np.arange(columns)[None] - np.arange(rows)[:, None]
    kept = np.broadcast_to(apart >= diagonal if upper else apart <= diagonal, e.shape)
    none = mb.fill(shape=list(e.shape), value=e.number(0, input))
    return mb.select(cond=mb.const(val=np.array(kept)), a=input, b=none)


@emits("pad")
def pad(
    e: Emitter, input: Var, beginning_padding: Sequence[int], ending_padding: Sequence[int], mode: str, value: float
) -> Var:
    """A number around by joining; the edge or the mirror by its places."""
    x = input
    for axis, (before, after) in enumerate(zip(beginning_padding, ending_padding, strict=True)):
        if not before and not after:
            continue
        size = int(x.shape[axis])
        if mode == "constant":
            parts = [_block(e, x, axis, before, value), x, _block(e, x, axis, after, value)]
            x = mb.concat(values=[part for part in parts if part is not None], axis=axis)
            continue
        places = range(-before, size + after)
        inside = [
            min(max(i, 0), size - 1) if mode == "edge" else abs(i) if i < size else 2 * (size - 1) - i for i in places
        ]
        x = mb.gather(x=x, indices=np.array(inside, np.int32), axis=axis)
    return x


def _block(e: Emitter, x: Var, axis: int, count: int, value: float) -> Var | None:
    if not count:
        return None
    shape = [count if i == axis else int(n) for i, n in enumerate(x.shape)]
    return mb.fill(shape=shape, value=e.number(value, x))
