"""Images, channels innermost: convolution and pooling."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from ....frontends.ggml.linear import is_linear
from ....ir.graph import Node
from ....ir.ops.spatial import Activation, Epilogue, PoolKind, Window, Window3d, far_pad
from ..registry import Function, planned, shape_of
from .elementwise import gelu_exact, hard_swish, relu_of, silu_of

# -------------------------------------------------------------------------------------------------------- convolution


def _activation(node: Node) -> Callable[[mx.array], mx.array]:
    epilogue: Epilogue = node.attrs["epilogue"]
    low, high = epilogue.low, epilogue.high
    functions: dict[Activation, Callable[[mx.array], mx.array]] = {
        Activation.NONE: lambda x: x,
        Activation.CLAMP: relu_of if (low, high) == (0, math.inf) else lambda x: mx.clip(x, low, high),
        Activation.SILU: silu_of,
        Activation.HARDSWISH: hard_swish,
        Activation.GELU_ERF: gelu_exact,
    }
    return functions[epilogue.activation]


@dataclass(frozen=True)
class _Window(Window):
    """A sliding window along an axis of ``size`` pixels, of which there are ``out``."""

    size: int = 0
    out: int = 0

    @staticmethod
    def of(window: Window, size: int, out: int) -> _Window:
        return _Window(window.kernel, window.stride, window.pad, window.dilation, window.up, size, out)

    @property
    def far(self) -> int:
        """Padding of the far side; negative where the windows do not reach it."""
        return far_pad((self.size - 1) * self.up + 1, self.out, self)


def _windows(node: Node) -> tuple[_Window, _Window]:
    """Down and across."""
    x, window = node.inputs[0], node.attrs["window"]
    assert x is not None
    (height, width), (oh, ow) = shape_of(x)[1:3], shape_of(node.output)[1:3]
    return _Window.of(window.h, height, oh), _Window.of(window.w, width, ow)


def _spread(x: mx.array, axis: int, up: int) -> mx.array:
    """Put ``up - 1`` zeros between the elements along an axis."""
    if up == 1:
        return x
    size = x.shape[axis]
    wide = mx.pad(mx.expand_dims(x, axis + 1), [(0, up - 1) if d == axis + 1 else (0, 0) for d in range(5)])
    shape = [n * up if d == axis else n for d, n in enumerate(x.shape)]
    return wide.reshape(shape)[(slice(None),) * axis + (slice(0, (size - 1) * up + 1),)]


def _fitted(x: mx.array, windows: tuple[_Window, _Window]) -> mx.array:
    """The image as the windows see it: spread, padded, and cut where a padding is negative."""
    for axis, window in enumerate(windows, 1):
        x = _spread(x, axis, window.up)
        near, far = window.pad, window.far
        if near < 0 or far < 0:
            end = x.shape[axis] + min(far, 0)
            x = x[(slice(None),) * axis + (slice(max(-near, 0), end),)]
        if near > 0 or far > 0:
            x = mx.pad(x, [(max(near, 0), max(far, 0)) if d == axis else (0, 0) for d in range(4)])
    return x


def _kernel(weight: mx.array, node: Node) -> mx.array:
    """The weight in f32 as :func:`conv_2d_nhwc` reads it, from ``OC, IC / groups, KH, KW``."""
    weight = weight.astype(mx.float32)
    if is_linear(node.attrs):
        return weight[:, :, 0, 0].T
    if _is_depthwise(node):
        return mx.contiguous(weight[:, 0].transpose(1, 2, 0))
    return mx.contiguous(weight.transpose(0, 2, 3, 1))


def _is_depthwise(node: Node) -> bool:
    x, window = node.inputs[0], node.attrs["window"]
    assert x is not None
    is_dense = window.w.up == window.h.up == 1
    return is_dense and bool(node.attrs["groups"] == x.ne[0] == node.output.ne[0])


def _flat(bias: mx.array, node: Node) -> mx.array:
    return bias.reshape(-1)


@planned(prepare={1: _kernel, 2: _flat})
def conv_2d_nhwc(node: Node) -> Function:
    """Convolution with bias and activation, in f32."""
    windows = _windows(node)
    activate = _activation(node)
    how: dict[str, Any] = {
        "stride": tuple(w.stride for w in windows),
        "kernel_dilation": tuple(w.dilation for w in windows),
        "groups": int(node.attrs["groups"]),
    }
    padding = ([w.pad for w in windows], [w.far for w in windows])
    plain = all(w.pad >= 0 and w.far >= 0 for w in windows)
    exact = all(w.pad == 0 and w.far == 0 for w in windows)

    def multiply(x: mx.array, matrix: mx.array, bias: mx.array | None = None) -> mx.array:
        x = x if exact else _fitted(x, windows)
        return activate(x @ matrix if bias is None else mx.addmm(bias, x, matrix))

    def convolve(x: mx.array, weight: mx.array, bias: mx.array | None = None) -> mx.array:
        if plain:
            y = mx.conv_general(x, weight, padding=padding, input_dilation=tuple(w.up for w in windows), **how)
        else:
            y = mx.conv_general(_fitted(x, windows), weight, **how)
        return activate(y if bias is None else y + bias)

    if is_linear(node.attrs):
        return multiply
    return _by_taps(windows, activate) if _is_depthwise(node) else convolve


def _by_taps(windows: tuple[_Window, _Window], activate: Callable[[mx.array], mx.array]) -> Function:
    """Depthwise convolution: the image shifted by each tap, times the tap's row of weights."""
    down, across = windows

    def tap(image: mx.array, row: int, column: int) -> mx.array:
        top, left = row * down.dilation, column * across.dilation
        rows = slice(top, top + (down.out - 1) * down.stride + 1, down.stride)
        return image[:, rows, slice(left, left + (across.out - 1) * across.stride + 1, across.stride)]

    def convolve(x: mx.array, weight: mx.array, bias: mx.array | None = None) -> mx.array:
        image = _fitted(x, windows)
        taps = [(row, column) for row in range(down.kernel) for column in range(across.kernel)]
        y = functools.reduce(mx.add, (tap(image, *at) * weight[at] for at in taps))
        return activate(y if bias is None else y + bias)

    return convolve


def _matrix(weight: mx.array, node: Node) -> mx.array:
    del node
    return weight[0, 0].astype(mx.float32).T


@planned(prepare={1: _matrix, 2: _flat})
def linear(node: Node) -> Function:
    """A layer with one matrix, a bias and an activation, in f32."""
    activate = _activation(node)

    def product(x: mx.array, matrix: mx.array, bias: mx.array | None = None) -> mx.array:
        return activate(x @ matrix if bias is None else mx.addmm(bias, x, matrix))

    return product


# ------------------------------------------------------------------------------------------------------------ pooling


class _Taps(NamedTuple):
    """Along one axis: the places of each window's taps, which are inside the image, and how many an average counts."""

    places: np.ndarray[Any, np.dtype[np.int32]]
    inside: np.ndarray[Any, np.dtype[np.bool_]]
    counted: np.ndarray[Any, np.dtype[np.int64]]

    @staticmethod
    def of(window: _Window, *, count_pad: bool = False) -> _Taps:
        """Taps of a window; a kernel of 0 is adaptive: windows that cover the axis evenly."""
        number, size = np.arange(window.out)[:, None], window.size
        if window.kernel == 0:
            first, end = number * size // window.out, -(-(number + 1) * size // window.out)
            places = first + np.arange((end - first).max())
            inside = places < end
        else:
            places = number * window.stride - window.pad + np.arange(window.kernel) * window.dilation
            inside = (places >= 0) & (places < size)
        counted = places < size + window.pad if count_pad and window.kernel > 0 else inside
        return _Taps(places.clip(0, size - 1).astype(np.int32), inside, counted.sum(1))


def _same_size(window: _Window) -> _Window:
    """Adaptive windows that are all of one size as windows of that size."""
    if window.kernel > 0 or window.size % window.out:
        return window
    size = window.size // window.out
    return replace(window, kernel=size, stride=size)


class _Fold(NamedTuple):
    """How the taps of a window become one number: along an axis, two by two, and what the taps outside an image are."""

    along: Callable[..., mx.array]
    pair: Callable[[mx.array, mx.array], mx.array]
    outside: float


_LARGEST = _Fold(mx.max, mx.maximum, -math.inf)
_SUM = _Fold(mx.sum, mx.add, 0.0)


def _gathered(x: mx.array, axis: int, taps: _Taps, fold: _Fold) -> mx.array:
    """Fold windows of any places."""
    found = mx.take(x, mx.array(taps.places), axis=axis)
    inside = taps.inside.reshape([1] * axis + [*taps.inside.shape] + [1] * (3 - axis))
    return fold.along(mx.where(mx.array(inside), found, fold.outside), axis=axis + 1)


def _slid(x: mx.array, axis: int, window: _Window, fold: _Fold) -> mx.array:
    """Fold windows at equal distances."""
    near, far = window.pad, max(window.far, 0)
    if near or far:
        x = mx.pad(x, [(near, far) if d == axis else (0, 0) for d in range(4)], constant_values=fold.outside)
    before, after = (slice(None),) * axis, x.shape[axis + 1 :]
    if window.stride == window.kernel and window.dilation == 1:  # tiles, which lie side by side
        tiles = x[(*before, slice(0, window.out * window.kernel))]
        return fold.along(tiles.reshape(*x.shape[:axis], window.out, window.kernel, *after), axis=axis + 1)
    starts = [tap * window.dilation for tap in range(window.kernel)]
    reach = (window.out - 1) * window.stride + 1
    taps = (x[(*before, slice(start, start + reach, window.stride))] for start in starts)
    return functools.reduce(fold.pair, taps)


@planned()
def pool_2d_nhwc(node: Node) -> Function:
    """Pooling, one axis after the other."""
    kind = PoolKind(node.attrs["kind"])
    fold = _LARGEST if kind == PoolKind.MAX else _SUM
    windows = [_same_size(w) for w in _windows(node)]
    taps = [_Taps.of(w, count_pad=kind == PoolKind.AVG_PAD) for w in windows]
    divisor = node.attrs["divisor"] or (taps[0].counted[:, None] * taps[1].counted)[..., None]
    count = mx.array(np.asarray(divisor, dtype=np.float32))

    def pool(x: mx.array) -> mx.array:
        y = x.astype(mx.float32)  # bytes too: what is outside the image is below them all
        for axis, (window, its) in enumerate(zip(windows, taps, strict=True), 1):
            y = _slid(y, axis, window, fold) if window.kernel else _gathered(y, axis, its, fold)
        return y.astype(x.dtype) if fold is _LARGEST else y / count

    return pool


@planned()
def max_pool_index_nhwc(node: Node) -> Function:
    """Where the maxima are, counted through a volume's pixels; the first of equals counts, and the last NaN."""
    image = node.inputs[0]
    assert image is not None
    frames, height, width, channels = shape_of(image)
    depth, out_depth = int(node.attrs["depth"]), int(node.attrs["out_depth"])
    _, out_height, out_width, _ = shape_of(node.output)
    window: Window3d = node.attrs["window"]
    across = _Taps.of(_Window.of(window.w, width, out_width))
    down = _Taps.of(_Window.of(window.h, height, out_height))
    deep = _Taps.of(_Window.of(window.d, depth, out_depth))
    n = frames // depth

    def grid(z: Any, row: Any, column: Any) -> Any:
        return z[:, None, None], row[:, None], column

    def places(x: mx.array) -> mx.array:
        volume = x.reshape(n, depth, height, width, channels)
        best = mx.full((n, out_depth, out_height, out_width, channels), -mx.inf)
        place = mx.full(best.shape, -1, dtype=mx.int64)
        for tap in np.ndindex(deep.places.shape[1], down.places.shape[1], across.places.shape[1]):
            at = [mx.array(axis.places[:, t]) for axis, t in zip((deep, down, across), tap, strict=True)]
            inside = grid(*(axis.inside[:, t] for axis, t in zip((deep, down, across), tap, strict=True)))
            here = mx.array((inside[0] & inside[1] & inside[2])[..., None])
            value = mx.take(mx.take(mx.take(volume, at[0], axis=1), at[1], axis=2), at[2], axis=3)
            z, row, column = grid(*(axis.astype(mx.int64) for axis in at))
            number = ((z * height + row) * width + column)[..., None]
            larger = here & ((value > best) | mx.isnan(value) | (place < 0))
            best, place = mx.where(larger, value, best), mx.where(larger, number, place)
        return place.reshape(shape_of(node.output))

    return places
