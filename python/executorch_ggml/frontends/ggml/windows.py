"""Views of memory as the IR's reshapes, windows and permutations of the dense tensor that has it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from math import prod

import numpy as np

from ...ir.arrays import Contents
from ...ir.builder import Builder
from ...ir.dtypes import DType
from ...ir.graph import Value
from ...ir.ops.indexing import ScatterKind


def window(b: Builder, base: Value, ne: Sequence[int], strides: Sequence[int], offset: int) -> Value:
    """The elements of ``base`` at ``offset + sum(i * strides)``."""
    total, count = prod(base.ne), prod(ne)
    if count == total and offset == 0 and _is_dense(ne, strides):
        return b.reshape(base, ne)
    return _nested(b, base, ne, strides, offset) or _gathered(b, base, ne, strides, offset)


def updated(b: Builder, base: Value, ne: Sequence[int], strides: Sequence[int], offset: int, value: Value) -> Value:
    """``base`` with a window's elements replaced by those of ``value``."""
    total, count = prod(base.ne), prod(ne)
    if count == 0:
        return base
    if not _is_dense(ne, strides):
        flat, index = b.reshape(base, (total,)), _index(b, ne, strides, offset)
        src = b.reshape(b.cont(value), (count,))
        result = b.emit(
            "scatter",
            flat,
            index,
            src,
            ne=(count, 1, 1, 1),
            axis=0,
            kind=ScatterKind.ASSIGN,
            include_self=True,
            wrap=False,
        )
        return b.reshape(result, base.ne)
    result = b.reshape(b.cont(value), (count,))
    if count == total:
        return b.reshape(result, base.ne)
    flat = b.reshape(base, (total,))
    if offset > 0:
        result = b.emit("concat", b.view(flat, (0, 0, 0, 0), (offset, 1, 1, 1)), result, dim=0)
    if offset + count < total:
        rest = b.view(flat, (offset + count, 0, 0, 0), (total - offset - count, 1, 1, 1))
        result = b.emit("concat", result, rest, dim=0)
    return b.reshape(result, base.ne)


def constant(b: Builder, array: np.ndarray, dtype: DType) -> Value:
    """Numbers that are known, of the reversed array's shape."""
    array = np.ascontiguousarray(array)
    ne = (*reversed(array.shape), 1, 1, 1, 1)[:4]
    key = f"{dtype.name.lower()}-{list(ne)}-{hashlib.sha256(array.tobytes()).hexdigest()[:32]}"
    return b.constant(key, dtype, (ne[0], ne[1], ne[2], ne[3]), Contents(lambda: array.reshape(-1), dtype, key))


def _is_dense(ne: Sequence[int], strides: Sequence[int]) -> bool:
    expected = 1
    for size, stride in zip(ne, strides, strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def _nested(b: Builder, base: Value, ne: Sequence[int], strides: Sequence[int], offset: int) -> Value | None:
    """Where each stride is a multiple of the next smaller: a window of a reshape, permuted."""
    total = prod(base.ne)
    dims = sorted((i for i in range(4) if ne[i] != 1), key=lambda i: -strides[i])
    levels = [strides[i] for i in dims]
    if 0 in ne or any(step <= 0 for step in levels):
        return None
    if not levels:
        levels = [1]
    bounds = [total, *levels]
    if any(outer % inner or outer == inner == 0 for outer, inner in zip(bounds, levels, strict=False)):
        return None
    shape = [outer // inner for outer, inner in zip(bounds, levels, strict=False)]
    start, size, rest = [], [ne[i] for i in dims] or [1], offset
    for step in levels:
        start.append(rest // step)
        rest %= step
    if levels[-1] != 1:
        shape, start, size = [*shape, levels[-1]], [*start, rest], [*size, 1]
    if len(shape) > 4 or any(at + n > most for at, n, most in zip(start, size, shape, strict=True)):
        return None
    part = b.view(b.reshape(base, shape[::-1]), [*start[::-1], 0, 0, 0][:4], size[::-1])
    # The dims that count go to their places, those of size 1 to what is left.
    order: list[int | None] = [*dims, *([None] * (len(shape) - len(dims)))][::-1]
    order += [None] * (4 - len(order))
    free = iter(sorted(set(range(4)) - set(dims)))
    return b.permute(part, [next(free) if i is None else i for i in order])


def _index(b: Builder, ne: Sequence[int], strides: Sequence[int], offset: int) -> Value:
    places = np.full((1, 1, 1, 1), offset, dtype=np.int64)
    for dim in range(4):
        shape = [1, 1, 1, 1]
        shape[3 - dim] = ne[dim]
        places = places + (strides[dim] * np.arange(ne[dim], dtype=np.int64)).reshape(shape)
    return constant(b, places.reshape(-1), DType.I64)


def _gathered(b: Builder, base: Value, ne: Sequence[int], strides: Sequence[int], offset: int) -> Value:
    flat = b.reshape(base, (prod(base.ne),))
    taken = b.emit("take", flat, _index(b, ne, strides, offset), axis=0, wrap=False)
    return b.reshape(taken, ne)
