"""Elements in another order or more than once: flips, rolls, repeats, diagonals, sliding windows, strided views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch

from ....ir.dims import as_dim, is_one, ne_of, product
from ....ir.dtypes import DType
from ....ir.graph import Value
from ....ir.op import Dim
from ....ir.ops.custom import BinaryKind
from ..context import Context, Tensor
from ..registry import Refused, lowers
from .indexing import on_axis, picked
from .shape import concatenated, turned, window

aten = torch.ops.aten


def _count(cx: Context, size: Dim, start: Dim = 0, step: int = 1) -> Value:
    """``start``, ``start + step`` ... as a line of indices."""
    return cx.builder.emit("iota", ne=(size, 1, 1, 1), start=start, step=step, dtype=DType.I32)


@lowers(aten.flip.default)
def flip(cx: Context, x: Tensor, dims: Sequence[int]) -> Tensor:
    """Dims in reverse."""
    for dim in dims if x.rank else ():
        at = dim % x.rank
        x = backwards(cx, x, at, x.shape[at] - 1, x.shape[at])
    return x


def backwards(cx: Context, x: Tensor, dim: int, first: Dim, count: Dim) -> Tensor:
    """``count`` indices of a dim in reverse, from ``first`` on down."""
    found = picked(cx, x, dim, dim + 1, _count(cx, count, first, -1), wrap=False)
    shape = (*x.shape[:dim], count, *x.shape[dim + 1 :])
    return Tensor(cx.builder.reshape(found, ne_of(shape)), shape)


@lowers(aten.roll.default, preserve=True)
def roll(cx: Context, x: Tensor, shifts: Sequence[Any], dims: Sequence[int] = ()) -> Tensor | Refused:
    """Dims, or all elements in a row, shifted around their ends."""
    shape = x.shape
    if not dims:
        x, dims = Tensor(cx.builder.reshape(x.value, (product(shape),)), (product(shape),)), [0]
    for shift, dim in zip(shifts, dims, strict=True):
        at = dim % x.rank
        size = x.shape[at]
        if not isinstance(size, int) or not isinstance(as_dim(shift), int):
            return Refused("rolling a symbolic number of elements")
        first = -int(shift) % max(size, 1)
        if first:
            x = _rolled(cx, x, at, first, size)
    return Tensor(cx.builder.reshape(x.value, ne_of(shape)), shape)


def _rolled(cx: Context, x: Tensor, at: int, first: int, size: int) -> Tensor:
    """One dim beginning at ``first``, what is before that coming last."""
    box = Tensor(cx.builder.reshape(x.value, (product(x.shape[at + 1 :]), size, product(x.shape[:at]))), ())
    box = Tensor(box.value, (box.value.ne[2], size, box.value.ne[0]))
    parts = [window(cx, box, 1, first, size - first).value, window(cx, box, 1, 0, first).value]
    return Tensor(cx.builder.reshape(concatenated(cx, parts, 1), ne_of(x.shape)), x.shape)


@lowers(aten.repeat.default)
def repeat(cx: Context, x: Tensor, repeats: Sequence[Any]) -> Tensor:
    """Dims as many times over as is said."""
    times = [as_dim(n) for n in repeats]
    shape: list[Dim] = [1] * (len(times) - x.rank) + list(x.shape)
    value = x.value
    for dim in reversed(range(len(times))):
        if is_one(times[dim]):
            continue
        inner, outer = product(shape[dim:]), product(shape[:dim])
        line = cx.builder.reshape(value, (inner, 1, outer))
        value = cx.builder.broadcast(line, (inner, times[dim], outer))
        shape[dim] = product([shape[dim], times[dim]])
    return cx.out(value)


@lowers(aten.diagonal_copy.default, aten.diagonal.default)
def diagonal(cx: Context, x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor | Refused:
    """A diagonal of two dims, as the last dim."""
    if x.rank > 4:
        return Refused("a diagonal in more than four dims")
    row, column = dim1 % x.rank, dim2 % x.rank
    count = cx.shape()[-1]
    rows = window(cx, x, row, max(-offset, 0), count)
    columns = on_axis(cx, _count(cx, count, max(offset, 0)), x.axis(row))
    found = cx.builder.emit("take", rows.value, columns, axis=x.axis(column), wrap=False)
    shape = tuple(1 if d == column else n for d, n in enumerate(rows.shape))
    order = [d for d in range(x.rank) if d not in (row, column)] + [column, row]
    return cx.out(turned(cx, Tensor(found, shape), order).value)


@lowers(aten.unfold_copy.default, aten.unfold.default)
def unfold(cx: Context, x: Tensor, dimension: int, size: int, step: int) -> Tensor | Refused:
    """Windows that slide along one dim, each as the last dim."""
    if x.rank == 0:
        return Refused("windows of a scalar")
    at = dimension % x.rank
    shape = cx.shape()
    first = on_axis(cx, _count(cx, shape[at], 0, step), 1)
    places = cx.builder.emit("binary", first, _count(cx, size), kind=BinaryKind.ADD)
    line = cx.builder.reshape(places, (product([size, shape[at]]),))
    found = picked(cx, x, at, at + 1, line, wrap=False)
    full = (*shape[: at + 1], size, *shape[at + 1 : -1])
    order = [d for d in range(len(full)) if d != at + 1] + [at + 1]
    return cx.out(turned(cx, Tensor(cx.builder.reshape(found, ne_of(full)), full), order).value)


@lowers(aten.as_strided_copy.default, aten.as_strided.default)
def as_strided(
    cx: Context, x: Tensor, size: Sequence[Any], stride: Sequence[Any], storage_offset: Any = None
) -> Tensor | Refused:
    """Elements of a dense tensor at steps of any length, which may overlap."""
    source: Any = cx.node.args[0]
    order = _dim_order(source.meta["val"])
    steps = [as_dim(n) for n in stride]
    if order is None or any(isinstance(n, sympy.Expr) for n in steps):
        return Refused("strided elements of a tensor that is not dense, or at symbolic steps")
    x = turned(cx, x, order)
    sizes = [as_dim(n) for n in size]
    build = cx.builder
    line = _count(cx, 1, 0 if storage_offset is None else as_dim(storage_offset))
    for count, step in zip(sizes, steps, strict=True):  # outermost first: each is spread over the next
        further = _count(cx, count, 0, int(step))
        spread = build.emit("binary", build.reshape(line, (1, line.count)), further, kind=BinaryKind.ADD)
        line = build.reshape(spread, (product([line.count, count]),))
    whole = Tensor(build.reshape(x.value, (product(x.shape),)), (product(x.shape),))
    return cx.out(picked(cx, whole, 0, 1, line, wrap=False))


def _dim_order(fake: torch.Tensor) -> list[int] | None:
    """The dims of a tensor from the one with the largest stride on, or None where its elements are not dense."""
    if fake.is_contiguous():
        order = list(range(fake.dim()))
    elif any(not isinstance(as_dim(stride), int) for stride in fake.stride()):
        return None
    else:
        order = sorted(range(fake.dim()), key=fake.stride, reverse=True)
    return order if fake.storage_offset() == 0 and fake.permute(order).is_contiguous() else None
