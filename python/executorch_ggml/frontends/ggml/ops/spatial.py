"""Images: convolutions, pooling, resizing."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ir.dtypes import DType
from ....ir.graph import Value
from ....ir.ops.spatial import NO_EPILOGUE, PoolKind, ScaleMode, Window, Window2d
from ..translate import Node, translates
from ..words import UnsupportedError


@translates("IM2COL")
def im2col(n: Node) -> Value:
    """Each window's pixels as a row: one view of the padded image a tap, put side by side."""
    stride_w, stride_h, pad_w, pad_h, step_w, step_h, flat = (n.i32(i) for i in range(7))
    kernel, image = n.source(0), n.f32(1)
    if not flat:
        image = n.b.reshape(n.b.cont(image), (image.ne[0], 1, image.ne[1], image.ne[2]))
    width, height = kernel.ne[0], kernel.ne[1] if flat else 1
    out_w, out_h = n.ne[1], n.ne[2] if flat else 1
    if not flat:
        stride_h, pad_h, step_h = 1, 0, 1
    return _columns(n, image, (width, height), (out_w, out_h), (stride_w, stride_h), (pad_w, pad_h), (step_w, step_h))


_Pair = tuple[int, int]


def _columns(n: Node, image: Value, kernel: _Pair, out: _Pair, stride: _Pair, pad: _Pair, step: _Pair) -> Value:
    """``[taps * channels, out_w, out_h, images]``, taps innermost."""
    channels, images = image.ne[2:]
    if any(pad):
        edges = (pad[0], pad[1], 0, 0)
        image = n.emit("pad_ext", image, lead=edges, trail=edges)
    taps = []
    for y in range(kernel[1]):
        for x in range(kernel[0]):
            tap = n.b.view(image, (x * step[0], y * step[1], 0, 0), (*out, channels, images), (*stride, 1, 1))
            taps.append(n.b.reshape(n.b.cont(tap), (1, out[0] * out[1], channels, images)))
    while len(taps) > 1:
        pairs = [n.emit("concat", a, b, dim=0) for a, b in zip(taps[::2], taps[1::2], strict=False)]
        taps = pairs + taps[len(taps) - len(taps) % 2 :]
    columns = n.b.permute(taps[0], (0, 2, 1, 3))
    return n.b.reshape(n.b.cont(columns), (kernel[0] * kernel[1] * channels, *out, images))


@translates("CONV_2D")
def conv_2d(n: Node) -> Value:
    """In one op, whose kernel is in ggml's order."""
    return _convolved(n, n.plain(0), groups=1)


@translates("CONV_2D_DW")
def conv_2d_dw(n: Node) -> Value:
    """Each channel by itself."""
    return _convolved(n, n.f32(0), groups=n.source(0).ne[3])


def _convolved(n: Node, kernel: Value, groups: int) -> Value:
    stride_w, stride_h, pad_w, pad_h, dilation_w, dilation_h = (n.i32(i) for i in range(6))
    kernel_w, kernel_h, _, filters = n.source(0).ne
    across, down = Window(kernel_w, stride_w, pad_w, dilation_w), Window(kernel_h, stride_h, pad_h, dilation_h)
    attrs: dict[str, Any] = {
        "ne": (n.ne[0], n.ne[1], filters, n.ne[3]),
        "window": Window2d(across, down),
        "groups": groups,
    }
    return n.emit("conv_2d", n.f32(1), kernel, None, epilogue=NO_EPILOGUE, **attrs)


@translates("POOL_2D")
def pool_2d(n: Node) -> Value:
    """Maxima or means; padding counts in these."""
    kind, *window = (n.i32(i) for i in range(7))
    return _pool(n, n.f32(0), kind, window, divisor=window[0] * window[1])


@translates("POOL_1D")
def pool_1d(n: Node) -> Value:
    """The same along rows, but padding does not count."""
    a, (kind, kernel, stride, pad) = n.f32(0), (n.i32(i) for i in range(4))
    rows = n.b.reshape(n.b.cont(a), (a.ne[0], 1, a.ne[1] * a.ne[2] * a.ne[3], 1))
    return n.b.reshape(n.b.cont(_pool(n, rows, kind, [kernel, 1, stride, 1, pad, 0], divisor=0)), n.ne)


def _pool(n: Node, image: Value, kind: int, window: list[int], divisor: int) -> Value:
    kernel_w, kernel_h, stride_w, stride_h, pad_w, pad_h = window
    if kind not in (0, 1):
        raise UnsupportedError(f"pooling #{kind}")
    out = [
        (size + 2 * pad - kernel) // stride + 1
        for size, pad, kernel, stride in (
            (image.ne[0], pad_w, kernel_w, stride_w),
            (image.ne[1], pad_h, kernel_h, stride_h),
        )
    ]
    return n.emit(
        "pool_2d",
        image,
        ne=(*out, *image.ne[2:]),
        kind=PoolKind.AVG if kind == 1 else PoolKind.MAX,
        window=Window2d(Window(kernel_w, stride_w, pad_w), Window(kernel_h, stride_h, pad_h)),
        divisor=divisor if kind == 1 else 0,
    )


@translates("UPSCALE")
def upscale(n: Node) -> Value:
    """To another size, by the nearest pixel or between two."""
    mode, a = n.i32(0), n.f32(0)
    modes = {0: ScaleMode.NEAREST, 1: ScaleMode.BILINEAR, 1 | 256: ScaleMode.BILINEAR_ALIGN_CORNERS}
    if mode not in modes or a.ne[2:] != n.ne[2:]:
        raise UnsupportedError("resizing of more than the two inner dims, bicubic, or antialiased")
    if mode == 0:
        return _nearest(n, a)
    return n.emit("interpolate", a, ne=n.ne, mode=modes[mode])


def _nearest(n: Node, a: Value) -> Value:
    """As ggml finds its places: it divides by ``out / size`` in f32."""
    for axis in (0, 1):
        size, out = a.ne[axis], n.ne[axis]
        if size != out:
            places = np.arange(out, dtype=np.float32) / (np.float32(out) / np.float32(size))
            places = np.minimum(places.astype(np.int64), size - 1).reshape([-1 if dim == axis else 1 for dim in (1, 0)])
            a = n.emit("take", a, n.constant(places, DType.I64), axis=axis, wrap=False)
    return a
