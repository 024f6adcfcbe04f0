"""Gathers: embeddings, index_select, index by tensors, gather. Indices are range-checked when they are used."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ....ir.dims import is_one, product, same
from ....ir.dtypes import DType
from ....ir.graph import Value
from ....ir.layout import unbroadcast
from ....ir.op import Dim
from ....ir.ops.custom import BinaryKind
from ..context import Context, Tensor
from ..layout import aligned
from ..registry import REASONS, Refused, lowers
from .shape import filled, turned, window

aten = torch.ops.aten

DATA_DEPENDENT = "the size of its output depends on data"
for _overload in (
    aten.nonzero.default,
    aten.nonzero_static.default,
    aten.masked_select.default,
    aten._unique2.default,
    aten.unique_consecutive.default,
    aten.unique_dim.default,
    aten.repeat_interleave.Tensor,
    aten.bincount.default,
):
    REASONS[_overload] = DATA_DEPENDENT


def is_index(tensor: Tensor) -> bool:
    """Whether a tensor's type is one that indices may have here."""
    return tensor.dtype in (DType.I32, DType.I64)


def boxed(cx: Context, x: Tensor, first: int, last: int) -> Value:
    """``x`` in three dims: those before ``first``, those from there to ``last``, and the rest."""
    shape = x.shape
    return cx.builder.reshape(x.value, (product(shape[last:]), product(shape[first:last]), product(shape[:first])))


def along(cx: Context, x: Tensor, first: int, last: int) -> tuple[Value, int]:
    """``x`` with the dims from ``first`` to ``last`` as one, and its ggml dim: as it is where it can be."""
    if x.rank <= 4 and last == first + 1:
        return x.value, x.axis(first)
    return boxed(cx, x, first, last), 1


def on_axis(cx: Context, line: Value, axis: int) -> Value:
    """A line of numbers that lies along one ggml dim."""
    return cx.builder.reshape(line, [line.count if d == axis else 1 for d in range(4)])


def picked(cx: Context, x: Tensor, first: int, last: int, line: Value, *, wrap: bool) -> Value:
    """What lies at a line of indices along the dims from ``first`` to ``last``, these being taken as one."""
    source, axis = along(cx, x, first, last)
    return cx.builder.emit("take", source, on_axis(cx, line, axis), axis=axis, wrap=wrap)


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
    if not is_index(indices):
        return Refused(f"indices in {indices.dtype.name.lower()}")
    flat = cx.builder.reshape(indices.value, (product(indices.shape),))
    rows = cx.builder.emit("to_index", flat, size=weight.shape[0], wrap=False)
    if (stored := cx.as_stored_rows(weight)) is not None:
        table, factor = stored
        made = cx.builder.emit("get_rows", table, rows)
        return cx.rounded(made if factor is None else cx.builder.emit("mul", made, _of_rows(cx, factor, rows)))
    op = "get_rows" if weight.dtype == DType.F32 else "take_rows"
    return cx.out(cx.builder.emit(op, weight.value, rows))


def _of_rows(cx: Context, factor: Value, rows: Value) -> Value:
    """One number a row of a table, for the rows that are looked up."""
    line = cx.builder.reshape(factor, (1, factor.ne[0]))
    return cx.builder.emit("get_rows", line, rows)


@lowers(aten.index_select.default)
def index_select(cx: Context, x: Tensor, dim: int, index: Tensor) -> Tensor | Refused:
    """Chosen indices of one dim."""
    x, at = _with_dims(x, dim)
    return cx.out(picked(cx, x, at, at + 1, index.value, wrap=False))


def _with_dims(x: Tensor, dim: int) -> tuple[Tensor, int]:
    """A tensor of one dim or more, and a dim of it counted from the front."""
    return (x, dim % x.rank) if x.rank else (Tensor(x.value, (1,)), 0)


@lowers(aten.index.Tensor)
def index_tensor(cx: Context, x: Tensor, indices: Sequence[Tensor | None]) -> Tensor | Refused:
    """Indexing by integer tensors, which are broadcast and combined into one index along their dims as one."""
    given = [index for index in indices if index is not None]
    if any(index.dtype in (DType.BOOL, DType.U8) for index in given):
        return Refused(f"indexing by a mask: {DATA_DEPENDENT}")
    if not given or not all(is_index(index) for index in given):
        return Refused("indices in " + ", ".join(index.dtype.name.lower() for index in given))
    moved, first, _ = gathered_dims(cx, x, indices)
    last = first + len(given)
    return cx.out(picked(cx, moved, first, last, flat_index(cx, given, moved.shape[first:last]), wrap=True))


def gathered_dims(cx: Context, x: Tensor, indices: Sequence[Tensor | None]) -> tuple[Tensor, int, Sequence[int]]:
    """``x`` with its indexed dims side by side, the first one's place, and the order of dims that this took.

    Where they do not stand so, they come to the front, as torch has it.
    """
    places = [place for place, index in enumerate(indices) if index is not None]
    if places == list(range(places[0], places[-1] + 1)):
        return x, places[0], range(x.rank)
    order = places + [dim for dim in range(x.rank) if dim not in places]
    return turned(cx, x, order), 0, order


def broadcast_shape(tensors: Sequence[Tensor]) -> tuple[Dim, ...]:
    """The shape that tensors have together."""
    rank = max(tensor.rank for tensor in tensors)
    shape: list[Dim] = [1] * rank
    for tensor in tensors:
        for place, size in enumerate(tensor.shape, rank - tensor.rank):
            shape[place] = shape[place] if is_one(size) else size
    return tuple(shape)


def flat_index(cx: Context, indices: Sequence[Tensor], sizes: Sequence[Dim]) -> Value:
    """A line of ``(i0 * size1 + i1) * size2 + i2 ...`` of indices that are broadcast together."""
    build = cx.builder
    if len(indices) == 1:
        return build.reshape(indices[0].value, (indices[0].value.count,))
    shape = broadcast_shape(indices)
    values, target = aligned(build, indices, shape)
    flat: Value | None = None
    for value, size in zip(values, sizes, strict=True):
        checked = build.emit("to_index", unbroadcast(value), size=size, wrap=True)
        if flat is not None:
            scaled = build.emit("mul", flat, build.scalar(size, DType.I32))
            checked = build.emit("binary", scaled, checked, kind=BinaryKind.ADD)
        flat = checked
    assert flat is not None
    flat = build.emit("to_index", flat, size=product(sizes), wrap=False)  # with few bits enough for the product
    return build.reshape(build.broadcast(flat, target), (product(shape),))


@lowers(aten.gather.default)
def gather(cx: Context, x: Tensor, dim: int, index: Tensor, sparse_grad: bool = False) -> Tensor | Refused:
    """``x[i][index[i][j]]`` along one dim."""
    del sparse_grad
    if 0 in index.shape:  # its rank and other sizes may be any
        return cx.out(filled(cx, index.shape, 0, x.dtype))
    if x.rank != index.rank and x.rank > 0 and index.rank > 0:
        return Refused("gather by an index of another rank, which an empty one may have")
    (x, at), (index, _) = _with_dims(x, dim), _with_dims(index, dim)
    for d, size in enumerate(index.shape):
        if d != at and not same(size, x.shape[d]):
            x = window(cx, x, d, 0, size)
    if x.rank > 4:
        return cx.out(
            cx.builder.emit("take", boxed(cx, x, at, at + 1), boxed(cx, index, at, at + 1), axis=1, wrap=False)
        )
    axis = x.axis(at)
    places = unbroadcast(index.value)
    if not same(places.ne[axis], index.value.ne[axis]):
        places = index.value
    return cx.out(cx.builder.emit("take", x.value, places, axis=axis, wrap=False))
