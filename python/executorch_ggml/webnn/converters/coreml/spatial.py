"""Convolution, pooling and resizing of images."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from coremltools.converters.mil.mil import Builder as mb

from ..places import seen_pixels, source_places
from .emitter import CannotError, Emitter, Var, emits
from .movement import turned


def _to(x: Var, layout: str, wanted: str) -> Var:
    return turned(x, [layout.index(letter) for letter in wanted])


def _nchw(e: Emitter, layout: str) -> list[int]:
    return [e.shape[layout.index(letter)] for letter in "nchw"]


@emits("conv2d")
def conv2d(
    e: Emitter,
    input: Var,
    filter: Var,
    bias: Var | None = None,
    *,
    padding: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    groups: int,
    input_layout: str,
    filter_layout: str,
) -> Var:
    """Conv; the bias may be no constant, so it is added."""
    output = mb.conv(
        x=_to(input, input_layout, "nchw"),
        weight=_to(filter, filter_layout, "oihw"),
        strides=list(strides),
        pad_type="custom",
        pad=list(padding),
        dilations=list(dilations),
        groups=groups,
    )
    return _to(_biased(output, bias), "nchw", input_layout)


def _biased(image: Var, bias: Var | None) -> Var:
    if bias is None:
        return image
    return mb.add(x=image, y=mb.reshape(x=bias, shape=[1, int(bias.shape[0]), 1, 1]))


@emits("conv_transpose2d")
def conv_transpose2d(
    e: Emitter,
    input: Var,
    filter: Var,
    bias: Var | None = None,
    *,
    padding: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    output_padding: Sequence[int],
    output_sizes: Sequence[int] | None,
    groups: int,
    input_layout: str,
    filter_layout: str,
) -> Var:
    """The whole transposed convolution, cut and filled up to the result's size."""
    del output_padding, output_sizes
    x = mb.conv_transpose(
        x=_to(input, input_layout, "nchw"),
        weight=_to(filter, filter_layout, "iohw"),
        strides=list(strides),
        pad_type="valid",
        dilations=list(dilations),
        groups=groups,
    )
    for i, size in enumerate(_nchw(e, input_layout)[2:]):
        axis, before = 2 + i, padding[2 * i]
        more = before + size - int(x.shape[axis])
        if more > 0:
            shape = [more if j == axis else int(n) for j, n in enumerate(x.shape)]
            x = mb.concat(values=[x, mb.fill(shape=shape, value=e.number(0, x))], axis=axis)
        begin = [before if j == axis else 0 for j in range(4)]
        end = [before + size if j == axis else int(n) for j, n in enumerate(x.shape)]
        x = mb.slice_by_index(x=x, begin=begin, end=end)
    return _to(_biased(x, bias), "nchw", input_layout)


def _pool(name: str, op: str) -> None:
    @emits(name)
    def emit(
        e: Emitter,
        input: Var,
        window_dimensions: Sequence[int],
        padding: Sequence[int],
        strides: Sequence[int],
        dilations: Sequence[int],
        layout: str,
        output_shape_rounding: str,
        output_sizes: Sequence[int] | None,
    ) -> Var:
        """Sizes are rounded up by more padding at the end."""
        del output_shape_rounding, output_sizes
        if tuple(dilations) != (1, 1):
            raise CannotError("Core ML has no dilated pooling")
        if not e.is_float:
            raise CannotError(f"Core ML has no pooling of {e.data_type}")
        x, pads = _to(input, layout, "nchw"), list(padding)
        for i, size in enumerate(_nchw(e, layout)[2:]):
            room = int(x.shape[2 + i]) + padding[2 * i] + padding[2 * i + 1] - window_dimensions[i]
            pads[2 * i + 1] += max((size - 1) * strides[i] - room, 0)
        extra = {"exclude_padding_from_average": True} if op == "avg_pool" else {}
        output = getattr(mb, op)(
            x=x,
            kernel_sizes=list(window_dimensions),
            strides=list(strides),
            pad_type="custom",
            pad=pads,
            **extra,
        )
        seen = seen_pixels(x.shape[2:], _nchw(e, layout)[2:], window_dimensions, padding, strides, dilations)
        if not seen.all():
            none = e.number(-np.inf if op == "max_pool" else 0, output)
            empty = np.broadcast_to(seen == 0, output.shape).copy()
            output = mb.select(cond=mb.const(val=empty), a=none, b=output)
        return _to(output, "nchw", layout)


_pool("average_pool2d", "avg_pool")
_pool("l2_pool2d", "l2_pool")
_pool("max_pool2d", "max_pool")


@emits("resample2d")
def resample2d(
    e: Emitter, input: Var, mode: str, scales: Sequence[float], sizes: Sequence[int], axes: Sequence[int]
) -> Var:
    """Along one axis after the other, by places; 8-bit results of lines are rounded."""
    del scales
    x = input if mode == "nearest-neighbor" or e.is_float else e.cast(input, "fp32")
    for axis, size in zip(axes, sizes, strict=True):
        at = source_places(int(x.shape[axis]), size)
        if mode == "nearest-neighbor":
            x = mb.gather(x=x, indices=np.array([math.ceil(place - 0.5) for place in at], np.int32), axis=axis)
            continue
        shape = [size if i == axis else 1 for i in range(4)]
        low, high = (
            mb.gather(x=x, indices=np.array([part(place) for place in at], np.int32), axis=axis)
            for part in (math.floor, math.ceil)
        )
        share = np.array([place - math.floor(place) for place in at]).reshape(shape)
        kind = type(e.number(0, x))
        x = mb.add(x=mb.mul(x=low, y=(1 - share).astype(kind)), y=mb.mul(x=high, y=share.astype(kind)))
    return x if mode == "nearest-neighbor" or e.is_float else mb.round(x=x)
