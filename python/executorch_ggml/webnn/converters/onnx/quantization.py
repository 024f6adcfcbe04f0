"""Quantizing and dequantizing, with blocks along any dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from ...data_types import integer_range
from .writer import Value, Writer, emits


def _spread(w: Writer, blocks: Value, shape: Sequence[int]) -> Value:
    """A value for each block as one for each element, but where one is for all of a dimension."""
    for axis, size in enumerate(shape):
        have = blocks.shape[axis]
        if 1 < have < size:
            before, after = blocks.shape[:axis], blocks.shape[axis + 1 :]
            apart = w.reshape(blocks, [*before, have, 1, *after])
            repeated = [*before, have, size // have, *after]
            apart = w.call("Expand", apart, w.ints(repeated), shape=repeated)
            blocks = w.reshape(apart, [*before, size, *after])
    return blocks


@emits("dequantize_linear")
def dequantize_linear(w: Writer, input: Value, scale: Value, zero_point: Value) -> Value:
    """The difference in int64 is exact."""
    zeros = _spread(w, w.cast(zero_point, "int64"), input.shape)
    difference = w.broadcast("Sub", w.cast(input, "int64"), zeros)
    return w.broadcast("Mul", w.cast(difference, "float32"), _spread(w, w.wide(scale), input.shape))


@emits("quantize_linear")
def quantize_linear(w: Writer, input: Value, scale: Value, zero_point: Value) -> Value:
    """The sum in float64 is exact."""
    low, high = (w.constant(float(end), "float64") for end in integer_range(zero_point.data_type))
    quotient = w.call("Round", w.broadcast("Div", w.wide(input), _spread(w, w.wide(scale), input.shape)))
    zeros = _spread(w, w.cast(zero_point, "float64"), input.shape)
    moved = w.broadcast("Add", w.cast(quotient, "float64"), zeros)
    return w.cast(w.call("Clip", moved, low, high), "int64")
