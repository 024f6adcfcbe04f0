"""Operators that move elements."""

from __future__ import annotations

from collections.abc import Sequence

from ...data_types import numpy_type
from .writer import Value, Writer, emits


@emits("concat")
def concat(w: Writer, inputs: list[Value], axis: int) -> Value:
    """Concat."""
    return w.call("Concat", *inputs, shape=w.shape, axis=axis)


@emits("expand")
def expand(w: Writer, input: Value, new_shape: Sequence[int]) -> Value:
    """Expand."""
    return w.call("Expand", input, w.ints(new_shape), shape=new_shape)


@emits("reshape")
def reshape(w: Writer, input: Value, new_shape: Sequence[int]) -> Value:
    """Reshape."""
    return w.reshape(input, new_shape)


@emits("reverse")
def reverse(w: Writer, input: Value, axes: Sequence[int]) -> Value:
    """A slice backwards."""
    if not axes:
        return input
    last = [input.shape[axis] - 1 for axis in axes]
    ends = [-(2**31)] * len(axes)
    return w.call("Slice", input, w.ints(last), w.ints(ends), w.ints(axes), w.ints([-1] * len(axes)))


@emits("slice")
def slice_(w: Writer, input: Value, starts: Sequence[int], sizes: Sequence[int], strides: Sequence[int]) -> Value:
    """Slice, which a scalar has none of."""
    if not starts:
        return input
    ends = [start + size for start, size in zip(starts, sizes, strict=True)]
    axes = range(len(starts))
    return w.call("Slice", input, w.ints(starts), w.ints(ends), w.ints(axes), w.ints(strides), shape=w.shape)


@emits("split")
def split(w: Writer, input: Value, splits: Sequence[int], axis: int) -> list[Value]:
    """Split."""
    parts = [w.fresh(input.data_type, result.shape) for result in w.results]
    w.node("Split", [input, w.ints(splits)], parts, {"axis": axis})
    return parts


@emits("tile")
def tile(w: Writer, input: Value, repetitions: Sequence[int]) -> Value:
    """Tile."""
    return w.call("Tile", input, w.ints(repetitions), shape=w.shape) if repetitions else input


@emits("transpose")
def transpose(w: Writer, input: Value, permutation: Sequence[int]) -> Value:
    """Transpose."""
    return w.transpose(input, permutation)


@emits("triangular")
def triangular(w: Writer, input: Value, upper: bool, diagonal: int) -> Value:
    """Trilu, of float32 and int64 only."""
    x = w.wide(input) if input.data_type == "float16" else input
    x = x if x.is_float else w.cast(x, "int64")
    return w.call("Trilu", x, w.constant(diagonal, "int64"), upper=int(upper))


@emits("pad")
def pad(
    w: Writer, input: Value, beginning_padding: Sequence[int], ending_padding: Sequence[int], mode: str, value: float
) -> Value:
    """Pad."""
    if not input.shape:
        return input
    x = w.wide(input) if input.data_type == "float16" else input
    pads = w.ints([*beginning_padding, *ending_padding])
    modes = {"constant": "constant", "edge": "edge", "reflection": "reflect"}
    number = w.constant(numpy_type(x.data_type).type(value), x.data_type) if mode == "constant" else None
    return w.call("Pad", x, pads, number, shape=w.shape, mode=modes[mode])
