"""Bags of embeddings: rows of a table, summed, averaged or maximized group by group."""

from __future__ import annotations

import torch

from ....ir.dtypes import DType
from ....ir.graph import Value
from ....ir.op import Dim
from ....ir.ops.custom import BinaryKind
from ....ir.ops.indexing import ScatterKind
from ..context import FLOATS, Context, Tensor
from ..registry import Refused, lowers
from .indexing import is_index, on_axis, picked
from .scatter import emit_scatter
from .shape import window

aten = torch.ops.aten

SUM, MEAN, MAX = range(3)


@lowers(aten._embedding_bag.default, aten._embedding_bag_forward_only.default)
def embedding_bag(
    cx: Context,
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = SUM,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Tensor | None, ...] | Refused:
    """Sums, means or maxima of the rows of each bag; what training needs besides is not given."""
    del scale_grad_by_freq, sparse
    if any(user.args[1] != 0 and user.users for user in cx.node.users):
        return Refused("the places and sizes of the bags are given in training only")
    if weight.dtype not in FLOATS or not (is_index(indices) and is_index(offsets)):
        return Refused(f"bags of rows in {weight.dtype.name.lower()}, or indices of other types than i32 and i64")
    build = cx.builder
    bags = offsets.shape[0] - int(include_last_offset)
    bag = on_axis(cx, _bags(cx, indices, offsets, bags, padding_idx), 1)
    # Where the last offset is not the end, as it should be, torch's maxima and counts go on to the end all the same.
    begins = window(cx, offsets, 0, 0, bags) if include_last_offset else offsets
    to_end = on_axis(cx, _bags(cx, indices, begins, bags, padding_idx), 1)
    rows = build.convert(picked(cx, weight, 0, 1, indices.value, wrap=False), DType.F32)
    if per_sample_weights is not None:
        rows = build.emit("mul", rows, on_axis(cx, build.convert(per_sample_weights.value, DType.F32), 1))
    # One more bag takes what is in none.
    empty = build.fill((weight.shape[1], bags + 1), 0.0, DType.F32)
    kind = ScatterKind.MAX if mode == MAX else ScatterKind.ADD
    made = emit_scatter(cx, empty, to_end if mode == MAX else bag, rows, 1, kind=kind, include_self=mode != MAX)
    if mode == MEAN:
        none = build.fill((1, bags + 1), 0.0, DType.F32)
        count = emit_scatter(cx, none, to_end, build.scalar(1.0, DType.F32), 1, kind=ScatterKind.ADD)
        count = build.emit("binary", count, build.scalar(1.0, DType.F32), kind=BinaryKind.MAXIMUM)
        made = build.emit("div", made, count)
    kept = build.cont(build.view(made, (0, 0, 0, 0), (weight.shape[1], bags)))
    return cx.out(build.convert(kept, weight.dtype), 0), None, None, None


def _bags(cx: Context, indices: Tensor, offsets: Tensor, bags: Dim, padding_idx: int) -> Value:
    """The bag that each index is in: how many bags begin up to there, less one; for padding one bag too many."""
    build = cx.builder
    count = indices.shape[0]
    nowhere, one = build.fill((count + 1,), 0, DType.I32), build.scalar(1, DType.I32)
    begins = emit_scatter(cx, nowhere, offsets.value, one, 0, kind=ScatterKind.ADD)
    begun = build.view(build.emit("cumsum", begins), (0, 0, 0, 0), (count,))
    bag = build.emit("binary", begun, one, kind=BinaryKind.SUB)
    if padding_idx < 0:
        return bag
    skipped = build.emit("binary", indices.value, build.scalar(padding_idx, indices.dtype), kind=BinaryKind.EQ)
    return build.emit("select", skipped, build.scalar(bags, DType.I32), bag)
