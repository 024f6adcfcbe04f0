"""Pooling of signals, images and volumes: a volume by its frames and then along its depth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ....ir.dims import product
from ....ir.graph import Value
from ....ir.op import Dim
from ....ir.ops.custom import ReduceKind
from ....ir.ops.spatial import PoolKind, Window, Window2d, Window3d
from ..context import FLOATS, Context, Tensor
from ..registry import Refused, lowers
from .reduction import reduced
from .volume import frames_of, frames_of_images, from_frames, images_of_frames

aten = torch.ops.aten


@dataclass(frozen=True)
class PoolWindow(Window):
    """A window of a pooling, whose last one may reach over the edge where ``ceil_mode`` says so."""

    ceil_mode: bool = False

    @property
    def may_start_outside(self) -> bool:
        """Whether there are sizes for which the last window would begin in the padding: then it does not count."""
        reach = (self.kernel - 1) * self.dilation + 1
        return self.ceil_mode and self.pad + self.stride > reach


ADAPTIVE = PoolWindow(kernel=0)  # as many windows as the result has places, which cover the axis evenly
ONE = PoolWindow(kernel=1)


def _windows(
    rank: int,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    dilation: Sequence[int] = (1,),
) -> list[PoolWindow]:
    """From ATen's lists: one number an axis, or one for all; no stride is the kernel's size."""

    def spread(numbers: Sequence[int]) -> list[int]:
        return list(numbers) if len(numbers) == rank else [numbers[0]] * rank

    lists = (spread(kernel), spread(stride or kernel), spread(padding), spread(dilation))
    return [PoolWindow(*numbers, ceil_mode=ceil_mode) for numbers in zip(*lists, strict=True)]


@dataclass(frozen=True)
class Pooling:
    """A pooling as one of volumes (N, C, D, H, W): images are volumes of one frame, signals images of one row."""

    images: Value  # ne = W, H, C, D * N
    shape: tuple[Dim, ...]  # of the input
    out: tuple[Dim, ...]
    windows: tuple[PoolWindow, PoolWindow, PoolWindow]  # along D, H and W

    @staticmethod
    def of(cx: Context, x: Tensor, windows: Sequence[PoolWindow], index: int | None) -> Pooling | Refused:
        """The node's pooling of ``x``, its result's shape being the traced one."""
        missing = 3 - len(windows)
        if x.rank not in (4 - missing, 5 - missing) or x.dtype not in FLOATS:
            return Refused(f"pooling along {len(windows)} dims of {x.rank}, in {x.dtype.name.lower()}")
        for size, window in zip(x.shape[-len(windows) :], windows, strict=True):
            if window.may_start_outside and not isinstance(size, int):
                return Refused("a pooling whose number of windows was traced for some sizes only: ceil_mode, padded")

        def volume(shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
            whole = shape if x.rank == 5 - missing else (1, *shape)
            return (*whole[:2], *[1] * missing, *whole[2:])

        shape = volume(x.shape)
        n, c, _, h, w = shape
        value = cx.f32(x).value
        if missing == 0:
            images = images_of_frames(cx, frames_of(cx, Tensor(value, shape)))
        else:
            images = value if missing == 1 else cx.builder.reshape(value, (w, h, c, n))
        full = (*[ONE] * missing, *windows)
        return Pooling(images, shape, volume(cx.shape(index)), (full[0], full[1], full[2]))

    def pooled(self, cx: Context, kind: PoolKind, divisor: int = 0, index: int | None = None) -> Tensor:
        """The maxima or averages: over the frames, then along the depth, the windows' counts being products too."""
        n, c, od, oh, ow = self.out
        d = self.shape[2]
        deep, *inside = self.windows
        whole = product([d, n])
        if deep == ONE:
            return self._result(cx, _pool(cx, self.images, (ow, oh, c, whole), kind, inside, divisor), index)
        images = _pool(cx, self.images, (ow, oh, c, whole), kind, inside, 1 if divisor else 0)
        pixels = product([c, ow, oh])
        column = cx.builder.reshape(frames_of_images(cx, images), (pixels, d, 1, n))
        pooled = _pool(cx, images_of_frames(cx, column), (od, 1, pixels, n), kind, [ONE, deep], divisor)
        return cx.rounded(from_frames(cx, frames_of_images(cx, pooled), self.out), index)

    def places(self, cx: Context, index: int) -> Tensor:
        """Where the maxima are."""
        n, c, od, oh, ow = self.out
        deep, down, across = self.windows
        places = cx.builder.emit(
            "max_pool_index",
            self.images,
            ne=(ow, oh, c, product([od, n])),
            depth=self.shape[2],
            out_depth=od,
            window=Window3d(across, down, deep),
        )
        return self._result(cx, places, index)

    def _result(self, cx: Context, images: Value, index: int | None) -> Tensor:
        is_volume = self.windows[0] != ONE or self.shape[2] != 1
        return cx.rounded(from_frames(cx, frames_of_images(cx, images), self.out) if is_volume else images, index)


def _pool(cx: Context, x: Value, ne: Sequence[Dim], kind: PoolKind, windows: Sequence[Window], divisor: int) -> Value:
    down, across = windows
    return cx.builder.emit("pool_2d", x, ne=tuple(ne), kind=kind, window=Window2d(across, down), divisor=divisor)


def _max(cx: Context, x: Tensor, windows: Sequence[PoolWindow]) -> tuple[Tensor, Tensor] | Refused:
    """Maxima and their places; nothing is computed for the ones that nothing reads."""
    pooling = Pooling.of(cx, x, windows, 0)
    if isinstance(pooling, Refused):
        return pooling
    return pooling.pooled(cx, PoolKind.MAX, index=0), pooling.places(cx, 1)


@lowers(aten.max_pool2d_with_indices.default)
def max_pool2d_with_indices(
    cx: Context,
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor] | Refused:
    """Max pooling of images, and the maxima's places."""
    return _max(cx, x, _windows(2, kernel_size, stride, padding, ceil_mode, dilation))


@lowers(aten.max_pool3d_with_indices.default)
def max_pool3d_with_indices(
    cx: Context,
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor] | Refused:
    """Max pooling of volumes, and the maxima's places."""
    return _max(cx, x, _windows(3, kernel_size, stride, padding, ceil_mode, dilation))


@lowers(aten.max_pool2d.default, preserve=True)
def max_pool2d(
    cx: Context,
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> Tensor | Refused:
    """Max pooling of images."""
    pooling = Pooling.of(cx, x, _windows(2, kernel_size, stride, padding, ceil_mode, dilation), None)
    return pooling if isinstance(pooling, Refused) else pooling.pooled(cx, PoolKind.MAX)


def _average(
    cx: Context, x: Tensor, windows: Sequence[PoolWindow], count_include_pad: bool, divisor: int | None
) -> Tensor | Refused:
    pooling = Pooling.of(cx, x, windows, None)
    kind = PoolKind.AVG_PAD if count_include_pad else PoolKind.AVG
    return pooling if isinstance(pooling, Refused) else pooling.pooled(cx, kind, divisor or 0)


@lowers(aten.avg_pool1d.default, preserve=True)
def avg_pool1d(
    cx: Context,
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor | Refused:
    """Average pooling of signals."""
    return _average(cx, x, _windows(1, kernel_size, stride, padding, ceil_mode), count_include_pad, None)


@lowers(aten.avg_pool2d.default)
def avg_pool2d(
    cx: Context,
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor | Refused:
    """Average pooling of images."""
    return _average(cx, x, _windows(2, kernel_size, stride, padding, ceil_mode), count_include_pad, divisor_override)


@lowers(aten.avg_pool3d.default)
def avg_pool3d(
    cx: Context,
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor | Refused:
    """Average pooling of volumes."""
    return _average(cx, x, _windows(3, kernel_size, stride, padding, ceil_mode), count_include_pad, divisor_override)


@lowers(aten._adaptive_avg_pool2d.default, aten._adaptive_avg_pool3d.default)
def adaptive_avg_pool(cx: Context, x: Tensor, output_size: Sequence[Any]) -> Tensor | Refused:
    """Average pooling of images or volumes to a given size."""
    if list(output_size) == [1, 1] and x.dtype in FLOATS:
        return cx.rounded(reduced(cx, cx.f32(x), [-2, -1], ReduceKind.MEAN))
    return _average(cx, x, [ADAPTIVE] * len(output_size), False, None)


@lowers(
    aten.adaptive_max_pool1d.default,
    aten.adaptive_max_pool2d.default,
    aten.adaptive_max_pool3d.default,
    preserve=True,
)
def adaptive_max_pool(cx: Context, x: Tensor, output_size: Sequence[Any]) -> tuple[Tensor, Tensor] | Refused:
    """Max pooling to a given size, and the maxima's places."""
    return _max(cx, x, [ADAPTIVE] * len(output_size))
