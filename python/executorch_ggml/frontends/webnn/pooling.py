"""Pooling of images."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...ir.dtypes import DType
from ...ir.ops.spatial import PoolKind, Window
from ...webnn.converters.places import seen_pixels
from ...webnn.data_types import integer_range
from ...webnn.graph_info import Array
from ..aten.ops.pooling import _pool
from ..aten.ops.shape import padded, window
from .emitter import Emitter, Tensor, emits, is_float

_NHWC_TO_NCHW, _NCHW_TO_NHWC = (2, 0, 1, 3), (1, 2, 0, 3)  # of dims in ggml's order
_EXACT = (DType.I8, DType.U8)  # integers that float32 holds


def _row(name: str, kind: PoolKind) -> None:
    @emits(name)
    def emit(
        cx: Emitter,
        input: Tensor,
        window_dimensions: Sequence[int],
        padding: Sequence[int],
        strides: Sequence[int],
        dilations: Sequence[int],
        layout: str,
        output_shape_rounding: str,
        output_sizes: Sequence[int] | None,
    ) -> Tensor:
        """Where the last window ends follows from the result's size."""
        del output_shape_rounding, output_sizes
        if not is_float(input) and input.dtype not in _EXACT:
            return _maxima(cx, input, window_dimensions, padding, strides, dilations, layout)
        x = cx.f32(input)
        sizes = dict(zip(layout, (int(n) for n in cx.shape()), strict=True))
        ne = (sizes["w"], sizes["h"], sizes["c"], sizes["n"])
        image = cx.builder.permute(x.value, _NHWC_TO_NCHW) if layout == "nhwc" else x.value
        windows = [Window(window_dimensions[i], strides[i], padding[2 * i], dilations[i]) for i in range(2)]
        image = cx.builder.emit("sqr", image) if name == "l2_pool2d" else image
        pooled = _pool(cx, image, ne, kind, windows, 1 if name == "l2_pool2d" else 0)
        pooled = cx.builder.emit("sqrt", pooled) if name == "l2_pool2d" else pooled
        result = Tensor(cx.builder.permute(pooled, _NCHW_TO_NHWC) if layout == "nhwc" else pooled, cx.shape())
        pixels = [int(input.shape[layout.index(letter)]) for letter in "hw"]
        seen = seen_pixels(pixels, (sizes["h"], sizes["w"]), window_dimensions, padding, strides, dilations)
        return result if seen.all() else _without_empty(cx, result, seen == 0, _of_nothing(cx, input, kind), layout)


def _of_nothing(cx: Emitter, input: Tensor, kind: PoolKind) -> float:
    """What a window gives that lies in the padding."""
    if kind != PoolKind.MAX:
        return 0.0
    return -math.inf if is_float(input) else integer_range(cx.data_type)[0]


def _without_empty(cx: Emitter, pooled: Tensor, empty: Array, number: float, layout: str) -> Tensor:
    """The result with a number where windows see no pixels."""
    along = [empty.shape["hw".index(letter)] if letter in "hw" else 1 for letter in layout]
    where = cx.list(empty.ravel().tolist(), DType.BOOL, along)
    return cx.chosen(where, cx.number(number, DType.F32), pooled)


_row("average_pool2d", PoolKind.AVG)
_row("l2_pool2d", PoolKind.AVG_PAD)
_row("max_pool2d", PoolKind.MAX)


def _maxima(
    cx: Emitter,
    input: Tensor,
    size: Sequence[int],
    padding: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    layout: str,
) -> Tensor:
    """Of integers that float32 does not hold: the greatest of the image's views, one for each place in the window."""
    x = cx.ordered(input)
    low = integer_range("int64" if cx.data_type == "uint64" else cx.data_type)[0]
    axes = [layout.index("h"), layout.index("w")]
    out = [int(n) for n in cx.shape()]
    for i, axis in enumerate(axes):
        reach = (out[axis] - 1) * strides[i] + (size[i] - 1) * dilations[i] + 1
        more = reach - padding[2 * i] - int(x.shape[axis])
        x = padded(cx, x, axis, padding[2 * i], more, low)
    for i, axis in enumerate(axes):
        views = [window(cx, x, axis, tap * dilations[i], out[axis], strides[i]) for tap in range(size[i])]
        x = views[0]
        for view in views[1:]:
            x = cx.greater(x, view)
    return cx.flipped(x) if cx.data_type == "uint64" else x
