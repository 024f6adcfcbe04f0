"""Writes at indices: index_put, scatters with all their ways of combining, and tensors written into windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ....ir.dims import as_dim, is_one, ne_of, product, same
from ....ir.dtypes import DType
from ....ir.graph import Value
from ....ir.op import Dim
from ....ir.ops.custom import BinaryKind
from ....ir.ops.indexing import ScatterKind
from ..context import FLOATS, Context, Tensor, compute_type
from ..registry import Refused, lowers
from .indexing import (
    DATA_DEPENDENT,
    along,
    boxed,
    broadcast_shape,
    flat_index,
    gathered_dims,
    is_index,
    on_axis,
)
from .shape import expanded, slice_start, turned, window

aten = torch.ops.aten

KINDS = {
    "sum": ScatterKind.ADD,
    "add": ScatterKind.ADD,
    "prod": ScatterKind.MUL,
    "multiply": ScatterKind.MUL,
    "amax": ScatterKind.MAX,
    "amin": ScatterKind.MIN,
}


def _arithmetic(dtype: DType, kind: ScatterKind) -> DType:
    """The type that elements are combined in: for small integers one that wraps to the same, for halves f32."""
    if kind == ScatterKind.ASSIGN:
        return dtype
    return DType.I32 if dtype == DType.BOOL else compute_type(dtype)


def emit_scatter(
    cx: Context,
    x: Value,
    index: Value,
    src: Value,
    axis: int,
    *,
    kind: ScatterKind = ScatterKind.ASSIGN,
    include_self: bool = True,
    wrap: bool = False,
) -> Value:
    """``x`` with ``src`` combined into it at ``index`` along a ggml dim, both broadcast to ``x``'s other dims."""
    compute = _arithmetic(x.dtype, kind)
    ne = tuple(index.ne[axis] if d == axis else n for d, n in enumerate(x.ne))
    how = {"axis": axis, "kind": kind, "include_self": include_self, "wrap": wrap}
    base, part = cx.builder.convert(x, compute), cx.builder.convert(src, compute)
    return cx.builder.convert(cx.builder.emit("scatter", base, index, part, ne=ne, **how), x.dtype)


def written(cx: Context, x: Tensor, part: Tensor, dim: int, start: Dim, step: int = 1) -> Tensor:
    """``x`` with ``part`` in the window of one dim that begins at ``start`` and takes every ``step``."""
    count = part.shape[dim]
    line = cx.builder.emit("iota", ne=(count, 1, 1, 1), start=start, step=step, dtype=DType.I64)
    source, axis = along(cx, x, dim, dim + 1)
    values = part.value if x.rank <= 4 else boxed(cx, part, dim, dim + 1)
    made = emit_scatter(cx, source, on_axis(cx, line, axis), values, axis)
    return Tensor(cx.builder.reshape(made, ne_of(x.shape)), x.shape)


# --------------------------------------------------------------------------------------------------------- scatters


@lowers(aten.scatter.src)
def scatter_src(cx: Context, x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor | Refused:
    """Elements written at indices of one dim, the last of equal indices staying."""
    return _scattered(cx, x, dim, index, src, ScatterKind.ASSIGN)


@lowers(aten.scatter.value)
def scatter_value(cx: Context, x: Tensor, dim: int, index: Tensor, value: Any) -> Tensor | Refused:
    """One number written at indices of one dim."""
    return _scattered(cx, x, dim, index, value, ScatterKind.ASSIGN)


@lowers(aten.scatter.reduce, aten.scatter.value_reduce)
def scatter_combined(cx: Context, x: Tensor, dim: int, index: Tensor, src: Any, *, reduce: str) -> Tensor | Refused:
    """Elements added to, or multiplied with, those at indices of one dim."""
    return _scattered(cx, x, dim, index, src, KINDS[reduce])


@lowers(aten.scatter_add.default)
def scatter_add(cx: Context, x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor | Refused:
    """Elements added to those at indices of one dim."""
    return _scattered(cx, x, dim, index, src, ScatterKind.ADD)


@lowers(aten.scatter_reduce.two)
def scatter_reduce(
    cx: Context, x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor | Refused:
    """Elements combined with those at indices of one dim; a mean is a sum over a count."""
    if reduce != "mean":
        return _scattered(cx, x, dim, index, src, KINDS[reduce], include_self)
    compute = DType.F32 if x.dtype in FLOATS else DType.I64
    total = _scattered(cx, cx.tensor(x, compute), dim, index, cx.tensor(src, compute), ScatterKind.ADD, include_self)
    first = Tensor(cx.builder.fill(ne_of(x.shape), int(include_self), compute), x.shape)
    count = _scattered(cx, first, dim, index, 1, ScatterKind.ADD)
    if isinstance(total, Refused) or isinstance(count, Refused):
        return total if isinstance(total, Refused) else count
    least = cx.builder.emit("binary", count.value, cx.builder.scalar(1, compute), kind=BinaryKind.MAXIMUM)
    kind = BinaryKind.DIV if compute == DType.F32 else BinaryKind.FLOOR_DIVIDE
    made = cx.builder.emit("binary", total.value, least, kind=kind)
    return cx.out(cx.builder.convert(made, x.dtype))


@lowers(aten.index_reduce.default)
def index_reduce(
    cx: Context, x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor | Refused:
    """Slices combined with those at indices of one dim."""
    if reduce == "mean" or x.rank == 0:
        return Refused("index_reduce as a mean, or of a scalar")
    at = dim % x.rank
    base, axis = along(cx, x, at, at + 1)
    line = on_axis(cx, cx.builder.reshape(index.value, (index.value.count,)), axis)
    part = source.value if x.rank <= 4 else boxed(cx, source, at, at + 1)
    return cx.out(emit_scatter(cx, base, line, part, axis, kind=KINDS[reduce], include_self=include_self))


def _scattered(
    cx: Context,
    x: Tensor,
    dim: int,
    index: Tensor,
    src: Any,
    kind: ScatterKind,
    include_self: bool = True,
) -> Tensor | Refused:
    """``src``, as far as ``index`` goes, combined into ``x``: where that is a part of ``x``, into its window."""
    if not is_index(index):
        return Refused(f"indices in {index.dtype.name.lower()}")
    rank = max(x.rank, 1)
    at, shape = dim % rank, x.shape
    x, index = _of_rank(x, rank), _of_rank(index, rank)
    part = _of_rank(src, rank) if isinstance(src, Tensor) and src.rank else src
    base = x
    narrowed = [d for d in range(rank) if d != at and not same(index.shape[d], x.shape[d])]
    if any(n == 0 for n in index.shape):
        return Tensor(x.value, shape)
    for d in range(rank):
        if d in narrowed:
            base = window(cx, base, d, 0, index.shape[d])
        if isinstance(part, Tensor) and part.rank and not same(index.shape[d], part.shape[d]):
            part = window(cx, part, d, 0, index.shape[d])
    if isinstance(part, Tensor):
        values = part.value if rank <= 4 or not part.rank else boxed(cx, part, at, at + 1)
    else:
        values = cx.builder.scalar(bool(part) if x.dtype == DType.BOOL else part, x.dtype)
    target, axis = along(cx, base, at, at + 1)
    places = index.value if rank <= 4 else boxed(cx, index, at, at + 1)
    made = emit_scatter(cx, target, places, values, axis, kind=kind, include_self=include_self)
    result = Tensor(cx.builder.reshape(made, ne_of(base.shape)), base.shape)
    for place in reversed(range(len(narrowed))):
        whole = x
        for d in narrowed[:place]:
            whole = window(cx, whole, d, 0, index.shape[d])
        result = written(cx, whole, result, narrowed[place], 0)
    return Tensor(result.value, shape)


def _of_rank(x: Tensor, rank: int) -> Tensor:
    return x if x.rank == rank else Tensor(x.value, (1,) * (rank - x.rank) + x.shape)


# ------------------------------------------------------------------------------------------------------- index_put


@lowers(aten.index_put.default)
def index_put(
    cx: Context, x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False
) -> Tensor | Refused:
    """Elements written at, or added to, those that index tensors name, or where a mask holds."""
    index_tensors = [index for index in indices if index is not None]
    if any(index.dtype in (DType.BOOL, DType.U8) for index in index_tensors):
        return _put_where(cx, x, indices, values, accumulate)
    if not index_tensors or not all(is_index(index) for index in index_tensors):
        return Refused("indices in " + ", ".join(index.dtype.name.lower() for index in index_tensors))
    moved, first, order = gathered_dims(cx, x, indices)
    last = first + len(index_tensors)
    line = flat_index(cx, index_tensors, moved.shape[first:last])
    target, axis = along(cx, moved, first, last)
    if all(is_one(n) for n in values.shape):
        part = cx.builder.reshape(values.value, ())
    elif target is moved.value and index_tensors[0].rank == 1:
        part = values.value
    else:
        shape = [*moved.shape[:first], *broadcast_shape(index_tensors), *moved.shape[last:]]
        full = expanded(cx, values, shape)
        part = boxed(cx, full, first, len(shape) - (moved.rank - last))
        if axis != 1 or target is moved.value:
            part = cx.builder.reshape(part, [line.count if d == axis else n for d, n in enumerate(target.ne)])
    kind = ScatterKind.ADD if accumulate else ScatterKind.ASSIGN
    scattered = emit_scatter(cx, target, on_axis(cx, line, axis), part, axis, kind=kind, wrap=True)
    result = Tensor(cx.builder.reshape(scattered, ne_of(moved.shape)), moved.shape)
    return turned(cx, result, [list(order).index(dim) for dim in range(x.rank)])


def _put_where(
    cx: Context, x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool
) -> Tensor | Refused:
    """One mask over some dims: its rows in order get those of ``values``, or all of them the same one."""
    masks = [(place, index) for place, index in enumerate(indices) if index is not None]
    if len(masks) > 1 or accumulate:
        return Refused(f"accumulating by a mask, or a mask beside other indices: {DATA_DEPENDENT}")
    first, mask = masks[0]
    before, after = x.shape[:first], x.shape[first + mask.rank :]
    rows = values.shape[-1 - len(after)] if values.rank > len(after) else 1
    base = boxed(cx, x, first, first + mask.rank)
    if all(is_one(n) for n in values.shape):
        part = cx.builder.reshape(values.value, ())
    else:
        part = boxed(cx, expanded(cx, values, [*before, rows, *after]), first, first + 1)
    return cx.out(_where(cx, base, mask.value, part, is_one(rows)))


def _where(cx: Context, base: Value, mask: Value, rows: Value, repeated: bool) -> Value:
    """``base``, its middle dim's rows where the mask holds replaced by ``rows`` in order, or each by the one row."""
    build = cx.builder
    line = build.reshape(build.convert(mask, DType.BOOL), (mask.count,))
    if not repeated:
        if rows.ne[1] == 0:
            return base
        counted = build.emit("cumsum", build.convert(line, DType.I32))
        place = build.emit("binary", counted, build.scalar(1, DType.I32), kind=BinaryKind.SUB)
        place = build.emit("binary", place, build.scalar(0, DType.I32), kind=BinaryKind.MAXIMUM)
        rows = build.emit("take", rows, on_axis(cx, place, 1), axis=1, wrap=False)
    return build.emit("select", on_axis(cx, line, 1), rows, base)


@lowers(aten.masked_scatter.default)
def masked_scatter(cx: Context, x: Tensor, mask: Tensor, source: Tensor) -> Tensor | Refused:
    """Elements where a mask holds replaced by those of ``source`` in order."""
    shape = cx.shape()
    base = cx.builder.reshape(expanded(cx, x, shape).value, (1, product(shape)))
    rows = cx.builder.reshape(source.value, (1, product(source.shape)))
    return cx.out(_where(cx, base, expanded(cx, mask, shape).value, rows, repeated=False))


# ---------------------------------------------------------------------------------------------------------- windows


@lowers(aten.slice_scatter.default)
def slice_scatter(
    cx: Context, x: Tensor, src: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Tensor:
    """A tensor written into a range of one dim."""
    del end  # the source's shape has it
    at = dim % x.rank
    return written(cx, x, src, at, 0 if start is None else slice_start(start, x.shape[at]), step)


@lowers(aten.select_scatter.default, preserve=True)
def select_scatter(cx: Context, x: Tensor, src: Tensor, dim: int, index: Any) -> Tensor:
    """A tensor written into one index of one dim."""
    at, place = dim % x.rank, as_dim(index)
    first = x.shape[at] + place if isinstance(place, int) and place < 0 else place
    shape = (*src.shape[:at], 1, *src.shape[at:])
    return written(cx, x, Tensor(cx.builder.reshape(src.value, ne_of(shape)), shape), at, first)


@lowers(aten.diagonal_scatter.default)
def diagonal_scatter(
    cx: Context, x: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor | Refused:
    """A tensor written to a diagonal of two dims."""
    if x.rank > 4:
        return Refused("a diagonal in more than four dims")
    row, column = dim1 % x.rank, dim2 % x.rank
    count = src.shape[-1]
    rows = window(cx, x, row, max(-offset, 0), count)
    columns = cx.builder.emit("iota", ne=(count, 1, 1, 1), start=max(offset, 0), step=1, dtype=DType.I64)
    places = on_axis(cx, columns, x.axis(row))
    # The source's last dim comes to stand where the rows do, beside a column of size 1.
    order = [d for d in range(x.rank) if d not in (row, column)]
    shape = [1] * x.rank
    kept = turned(cx, src, [len(order) if d == row else order.index(d) for d in range(x.rank) if d != column])
    shape = [*kept.shape[:column], 1, *kept.shape[column:]]
    part = cx.builder.reshape(kept.value, ne_of(shape))
    made = emit_scatter(cx, rows.value, places, part, x.axis(column))
    result = Tensor(made, rows.shape)
    return result if same(count, x.shape[row]) else written(cx, x, result, row, max(-offset, 0))
