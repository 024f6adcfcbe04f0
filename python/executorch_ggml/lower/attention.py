"""Scaled dot-product attention."""

from __future__ import annotations

import math

import torch

from ..ir.dims import as_dim, same
from ..ir.dtypes import DType
from ..ir.graph import Value
from ..ir.ops.custom import BinaryKind, ReduceKind
from .context import Context, Tensor
from .layout import unbroadcast
from .registry import Refused, lowers

aten = torch.ops.aten


@lowers(aten.scaled_dot_product_attention.default, preserve=True)
def scaled_dot_product_attention(
    cx: Context,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor | Refused:
    """``softmax(query @ key.T * scale + mask) @ value``; key and value heads are shared by groups of query heads."""
    if any(t.dtype != DType.F32 for t in (query, key, value)):
        return Refused("attention in another type than float32")
    if dropout_p != 0.0:
        return Refused(f"attention with dropout {dropout_p}")
    if not all(2 <= t.rank <= 4 for t in (query, key, value)):
        return Refused("attention over fewer than two or more than four dims")
    if not _batches_fit(query, key, enable_gqa):
        return Refused("attention whose batch dims broadcast")
    head = as_dim(query.shape[-1])
    if scale is None and not isinstance(head, int):
        return Refused("attention with a symbolic head size")
    factor = 1.0 / math.sqrt(head) if scale is None else float(scale)
    build = cx.builder
    scores = build.emit("mul_mat", key.value, query.value)
    if is_causal:
        scores = build.emit("diag_mask_inf", scores, n_past=0)
    mask, alive = (None, None) if attn_mask is None else _masks(cx, attn_mask)
    if mask is not None and not _mask_fits(mask, scores):
        mask = build.broadcast(mask, (scores.ne[0], scores.ne[1], mask.ne[2], mask.ne[3]))
    weights = build.emit("soft_max_ext", scores, mask, scale=factor, max_bias=0.0)
    made = build.emit("mul_mat", build.transpose(value.value), weights)
    if alive is not None:
        made = build.emit("select", alive, made, build.scalar(0.0, DType.F32))
    return cx.out(made)


def _batches_fit(query: Tensor, key: Tensor, grouped: bool) -> bool:
    """ggml repeats key heads over groups of query heads, as enable_gqa does, and nothing else."""
    if query.rank != key.rank:
        return False
    outer = all(same(m, n) for m, n in zip(query.shape[:-3], key.shape[:-3], strict=True))
    heads = query.rank < 3 or grouped or same(query.shape[-3], key.shape[-3])
    return outer and heads


def _masks(cx: Context, mask: Tensor) -> tuple[Value, Value]:
    """What to add to the scores, and which rows have anything left: torch gives zeros to a row that is hidden whole."""
    build = cx.builder
    source = unbroadcast(mask.value)
    zero, never = build.scalar(0.0, DType.F32), build.scalar(-math.inf, DType.F32)
    if mask.dtype == DType.BOOL:
        alive = build.emit("reduce", source, kind=ReduceKind.ANY, axes=(0,))
        added = build.emit("select", source, zero, never)
    else:
        added = build.convert(source, DType.F32)
        highest = build.emit("reduce", added, kind=ReduceKind.MAX, axes=(0,))
        alive = build.emit("binary", highest, never, kind=BinaryKind.NE)
    return build.emit("select", alive, added, zero), alive


def _mask_fits(mask: Value, scores: Value) -> bool:
    """ggml broadcasts a mask over heads and batch, not over rows or columns."""
    return same(mask.ne[0], scores.ne[0]) and same(mask.ne[1], scores.ne[1])
