"""Pooling and resizing of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..ir.dims import as_dim, same
from ..ir.dtypes import DType
from ..ir.op import Dim
from ..ir.ops.custom import ReduceKind
from ..ir.ops.spatial import PoolKind, ScaleMode
from .context import Context, Tensor
from .convolution import FROM_CHANNELS_INNER, Pair, channels_inner
from .reduction import reduced
from .registry import Refused, lowers

aten = torch.ops.aten
DENSE = Pair(1, 1)


def _pool(
    cx: Context,
    x: Tensor,
    kind: PoolKind,
    kernel: Pair,
    stride: Pair,
    padding: Pair,
    dilation: Pair = DENSE,
    divisor: int = 0,
    index: int | None = None,
) -> Tensor | Refused:
    if x.rank not in (3, 4) or x.dtype != DType.F32:
        return Refused("pooling of other than 3-D or 4-D float32 images")
    image = x if x.rank == 4 else Tensor(x.value, (1, *x.shape))
    shape = cx.shape(index)
    n, c, oh, ow = shape if len(shape) == 4 else (1, *shape)
    made = cx.builder.emit(
        "pool_2d",
        channels_inner(cx, image).value,
        ne=(c, ow, oh, n),
        kind=kind,
        kernel_w=kernel.w,
        kernel_h=kernel.h,
        stride_w=stride.w,
        stride_h=stride.h,
        pad_w=padding.w,
        pad_h=padding.h,
        dilation_w=dilation.w,
        dilation_h=dilation.h,
        divisor=divisor,
    )
    return cx.out(cx.builder.permute(made, FROM_CHANNELS_INNER), index)


def _pair(numbers: Sequence[int], default: Pair) -> Pair:
    items = list(numbers)
    return default if not items else Pair(items[0], items[-1])


@lowers(aten.max_pool2d_with_indices.default)
def max_pool2d_with_indices(
    cx: Context,
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> tuple[Tensor, None] | Refused:
    """Max pooling; its indices are not given."""
    del ceil_mode  # the traced shape has it
    if any(user.args[1] == 1 for user in cx.node.users):
        return Refused("the indices of a max pooling are read")
    kernel = _pair(kernel_size, Pair(1, 1))
    made = _pool(
        cx,
        x,
        PoolKind.MAX,
        kernel,
        _pair(stride, kernel),
        _pair(padding, Pair(0, 0)),
        _pair(dilation, Pair(1, 1)),
        index=0,
    )
    return made if isinstance(made, Refused) else (made, None)


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
    """Max pooling."""
    del ceil_mode  # the traced shape has it
    kernel = _pair(kernel_size, Pair(1, 1))
    return _pool(
        cx, x, PoolKind.MAX, kernel, _pair(stride, kernel), _pair(padding, Pair(0, 0)), _pair(dilation, Pair(1, 1))
    )


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
    """Average pooling."""
    del ceil_mode  # the traced shape has it
    kernel = _pair(kernel_size, Pair(1, 1))
    kind = PoolKind.AVG_PAD if count_include_pad else PoolKind.AVG
    return _pool(cx, x, kind, kernel, _pair(stride, kernel), _pair(padding, Pair(0, 0)), divisor=divisor_override or 0)


@lowers(aten._adaptive_avg_pool2d.default)
def adaptive_avg_pool2d(cx: Context, x: Tensor, output_size: Sequence[Any]) -> Tensor | Refused:
    """Average pooling to a given size: the whole image, or sizes that divide it."""
    if x.rank not in (3, 4) or x.dtype != DType.F32:
        return Refused("pooling of other than 3-D or 4-D float32 images")
    if list(output_size) == [1, 1]:
        return cx.out(reduced(cx, x, [-2, -1], ReduceKind.MEAN))
    sizes = [as_dim(n) for n in (*x.shape[-2:], *output_size)]
    if not all(isinstance(n, int) for n in sizes):
        return Refused("adaptive pooling between symbolic sizes")
    h, w, oh, ow = sizes
    if h % oh or w % ow:
        return Refused(f"adaptive pooling of {h} x {w} to {oh} x {ow}: windows of different sizes")
    kernel = Pair(h // oh, w // ow)
    return _pool(cx, x, PoolKind.AVG, kernel, kernel, Pair(0, 0))


def _resize(cx: Context, x: Tensor, mode: ScaleMode, scales: Sequence[float | None]) -> Tensor | Refused:
    """Ggml works out the scale from the sizes; torch uses a given one as it is, which can differ."""
    if x.rank != 4 or x.dtype != DType.F32:
        return Refused("resizing of other than 4-D float32 images")
    n, c, oh, ow = cx.shape()
    if mode == ScaleMode.NEAREST and not all(map(_same_pixels, x.shape[2:], (oh, ow), scales)):
        return Refused(f"nearest resizing from {list(x.shape[2:])} to {[oh, ow]}, where rounding may take other pixels")
    for size, made, scale in zip(x.shape[2:], (oh, ow), scales, strict=True):
        if scale is not None and not (isinstance(size, int) and size * scale == made) and float(scale) != int(scale):
            return Refused(f"resizing by {scale}, which the sizes {size} and {made} do not say exactly")
    return Tensor(cx.builder.emit("interpolate", x.value, ne=(ow, oh, c, n), mode=mode), cx.shape())


def _same_pixels(size: Dim, made: Dim, scale: float | None) -> bool:
    """Whether ggml takes torch's pixels along a dim: it divides where torch multiplies, both in float32."""
    if same(made, size) or same(made, 2 * size):
        return True
    if not isinstance(size, int) or not isinstance(made, int):
        return False
    places = torch.arange(made, dtype=torch.float32)
    step = torch.tensor(size / made if scale is None else 1.0 / scale, dtype=torch.float32)
    ratio = torch.tensor(made / size, dtype=torch.float32)
    return torch.equal((places * step).long().clamp(max=size - 1), (places / ratio).long())


def _given(scales: Sequence[float] | None) -> Sequence[float | None]:
    return (None, None) if not scales else list(scales)


@lowers(aten.upsample_nearest2d.vec, preserve=True)
def upsample_nearest2d(
    cx: Context, x: Tensor, output_size: Any, scale_factors: Sequence[float] | None
) -> Tensor | Refused:
    """Nearest-neighbour resizing."""
    del output_size
    return _resize(cx, x, ScaleMode.NEAREST, _given(scale_factors))


@lowers(aten.upsample_bilinear2d.vec, preserve=True)
def upsample_bilinear2d(
    cx: Context, x: Tensor, output_size: Any, align_corners: bool, scale_factors: Sequence[float] | None
) -> Tensor | Refused:
    """Bilinear resizing."""
    del output_size
    mode = ScaleMode.BILINEAR_ALIGN_CORNERS if align_corners else ScaleMode.BILINEAR
    return _resize(cx, x, mode, _given(scale_factors))
