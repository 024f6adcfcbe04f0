"""Discrete Fourier transforms of real rows, as products with matrices that are computed ahead of time.

Complex tensors are pairs of real ones here (``partition/complex_numbers.py``), so that an FFT along one dim is a few
products of real rows: ``executorch_ggml::dft``. The matrices have as many elements as the square of the dim.
"""

from __future__ import annotations

from typing import Any

import torch

from ....ir.dims import ne_of, product
from ....ir.dtypes import DType
from ..context import Context, Tensor
from ..registry import Refused, lowers
from .matmul import affine

MAX_POINTS = 8192  # a matrix of 256 MiB

_LIBRARY: Any = torch.library.Library("executorch_ggml", "FRAGMENT")  # type: ignore[no-untyped-call] # torch has no types for it
_LIBRARY.define("dft(Tensor x, bool sine, int bins, int period, bool one_sided, float scale) -> Tensor")


def matrix(points: int, sine: bool, bins: int, period: int, one_sided: bool, scale: float) -> torch.Tensor:
    """``scale * cos(2 pi * point * bin / period)``, or the sine, in float64 ``[points, bins]``.

    ``one_sided`` counts a point twice where its conjugate is left out: all but the first one and the middle of the
    period.
    """
    turns = torch.outer(torch.arange(points), torch.arange(bins)) % period  # exact, unlike the angle of many turns
    angles = turns.double() * (2 * torch.pi / period)
    waves = scale * (angles.sin() if sine else angles.cos())
    if one_sided:
        point = torch.arange(points)
        waves[(point > 0) & (2 * point != period)] *= 2
    return waves


def _dft(x: torch.Tensor, sine: bool, bins: int, period: int, one_sided: bool, scale: float) -> torch.Tensor:
    """The last dim of ``x`` times :func:`matrix`."""
    return x @ matrix(x.shape[-1], sine, bins, period, one_sided, scale).to(x.dtype)


def _traced(x: torch.Tensor, sine: bool, bins: int, period: int, one_sided: bool, scale: float) -> torch.Tensor:
    del sine, period, one_sided, scale
    return x.new_empty((*x.shape[:-1], bins))


_LIBRARY.impl("dft", _dft, "CPU")
_LIBRARY.impl("dft", _traced, "Meta")


@lowers(torch.ops.executorch_ggml.dft.default)
def dft(cx: Context, x: Tensor, sine: bool, bins: int, period: int, one_sided: bool, scale: float) -> Tensor | Refused:
    """Rows times the cosines or sines of a discrete Fourier transform."""
    points = x.shape[-1]
    if x.dtype != DType.F32 or not isinstance(points, int):
        return Refused("a Fourier transform in another type than float32, or of a symbolic number of points")
    if max(points, bins) > MAX_POINTS:
        return Refused("a Fourier transform of more points than a matrix is made for")
    key = f"dft.{'sin' if sine else 'cos'}.{points}x{bins}.{period}.{int(one_sided)}.{scale!r}"

    def contents() -> torch.Tensor:
        return matrix(points, sine, bins, period, one_sided, scale).t().float().contiguous()

    shape = (bins, points)
    waves = Tensor(cx.builder.constant(key, DType.F32, ne_of(shape), contents), shape, contents, key)
    return affine(cx, cx.builder.reshape(x.value, (points, product(x.shape[:-1]))), waves, None)
