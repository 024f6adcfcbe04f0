"""FFTs of complex numbers in real arithmetic: a few products with real matrices for each dim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from ..frontends.aten.ops.fourier import MAX_POINTS
from .complex_numbers import Parts, Reals, computes
from .functional import functional_copy

aten = torch.ops.aten
_NORMS = (0.0, -0.5, -1.0)  # by ATen's fft_norm_mode: the power of the number of points that the result is scaled by


def with_basic_transforms(program: ExportedProgram) -> ExportedProgram:
    """The program with ``torch.fft``'s functions in terms of the three FFTs of ATen; itself where it calls none."""
    if not any(str(node.target).startswith("aten.fft_") for node in program.graph.nodes):
        return program
    every = torch.export.default_decompositions()
    table = {overload: every[overload] for overload in every if str(overload).startswith("aten.fft_")}
    return functional_copy(program, table)


@computes(aten._fft_c2c.default)
def _complex_to_complex(reals: Reals, z: Parts, dims: Sequence[int], norm: int, forward: bool) -> Parts | None:
    sizes = _sizes(z.re, dims)
    if sizes is None:
        return None
    for dim, size in zip(dims, sizes, strict=True):
        z = _along(reals, z, dim, size, size, size ** _NORMS[norm], forward)
    return z


@computes(aten._fft_r2c.default)
def _real_to_complex(reals: Reals, x: Node, dims: Sequence[int], norm: int, onesided: bool) -> Parts | None:
    sizes = _sizes(x, dims)
    if sizes is None:
        return None
    size = sizes[-1]
    bins = size // 2 + 1 if onesided else size
    z = _along(reals, Parts(x, None), dims[-1], size, bins, size ** _NORMS[norm], forward=True)
    return _complex_to_complex(reals, z, dims[:-1], norm, forward=True)


@computes(aten._fft_c2r.default)
def _complex_to_real(reals: Reals, z: Parts, dims: Sequence[int], norm: int, last_dim_size: Any) -> Node | None:
    inner = _complex_to_complex(reals, z, dims[:-1], norm, forward=False)
    if inner is None or not isinstance(last_dim_size, int) or last_dim_size > MAX_POINTS:
        return None
    scale = last_dim_size ** _NORMS[norm]
    cosines, sines = (
        _product(reals, part, dims[-1], sine, last_dim_size, last_dim_size, scale, one_sided=True)
        for part, sine in ((inner.re, False), (inner.im, True))
    )
    return reals(aten.sub.Tensor, cosines, sines)


def _sizes(x: Node, dims: Sequence[int]) -> list[int] | None:
    """The numbers of points; None where there is one that no matrix is made for."""
    sizes = [x.meta["val"].shape[dim] for dim in dims]
    return sizes if all(isinstance(size, int) and size <= MAX_POINTS for size in sizes) else None


def _along(reals: Reals, z: Parts, dim: int, size: int, bins: int, scale: float, forward: bool) -> Parts:
    """``sum(z * exp(-+ 2 pi i point bin / size)) * scale`` along one dim; an imaginary part of None is zero."""
    re_cos, re_sin = (_product(reals, z.re, dim, sine, bins, size, scale) for sine in (False, True))
    if z.im is None or z.im.target is aten.zeros_like.default:
        return Parts(re_cos, reals(aten.neg.default, re_sin) if forward else re_sin)
    im_cos, im_sin = (_product(reals, z.im, dim, sine, bins, size, scale) for sine in (False, True))
    plus, minus = aten.add.Tensor, aten.sub.Tensor
    if forward:
        return Parts(reals(plus, re_cos, im_sin), reals(minus, im_cos, re_sin))
    return Parts(reals(minus, re_cos, im_sin), reals(plus, im_cos, re_sin))


def _product(
    reals: Reals, x: Node, dim: int, sine: bool, bins: int, period: int, scale: float, *, one_sided: bool = False
) -> Node:
    last = x.meta["val"].dim() - 1
    rows = x if dim % (last + 1) == last else reals(aten.transpose.int, x, dim, last)
    waves = reals(torch.ops.executorch_ggml.dft.default, rows, sine, bins, period, one_sided, scale)
    return waves if rows is x else reals(aten.transpose.int, waves, dim, last)
