"""Sorted order and what follows from it: sort, topk, medians, places in a sorted sequence; and extremes of one dim."""

from __future__ import annotations

from typing import Any

import torch

from ....ir.dims import as_dim, floor_div, ne_of, product
from ....ir.dtypes import DType
from ....ir.graph import Value
from ....ir.op import Dim
from ....ir.ops.custom import BinaryKind, ReduceKind, UnaryKind
from ..context import FLOATS, Context, Tensor, compute_type
from ..registry import Refused, lowers
from .indexing import along

aten = torch.ops.aten

Pair = tuple[Tensor, Tensor]


def computed(cx: Context, value: Value) -> Value:
    """Numbers in a type that all kernels take, exactly: halves as f32, small integers and booleans as i32."""
    if value.dtype in (DType.F32, DType.I32, DType.I64):
        return value
    return cx.builder.convert(value, DType.F32 if value.dtype in FLOATS else DType.I32)


def line_of(cx: Context, x: Tensor, dim: int) -> tuple[Value, int]:
    """``x`` in at most four dims, and the ggml dim that ``dim`` is."""
    return along(cx, x, dim % x.rank, dim % x.rank + 1) if x.rank else (x.value, 0)


def order(cx: Context, x: Value, axis: int, count: Dim, descending: bool) -> Value:
    """Places of the first elements in sorted order along a ggml dim."""
    swapped = _first(axis)
    rows = cx.builder.emit("sort", cx.builder.permute(x, swapped), count=count, descending=descending)
    return cx.builder.permute(rows, swapped)


def _first(axis: int) -> list[int]:
    """The permutation that swaps a ggml dim with the first one; it is its own inverse."""
    axes = [0, 1, 2, 3]
    axes[0], axes[axis] = axis, 0
    return axes


def taken(cx: Context, x: Value, indices: Value, axis: int) -> Value:
    """The elements at places along a ggml dim."""
    return cx.builder.emit("take", x, indices, axis=axis, wrap=False)


def _pair(cx: Context, x: Value, indices: Value, axis: int) -> Pair:
    return cx.out(taken(cx, x, indices, axis), 0), cx.out(indices, 1)


def _sorted(cx: Context, x: Tensor, dim: int, descending: bool) -> Pair | Refused:
    if x.dtype == DType.F64:
        return Refused("float64 is left to ExecuTorch: ggml computes in float32")
    value, axis = line_of(cx, x, dim)
    places = order(cx, value, axis, value.ne[axis], descending)
    return _pair(cx, value, places, axis)


@lowers(aten.sort.default)
def sort(cx: Context, x: Tensor, dim: int = -1, descending: bool = False) -> Pair | Refused:
    """Sorted values and where they were."""
    return _sorted(cx, x, dim, descending)


@lowers(aten.sort.stable)
def sort_stable(cx: Context, x: Tensor, *, stable: Any, dim: int = -1, descending: bool = False) -> Pair | Refused:
    """Sorted values and where they were; equals as they come."""
    del stable
    return _sorted(cx, x, dim, descending)


@lowers(aten.topk.default)
def topk(cx: Context, x: Tensor, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True) -> Pair | Refused:
    """The largest or smallest values, and where they were; of equals those that torch's CPU kernel takes."""
    if x.dtype == DType.F64:
        return Refused("float64 is left to ExecuTorch: ggml computes in float32")
    value, axis = line_of(cx, x, dim)
    rows = cx.builder.permute(value, swapped := _first(axis))
    places = cx.builder.emit("top_k", rows, count=as_dim(k), largest=largest, in_order=sorted)
    return _pair(cx, value, cx.builder.permute(places, swapped), axis)


@lowers(aten.kthvalue.default)
def kthvalue(cx: Context, x: Tensor, k: Any, dim: int = -1, keepdim: bool = False) -> Pair | Refused:
    """The k-th smallest value, and where it was."""
    del keepdim
    if x.dtype == DType.F64:
        return Refused("float64 is left to ExecuTorch: ggml computes in float32")
    value, axis = line_of(cx, x, dim)
    return _pair(cx, value, _kth(cx, value, axis, as_dim(k)), axis)


def _kth(cx: Context, x: Value, axis: int, k: Dim) -> Value:
    places = order(cx, x, axis, k, descending=False)
    start: list[Dim] = [0, 0, 0, 0]
    start[axis] = k - 1
    return cx.builder.view(places, start, [1 if d == axis else n for d, n in enumerate(places.ne)])


def extreme(cx: Context, x: Value, axis: int, kind: ReduceKind) -> Value:
    """Place of the largest or smallest element along a ggml dim: the first of equals, or the first NaN."""
    return cx.builder.emit("reduce", computed(cx, x), kind=kind, axes=(axis,))


@lowers(aten.max.dim)
def max_dim(cx: Context, x: Tensor, dim: int, keepdim: bool = False) -> Pair | Refused:
    """Largest element of one dim, and its place."""
    del keepdim
    return _extreme_of(cx, x, dim, ReduceKind.ARGMAX)


@lowers(aten.min.dim)
def min_dim(cx: Context, x: Tensor, dim: int, keepdim: bool = False) -> Pair | Refused:
    """Smallest element of one dim, and its place."""
    del keepdim
    return _extreme_of(cx, x, dim, ReduceKind.ARGMIN)


def _extreme_of(cx: Context, x: Tensor, dim: int, kind: ReduceKind) -> Pair | Refused:
    if x.dtype == DType.F64:
        return Refused("float64 is left to ExecuTorch: ggml computes in float32")
    value, axis = line_of(cx, x, dim)
    return _pair(cx, value, extreme(cx, value, axis, kind), axis)


# ---------------------------------------------------------------------------------------------------------- medians


@lowers(aten.median.dim)
def median_dim(cx: Context, x: Tensor, dim: int, keepdim: bool = False) -> Pair | Refused:
    """The lower median of one dim, and its place; a NaN wins."""
    del keepdim
    return _median_of(cx, x, dim, _median)


@lowers(aten.nanmedian.dim)
def nanmedian_dim(cx: Context, x: Tensor, dim: int, keepdim: bool = False) -> Pair | Refused:
    """The lower median of one dim but for its NaN, and its place."""
    del keepdim
    return _median_of(cx, x, dim, _nanmedian)


def _median_of(cx: Context, x: Tensor, dim: int, function: Any) -> Pair | Refused:
    if x.dtype == DType.F64:
        return Refused("float64 is left to ExecuTorch: ggml computes in float32")
    value, axis = line_of(cx, x, dim)
    return _pair(cx, value, function(cx, value, axis), axis)


@lowers(aten.median.default)
def median(cx: Context, x: Tensor) -> Tensor | Refused:
    """The lower median of all; a NaN wins."""
    return _median_of_all(cx, x, _median)


@lowers(aten.nanmedian.default)
def nanmedian(cx: Context, x: Tensor) -> Tensor | Refused:
    """The lower median of all that is not NaN."""
    return _median_of_all(cx, x, _nanmedian)


def _median_of_all(cx: Context, x: Tensor, function: Any) -> Tensor | Refused:
    count = product(x.shape)
    if x.dtype == DType.F64 or count == 0:
        return Refused("the median of float64, or of nothing")
    line = cx.builder.reshape(x.value, (count,))
    return cx.out(taken(cx, line, function(cx, line, 0), 0))


def _median(cx: Context, x: Value, axis: int) -> Value:
    middle = _kth(cx, x, axis, floor_div(x.ne[axis] + 1, 2))
    if x.dtype not in FLOATS:
        return middle
    largest = extreme(cx, x, axis, ReduceKind.ARGMAX)  # NaN, where there is one
    wins = cx.builder.emit("unary", computed(cx, taken(cx, x, largest, axis)), kind=UnaryKind.ISNAN)
    return cx.builder.emit("select", wins, largest, middle)


def _nanmedian(cx: Context, x: Value, axis: int) -> Value:
    if x.dtype not in FLOATS:
        return _median(cx, x, axis)
    build = cx.builder
    missing = build.convert(build.emit("unary", computed(cx, x), kind=UnaryKind.ISNAN), DType.I64)
    present = build.emit("reduce", missing, kind=ReduceKind.SUM, axes=(axis,))
    present = build.emit("binary", build.scalar(x.ne[axis] - 1, DType.I64), present, kind=BinaryKind.SUB)
    middle = build.emit("binary", present, build.scalar(2, DType.I64), kind=BinaryKind.FLOOR_DIVIDE)
    middle = build.emit("binary", middle, build.scalar(0, DType.I64), kind=BinaryKind.MAXIMUM)
    return taken(cx, order(cx, x, axis, x.ne[axis], descending=False), middle, axis)


# --------------------------------------------------------------------------------------- places in a sorted sequence


@lowers(aten.bucketize.Tensor, aten.bucketize.Scalar, preserve=True)
def bucketize(
    cx: Context, x: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> Tensor | Refused:
    """Between which boundaries each element lies: how many of them are less than it, or with ``right`` no larger."""
    del out_int32
    return _places_in(cx, boundaries, x, right)


@lowers(aten.searchsorted.Tensor, aten.searchsorted.Scalar, preserve=True)
def searchsorted(
    cx: Context,
    sequence: Tensor,
    x: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor | Refused:
    """Where each element would be inserted into a sorted sequence, or into the sequence of its own row."""
    del out_int32
    if sorter is not None:
        value, axis = line_of(cx, sequence, -1)
        order_of, _ = line_of(cx, sorter, -1)
        sequence = Tensor(cx.builder.reshape(taken(cx, value, order_of, axis), ne_of(sequence.shape)), sequence.shape)
    return _places_in(cx, sequence, x, right if side is None else side == "right")


def _places_in(cx: Context, sequence: Tensor, x: Any, right: bool) -> Tensor | Refused:
    """Of a sequence's elements, those that are less than each ``x``; with ``right`` those that are no larger."""
    if DType.F64 in (sequence.dtype, x.dtype if isinstance(x, Tensor) else None):
        return Refused("float64 is left to ExecuTorch: ggml computes in float32")
    build, dtype = cx.builder, compute_type(sequence.dtype)
    given = cx.tensor(x, dtype)
    rows = product(sequence.shape[:-1])  # one, or as many as x has
    length, per_row = sequence.shape[-1], given.shape[-1] if sequence.rank > 1 else product(given.shape)
    edges = build.reshape(cx.tensor(sequence, dtype).value, (length, 1, rows))
    values = build.reshape(given.value, (1, per_row, rows))
    target = (length, per_row, rows, 1)
    # A NaN is less than no edge, and comes after all of them.
    kind = BinaryKind.GT if right else BinaryKind.GE
    after = build.emit("binary", build.broadcast(edges, target), build.broadcast(values, target), kind=kind)
    before = build.convert(build.emit("unary", after, kind=UnaryKind.LOGICAL_NOT), DType.I64)
    count = build.emit("reduce", before, kind=ReduceKind.SUM, axes=(0,))
    return cx.out(build.convert(count, cx.dtype()))
