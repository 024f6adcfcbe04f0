"""Padding with one value or with what the tensor itself has: mirrored, repeated or around its ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ....ir.dims import as_dim, maximum, minimum, ne_of
from ....ir.op import Dim
from ..context import Context, Tensor
from ..layout import repeated
from ..registry import lowers
from .rearrange import backwards
from .shape import constant_pad, is_zero, joined, padded, window

aten = torch.ops.aten


@lowers(aten.pad.default, preserve=True)
def pad(cx: Context, x: Tensor, pad: Sequence[Any], mode: str = "constant", value: float | None = None) -> Tensor:
    """One value, or what the tensor itself has, before and after dims; negative amounts cut."""
    if mode == "constant":
        return constant_pad(cx, x, pad, 0 if value is None else value)
    amounts = [as_dim(amount) for amount in pad]
    for place in range(len(amounts) // 2):
        dim = x.rank - 1 - place
        lead, trail = amounts[2 * place : 2 * place + 2]
        kept = padded(cx, x, dim, minimum(lead, 0), minimum(trail, 0), 0.0)
        x = _extended(cx, kept, dim, maximum(lead, 0), maximum(trail, 0), mode)
    return cx.out(x.value)


@lowers(aten.reflection_pad1d.default, aten.reflection_pad2d.default, aten.reflection_pad3d.default)
def reflection_pad(cx: Context, x: Tensor, padding: Sequence[Any]) -> Tensor:
    """The inner dims mirrored at their edges."""
    return pad(cx, x, padding, "reflect")


@lowers(aten.replication_pad1d.default, aten.replication_pad2d.default, aten.replication_pad3d.default)
def replication_pad(cx: Context, x: Tensor, padding: Sequence[Any]) -> Tensor:
    """The inner dims with their edges repeated."""
    return pad(cx, x, padding, "replicate")


def _extended(cx: Context, x: Tensor, dim: int, lead: Dim, trail: Dim, mode: str) -> Tensor:
    """``x`` with one dim padded from itself."""
    size = x.shape[dim]
    if mode == "circular":
        before, after = window(cx, x, dim, size - lead, lead), window(cx, x, dim, 0, trail)
    elif mode == "replicate":
        before, after = _edge(cx, x, dim, 0, lead), _edge(cx, x, dim, size - 1, trail)
    else:
        before, after = backwards(cx, x, dim, lead, lead), backwards(cx, x, dim, size - 2, trail)
    parts = [part for part, amount in ((before, lead), (x, 1), (after, trail)) if not is_zero(amount)]
    return joined(cx, parts, dim)


def _edge(cx: Context, x: Tensor, dim: int, at: Dim, count: Dim) -> Tensor:
    """One index of a dim, repeated."""
    one, shape = window(cx, x, dim, at, 1), (*x.shape[:dim], count, *x.shape[dim + 1 :])
    return Tensor(cx.builder.reshape(repeated(cx.builder, one.value, one.shape, shape), ne_of(shape)), shape)
