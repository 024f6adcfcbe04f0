"""Gathers: embeddings, index_select, index by tensors, gather. Indices are range-checked when they are used."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..ir.dims import is_one, ne_of, product
from ..ir.dtypes import DType
from ..ir.graph import Value
from ..ir.op import Dim
from ..ir.ops.custom import BinaryKind
from .context import Context, Tensor
from .layout import unbroadcast
from .registry import Refused, lowers

aten = torch.ops.aten


def _index(cx: Context, index: Value, size: Dim) -> Value:
    return cx.builder.emit("to_index", index, size=size)


@lowers(aten.embedding.default)
def embedding(
    cx: Context,
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor | Refused:
    """Rows of a table."""
    del padding_idx, scale_grad_by_freq, sparse  # they matter in training only
    if indices.dtype not in (DType.I32, DType.I64):
        return Refused(f"indices in {indices.dtype.name.lower()}")
    flat = cx.builder.reshape(indices.value, (product(indices.shape),))
    op = "get_rows" if weight.dtype == DType.F32 else "take_rows"
    return cx.out(cx.builder.emit(op, weight.value, _index(cx, flat, weight.shape[0])))


@lowers(aten.index_select.default)
def index_select(cx: Context, x: Tensor, dim: int, index: Tensor) -> Tensor | Refused:
    """Chosen indices of one dim."""
    if x.rank == 0:
        return Refused("index_select on a scalar")
    selected: list[Tensor | None] = [None] * (dim % x.rank) + [index]
    return index_tensor(cx, x, selected)


@lowers(aten.index.Tensor)
def index_tensor(cx: Context, x: Tensor, indices: Sequence[Tensor | None]) -> Tensor | Refused:
    """Indexing by integer tensors that stand side by side; they are broadcast and combined into row numbers."""
    places = [place for place, index in enumerate(indices) if index is not None]
    given = [index for index in indices if index is not None]
    if any(index.dtype not in (DType.I32, DType.I64) for index in given):
        return Refused("indexing by a mask: the result's size depends on the data")
    if not places or places != list(range(places[0], places[-1] + 1)):
        return Refused("indexing by tensors that do not stand side by side")
    first, last = places[0], places[-1] + 1
    shape = _broadcast_shape(given)
    if len(shape) > 4:
        return Refused("indexing by tensors of more than four dims")
    build = cx.builder
    table = _rows_of(cx, x, first, last)
    number = _flat_index(cx, given, x.shape[first:last])
    number = build.broadcast(number, ne_of(shape))
    rows = build.reshape(number, (product(shape),))
    taken = build.emit("take_rows", table, rows)
    return cx.out(_rows_back(cx, taken, x.shape[:first], x.shape[last:], product(shape)))


def _broadcast_shape(tensors: Sequence[Tensor]) -> tuple[Dim, ...]:
    rank = max(tensor.rank for tensor in tensors)
    shape: list[Dim] = [1] * rank
    for tensor in tensors:
        for place, size in enumerate(tensor.shape, rank - tensor.rank):
            shape[place] = shape[place] if is_one(size) else size
    return tuple(shape)


def _rows_of(cx: Context, x: Tensor, first: int, last: int) -> Value:
    """``x`` as a matrix: one row for each index of dims ``first`` to ``last``, all the rest in its columns."""
    outer, middle, inner = product(x.shape[:first]), product(x.shape[first:last]), product(x.shape[last:])
    box = cx.builder.reshape(x.value, (inner, middle, outer))
    return cx.builder.reshape(cx.builder.permute(box, (0, 2, 1, 3)), (product([inner, outer]), middle))


def _rows_back(cx: Context, rows: Value, before: Sequence[Dim], after: Sequence[Dim], count: Dim) -> Value:
    """The inverse on the rows taken: dims before the indexed ones come out in front again."""
    box = cx.builder.reshape(rows, (product(after), product(before), count))
    return cx.builder.cont(cx.builder.permute(box, (0, 2, 1, 3)))


def _flat_index(cx: Context, indices: Sequence[Tensor], sizes: Sequence[Dim]) -> Value:
    """``(i0 * size1 + i1) * size2 + i2 ...`` of range-checked indices, broadcast together."""
    build = cx.builder
    flat = _index(cx, unbroadcast(indices[0].value), sizes[0])
    for index, size in zip(indices[1:], sizes[1:], strict=True):
        factor = build.scalar(size, DType.I32)
        scaled = build.emit("mul", flat, factor)
        flat = build.emit("binary", scaled, _index(cx, unbroadcast(index.value), size), kind=BinaryKind.ADD)
    if len(indices) > 1:
        flat = _index(cx, flat, product(sizes))
    return flat


@lowers(aten.gather.default)
def gather(cx: Context, x: Tensor, dim: int, index: Tensor, sparse_grad: bool = False) -> Tensor | Refused:
    """``x[i][index[i][j]]`` along one dim: every element's place is computed, then taken."""
    del sparse_grad
    if x.rank == 0 or x.rank > 4 or index.dtype not in (DType.I32, DType.I64):
        return Refused("gather on a scalar, on more than four dims, or by other indices than integers")
    at = dim % x.rank
    places = [_index_along(cx, index, d) for d in range(x.rank)]
    places[at] = Tensor(index.value, index.shape)
    flat = cx.builder.broadcast(_flat_index(cx, places, x.shape), ne_of(index.shape))
    column = cx.builder.reshape(x.value, (1, product(x.shape)))
    return cx.out(cx.builder.emit("take_rows", column, cx.builder.reshape(flat, (product(index.shape),))))


def _index_along(cx: Context, index: Tensor, dim: int) -> Tensor:
    """0, 1, 2 ... along one dim of the index's shape."""
    size = index.shape[dim]
    shape = tuple(size if d == dim else 1 for d in range(index.rank))
    count = cx.builder.emit("iota", ne=(size, 1, 1, 1), start=0, step=1, dtype=DType.I32)
    return Tensor(cx.builder.reshape(count, ne_of(shape)), shape)
