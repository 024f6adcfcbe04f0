"""Scaled dot-product attention.

PyTorch has no operator for attention with soft-capped scores, so this module defines one for models to call.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from ....ir.dims import as_dim, same
from ....ir.dtypes import DType
from ....ir.graph import Value
from ....ir.layout import dense_base, unbroadcast
from ....ir.op import Dim
from ....ir.ops.custom import BinaryKind, ReduceKind
from ..context import FLOATS, Context, Tensor
from ..registry import Refused, lowers

aten = torch.ops.aten
_LIBRARY: Any = torch.library.Library("executorch_ggml", "FRAGMENT")  # type: ignore[no-untyped-call] # torch has no types for it
_LIBRARY.define(
    "softcapped_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, float scale, float softcap)"
    " -> Tensor"
)


def _softcapped_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None,
    scale: float,
    softcap: float,
) -> torch.Tensor:
    groups = query.shape[1] // key.shape[1]
    key, value = (states.repeat_interleave(groups, dim=1) for states in (key, value))
    scores = torch.tanh((query * scale) @ key.mT / softcap) * softcap
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -math.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
    hidden = (scores == -math.inf).all(dim=-1, keepdim=True)
    return torch.softmax(scores, dim=-1).masked_fill(hidden, 0.0) @ value  # as torch's own attention


_LIBRARY.impl("softcapped_attention", _softcapped_attention, "CompositeExplicitAutograd")

softcapped_attention = torch.ops.executorch_ggml.softcapped_attention.default


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
    if dropout_p != 0.0:
        return Refused(f"attention with dropout {dropout_p}")
    return _attended(cx, query, key, value, attn_mask, is_causal=is_causal, scale=scale, grouped=enable_gqa)


@lowers(softcapped_attention)
def _softcapped_attention_lowering(
    cx: Context, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, scale: float, softcap: float
) -> Tensor | Refused:
    """``softmax(tanh(query @ key.T * scale / softcap) * softcap + mask) @ value``; key and value heads are shared."""
    if not (softcap > 0.0 and math.isfinite(softcap)):
        return Refused(f"attention capped at {softcap}")
    if query.rank != 4:
        return Refused(f"capped attention over {query.rank} dims")
    return _attended(cx, query, key, value, attn_mask, scale=scale, grouped=True, softcap=softcap)


def _attended(
    cx: Context,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    *,
    scale: float | None,
    grouped: bool,
    is_causal: bool = False,
    softcap: float = 0.0,
) -> Tensor | Refused:
    head = as_dim(query.shape[-1]) if query.rank else 0
    refusals = {
        "attention over other than floats of one type": query.dtype not in FLOATS
        or any(t.dtype != query.dtype for t in (key, value)),
        "attention over fewer than two or more than four dims": not all(2 <= t.rank <= 4 for t in (query, key, value)),
        "attention whose batch dims broadcast": not _batches_fit(query, key, grouped),
        "attention with a symbolic head size": scale is None and not isinstance(head, int),
        "attention with heads of size 0": isinstance(head, int) and head == 0,
    }
    for reason, holds in refusals.items():
        if holds:
            return Refused(reason)
    widened = query.dtype == DType.F32  # by the program itself, where keys are f16: a half model's sums are in f32
    query, key, value = (cx.f32(t) for t in (query, key, value))
    factor = 1.0 / math.sqrt(head) if scale is None else float(scale)
    if is_causal and factor <= 0.0:
        return Refused(f"causal attention with scale {factor}: what is hidden would not stay so")
    if attn_mask is None or attn_mask.dtype in (DType.BOOL, DType.F16):
        keys, values = _as_kept(cx, key.value, value.value) if widened else (key.value, value.value)
        return _flash_attention(cx, query, keys, values, attn_mask, is_causal, factor, softcap)
    return _attention(cx, query, key, value, attn_mask, factor, softcap)


def _flash_attention(
    cx: Context,
    query: Tensor,
    keys: Value,
    values: Value,
    mask: Tensor | None,
    is_causal: bool,
    scale: float,
    softcap: float,
) -> Tensor:
    """One node: it reads permuted heads in place, never stores the scores, and gives 0 for rows that are hidden whole.

    Its mask is f16, so it takes those alone that are 0 and -inf, or f16 anyway, with one row where all are equal. Keys
    and values that were f16 before, as a cache's, are read as they were. On the CPU all sums are in f32; other
    devices' own kernels may do with less.
    """
    build = cx.builder
    columns, rows = keys.ne[1], query.value.ne[1]
    hidden: Value | None = None
    if is_causal:
        hidden = _causal_mask(cx, columns, rows)
    elif mask is not None:
        added = _additive(cx, mask)
        hidden = build.broadcast(added, (columns, *added.ne[1:]))
    half = None if hidden is None else build.convert(hidden, DType.F16)
    made = build.emit("attention", query.value, keys, values, half, scale=scale, logit_softcap=softcap)
    return cx.rounded(build.permute(made, (0, 2, 1, 3)))


def _as_kept(cx: Context, key: Value, value: Value) -> tuple[Value, Value]:
    """Keys and values in f16 where both are f16 that was widened."""
    kept = [_before_widening(cx, key), _before_widening(cx, value)]
    return (key, value) if kept[0] is None or kept[1] is None else (kept[0], kept[1])


def _before_widening(cx: Context, wide: Value) -> Value | None:
    base, axes = dense_base(wide)
    if base.producer is None or base.producer.op != "convert":
        return None
    source = base.producer.inputs[0]
    return cx.builder.permute(source, axes) if source is not None and source.dtype == DType.F16 else None


def _causal_mask(cx: Context, columns: Dim, rows: Dim) -> Value:
    """-inf where a row's position is before the column's."""
    build = cx.builder
    places = build.emit("iota", ne=(columns, 1, 1, 1), start=0, step=1, dtype=DType.I32)
    positions = build.reshape(build.emit("iota", ne=(rows, 1, 1, 1), start=0, step=1, dtype=DType.I32), (1, rows))
    seen = build.emit("binary", places, positions, kind=BinaryKind.LE)
    return build.emit("select", seen, build.scalar(0.0, DType.F32), build.scalar(-math.inf, DType.F32))


def _attention(
    cx: Context,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
    scale: float,
    softcap: float,
) -> Tensor:
    """Scores, softmax and weighted sum as nodes of their own, for a mask that f16 does not hold."""
    build = cx.builder
    scores = build.emit("mul_mat", key.value, query.value)
    if softcap:
        scores = build.emit("tanh", build.emit("scale_bias", scores, s=scale / softcap, b=0.0))
        scale = softcap
    added, alive = _softmax_mask(cx, mask)
    if not _mask_fits(added, scores):
        added = build.broadcast(added, (scores.ne[0], scores.ne[1], added.ne[2], added.ne[3]))
    weights = build.emit("soft_max_ext", scores, added, scale=scale, max_bias=0.0)
    attended = build.emit("mul_mat", build.transpose(value.value), weights)
    return cx.rounded(build.emit("select", alive, attended, build.scalar(0.0, DType.F32)))


def _batches_fit(query: Tensor, key: Tensor, grouped: bool) -> bool:
    """Ggml repeats key heads over groups of query heads, as enable_gqa does, and nothing else."""
    if query.rank != key.rank:
        return False
    outer = all(same(m, n) for m, n in zip(query.shape[:-3], key.shape[:-3], strict=True))
    heads = query.rank < 3 or grouped or same(query.shape[-3], key.shape[-3])
    return outer and heads


def _additive(cx: Context, mask: Tensor) -> Value:
    """A boolean mask as 0 where it holds and -inf elsewhere; a float one as it is."""
    build = cx.builder
    source = unbroadcast(mask.value)
    if mask.dtype != DType.BOOL:
        return build.convert(source, DType.F32)
    return build.emit("select", source, build.scalar(0.0, DType.F32), build.scalar(-math.inf, DType.F32))


def _softmax_mask(cx: Context, mask: Tensor) -> tuple[Value, Value]:
    """What to add to the scores, and which rows have anything left: torch gives zeros to a row that is hidden whole."""
    build = cx.builder
    added = _additive(cx, mask)
    highest = build.emit("reduce", added, kind=ReduceKind.MAX, axes=(0,))
    alive = build.emit("binary", highest, build.scalar(-math.inf, DType.F32), kind=BinaryKind.NE)
    return build.emit("select", alive, added, build.scalar(0.0, DType.F32)), alive


def _mask_fits(mask: Value, scores: Value) -> bool:
    """Ggml broadcasts a mask over heads and batch, not over rows or columns."""
    return same(mask.ne[0], scores.ne[0]) and same(mask.ne[1], scores.ne[1])
