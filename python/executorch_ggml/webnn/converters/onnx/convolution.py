"""Convolution and pooling of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...data_types import integer_range
from ...graph_info import Array
from ..places import seen_pixels
from .writer import CannotError, Value, Writer, emits


def _pads(padding: Sequence[int]) -> list[int]:
    top, bottom, left, right = padding
    return [top, left, bottom, right]


@emits("conv2d")
def conv2d(
    w: Writer,
    input: Value,
    filter: Value,
    bias: Value | None = None,
    *,
    padding: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    groups: int,
    input_layout: str,
    filter_layout: str,
) -> Value:
    """Conv."""
    x, weight = w.turned(w.wide(input), input_layout, "nchw"), w.turned(w.wide(filter), filter_layout, "oihw")
    output = w.call(
        "Conv",
        x,
        weight,
        None if bias is None else w.wide(bias),
        shape=_nchw(w.shape, input_layout),
        pads=_pads(padding),
        strides=list(strides),
        dilations=list(dilations),
        group=groups,
    )
    return w.turned(output, "nchw", input_layout)


@emits("conv_transpose2d")
def conv_transpose2d(
    w: Writer,
    input: Value,
    filter: Value,
    bias: Value | None = None,
    *,
    padding: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    output_padding: Sequence[int],
    output_sizes: Sequence[int] | None,
    groups: int,
    input_layout: str,
    filter_layout: str,
) -> Value:
    """ConvTranspose."""
    x, weight = w.turned(w.wide(input), input_layout, "nchw"), w.turned(w.wide(filter), filter_layout, "iohw")
    shape = _nchw(w.shape, input_layout)
    least = [
        (x.shape[2 + i] - 1) * strides[i]
        + (weight.shape[2 + i] - 1) * dilations[i]
        + 1
        - sum(padding[2 * i : 2 * i + 2])
        for i in range(2)
    ]
    more = list(output_padding) if output_sizes is None else [n - m for n, m in zip(output_sizes, least, strict=True)]
    output = w.call(
        "ConvTranspose",
        x,
        weight,
        None if bias is None else w.wide(bias),
        shape=shape,
        pads=_pads(padding),
        strides=list(strides),
        dilations=list(dilations),
        output_padding=more,
        group=groups,
    )
    return w.turned(output, "nchw", input_layout)


def _nchw(shape: Sequence[int], layout: str) -> tuple[int, ...]:
    return tuple(shape[layout.index(letter)] for letter in "nchw")


def _pool(name: str, op: str) -> None:
    @emits(name)
    def emit(
        w: Writer,
        input: Value,
        window_dimensions: Sequence[int],
        padding: Sequence[int],
        strides: Sequence[int],
        dilations: Sequence[int],
        layout: str,
        output_shape_rounding: str,
        output_sizes: Sequence[int] | None,
    ) -> Value:
        """Sizes are rounded up by more padding at the end, since ONNX drops windows that lie in it."""
        del output_shape_rounding, output_sizes
        x = w.turned(_poolable(w, input), layout, "nchw")
        shape = _nchw(w.shape, layout)
        pads = list(padding)
        for i in range(2):
            reach = (window_dimensions[i] - 1) * dilations[i] + 1
            room = x.shape[2 + i] + padding[2 * i] + padding[2 * i + 1] - reach
            pads[2 * i + 1] += max((shape[2 + i] - 1) * strides[i] - room, 0)
        window: dict[str, Any] = {
            "kernel_shape": list(window_dimensions),
            "strides": list(strides),
            "dilations": list(dilations),
        }
        seen = seen_pixels(x.shape[2:], shape[2:], window_dimensions, padding, strides, dilations)
        if max(pads[:2]) < window_dimensions[0] and max(pads[2:]) < window_dimensions[1]:
            made = w.call(op, x, shape=shape, pads=_pads(pads), **window)
        else:
            made = _padded_pool(w, op, x, pads, shape, window, seen)
        if not seen.all():
            lowest = -np.inf if input.is_float else integer_range(input.data_type)[0]
            number = w.scalar(lowest if op == "MaxPool" else 0, made)
            made = w.call("Where", w.constant(seen == 0, "bool"), number, made, data_type=made.data_type, shape=shape)
        return w.turned(made, "nchw", layout)


def _poolable(w: Writer, x: Value) -> Value:
    """In a type that MaxPool has."""
    if x.data_type in ("int64", "uint64"):
        raise CannotError(f"ONNX Runtime has no pooling of {x.data_type}")
    return (
        w.cast(x, "float64")
        if x.data_type in ("int32", "uint32")
        else x
        if x.data_type in ("int8", "uint8")
        else w.wide(x)
    )


def _padded_pool(
    w: Writer, op: str, x: Value, pads: Sequence[int], shape: Sequence[int], window: dict[str, Any], seen: Array
) -> Value:
    """Pooling of an image padded beforehand: the node takes no padding as large as the window."""
    lowest = -np.inf if x.is_float else integer_range(x.data_type)[0]
    for i in range(2):
        x = _surrounded(w, x, 2 + i, pads[2 * i], pads[2 * i + 1], lowest if op == "MaxPool" else 0)
    made = w.call(op, x, shape=shape, **window)
    if op != "AveragePool":
        return made
    whole = np.prod(window["kernel_shape"]) / np.maximum(seen, 1)
    return w.call("Mul", made, w.constant(whole, x.data_type))


def _surrounded(w: Writer, x: Value, axis: int, before: int, after: int, number: float) -> Value:
    """More of an axis. ONNX Runtime 1.31 moves the zeros of a Pad node into the pooling, and then refuses them."""
    shapes = [[count if i == axis else size for i, size in enumerate(x.shape)] for count in (before, after)]
    near, far = (w.constant(np.full(shape, number), x.data_type) for shape in shapes)
    parts = [part for part in (near, x, far) if part.shape[axis]]
    whole = [sum(part.shape[axis] for part in parts) if i == axis else size for i, size in enumerate(x.shape)]
    return w.call("Concat", *parts, shape=whole, axis=axis) if len(parts) > 1 else x


_pool("average_pool2d", "AveragePool")
_pool("l2_pool2d", "LpPool")
_pool("max_pool2d", "MaxPool")
