"""Resizing of images, and sampling them at any places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ....ir.dims import same
from ....ir.dtypes import DType
from ....ir.op import Dim
from ....ir.ops.spatial import SampleBorder, SampleKind, ScaleMode
from ..context import FLOATS, Context, Tensor
from ..registry import Refused, lowers

aten = torch.ops.aten


def _resize(cx: Context, x: Tensor, mode: ScaleMode, scales: Sequence[float | None]) -> Tensor | Refused:
    """Ggml works out the scale from the sizes; torch uses a given one as it is, which can differ."""
    if x.rank != 4 or x.dtype not in FLOATS:
        return Refused("resizing of other than 4-D images of floats")
    n, c, oh, ow = cx.shape()
    if mode == ScaleMode.NEAREST and not all(map(_same_pixels, x.shape[2:], (oh, ow), scales)):
        return Refused(f"nearest resizing from {list(x.shape[2:])} to {[oh, ow]}, where rounding may take other pixels")
    for size, made, scale in zip(x.shape[2:], (oh, ow), scales, strict=True):
        if scale is not None and not (isinstance(size, int) and size * scale == made) and float(scale) != int(scale):
            return Refused(f"resizing by {scale}, which the sizes {size} and {made} do not say exactly")
    return cx.rounded(cx.builder.emit("interpolate", cx.f32(x).value, ne=(ow, oh, c, n), mode=mode))


def _same_pixels(size: Dim, output_size: Dim, scale: float | None) -> bool:
    """Whether ggml takes torch's pixels along a dim: it divides where torch multiplies, both in float32."""
    if same(output_size, size) or same(output_size, 2 * size):
        return True
    if not isinstance(size, int) or not isinstance(output_size, int):
        return False
    positions = torch.arange(output_size, dtype=torch.float32)
    step = torch.tensor(size / output_size if scale is None else 1.0 / scale, dtype=torch.float32)
    ratio = torch.tensor(output_size / size, dtype=torch.float32)
    return torch.equal((positions * step).long().clamp(max=size - 1), (positions / ratio).long())


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


@lowers(aten.grid_sampler_2d.default)
def grid_sampler_2d(
    cx: Context, x: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor | Refused:
    """Pixels at the places that a grid names."""
    if x.dtype != DType.F32:
        return Refused(f"sampling in {x.dtype.name.lower()}: torch rounds the places to that type too")
    kind, border = SampleKind(interpolation_mode), SampleBorder(padding_mode)
    return cx.out(
        cx.builder.emit("grid_sample", x.value, grid.value, kind=kind, border=border, align_corners=align_corners)
    )
