"""Elements by index along one dim. Indices are checked, and none reads or writes outside of an array."""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from ....ir.graph import Node
from ....ir.op import Dims
from ....ir.ops.indexing import ScanKind, ScatterKind
from ..registry import Function, direct, in_range, planned
from .custom import extremes, is_float


@direct(checks=True)
def take(a: mx.array, index: mx.array, *, axis: int, wrap: bool) -> mx.array:
    """The elements at ``index`` along one axis."""
    dim = 3 - axis
    index = in_range(index, a.shape[dim], wrap=wrap)
    if all(n == 1 for d, n in enumerate(index.shape) if d != dim):
        return mx.take(a, index.reshape(-1), axis=dim)
    shape = [index.shape[d] if d == dim else n for d, n in enumerate(a.shape)]
    return mx.take_along_axis(a, mx.broadcast_to(index, shape), axis=dim)


def _grid(index: mx.array, dim: int) -> tuple[mx.array, ...]:
    """Where each element of an index along a dim points, in all dims."""
    places = [
        mx.array(np.arange(n).reshape([-1 if d == i else 1 for i in range(4)])) for d, n in enumerate(index.shape)
    ]
    places[dim] = index
    return tuple(places)


def _assigned(a: mx.array, index: mx.array, src: mx.array, dim: int) -> mx.array:
    """``a`` with elements written; the last of equal indices stays, in whatever order a device writes."""
    count = index.shape[dim]
    grid = _grid(index, dim)
    if count > 1:
        order = mx.arange(count, dtype=mx.int32).reshape([-1 if d == dim else 1 for d in range(4)])
        last = mx.full(a.shape, -1, dtype=mx.int32).at[grid].maximum(mx.broadcast_to(order, index.shape))
        found = mx.take_along_axis(src, mx.maximum(last, 0), axis=dim)
        return mx.where(last >= 0, found, a)
    return mx.put_along_axis(a, index, src, axis=dim)


def _reduced(a: mx.array, index: mx.array, src: mx.array, dim: int, kind: ScatterKind, include_self: bool) -> mx.array:
    grid = _grid(index, dim)
    least, most = extremes(a.dtype)
    if not include_self:
        neutral = {ScatterKind.ADD: 0, ScatterKind.MUL: 1, ScatterKind.MAX: least, ScatterKind.MIN: most}[kind]
        written = mx.zeros(a.shape, dtype=mx.int32).at[grid].maximum(mx.ones(index.shape, dtype=mx.int32))
        a = mx.where(written > 0, mx.array(neutral, dtype=a.dtype), a)
    if kind == ScatterKind.ADD:
        return a.at[grid].add(src)
    if kind == ScatterKind.MUL:
        return a.at[grid].multiply(src)
    places = a.at[grid]
    if not is_float(a):
        return places.maximum(src) if kind == ScatterKind.MAX else places.minimum(src)
    fill = least if kind == ScatterKind.MAX else most
    kept, given = mx.where(mx.isnan(a), fill, a).at[grid], mx.where(mx.isnan(src), fill, src)
    y = kept.maximum(given) if kind == ScatterKind.MAX else kept.minimum(given)
    nan = mx.isnan(a).astype(mx.int32).at[grid].maximum(mx.isnan(src).astype(mx.int32))
    return mx.where(nan > 0, mx.nan, y)


@planned(checks=True)
def scatter(node: Node) -> Function:
    """``src`` written, or added and so on, along one axis."""
    dim, shape = 3 - node.attrs["axis"], tuple(int(n) for n in reversed(node.attrs["ne"]))
    kind, include_self, wrap = (node.attrs[name] for name in ("kind", "include_self", "wrap"))

    def write(a: mx.array, index: mx.array, src: mx.array) -> mx.array:
        if 0 in shape:
            return a
        index = mx.broadcast_to(in_range(index, a.shape[dim], wrap=wrap), shape)
        src = mx.broadcast_to(src, shape)
        if kind == ScatterKind.ASSIGN:
            return _assigned(a, index, src, dim)
        return _reduced(a, index, src, dim, ScatterKind(kind), include_self)

    return write


@direct(checks=True)
def update_state(state: mx.array, index: mx.array, src: mx.array, *, ne: Dims, axis: int, wrap: bool) -> mx.array:
    """A state with rows written, rounded to its type; the plan keeps it."""
    dim, shape = 3 - axis, tuple(int(n) for n in reversed(ne))
    if 0 in shape:
        return state
    index = mx.broadcast_to(in_range(index, state.shape[dim], wrap=wrap), shape)
    return _assigned(state, index, mx.broadcast_to(src.astype(state.dtype), shape), dim)


def _order_key(a: mx.array) -> mx.array:
    """Integers in the order of the elements: NaN last, -0 as 0."""
    if not is_float(a):
        return a if a.dtype == mx.int64 else a.astype(mx.int32)
    bits = (a.astype(mx.float32) + 0.0).view(mx.int32)
    key = mx.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    return mx.where(mx.isnan(a), 0x7FFFFFFF, key)


@planned()
def sort(node: Node) -> Function:
    """Places of each row's first elements in sorted order, equals as they come."""
    count, descending = node.attrs["count"], node.attrs["descending"]

    def places(a: mx.array) -> mx.array:
        key = _order_key(a)
        order = mx.argsort(mx.bitwise_invert(key) if descending else key, axis=-1)
        return order[..., :count].astype(mx.int64)

    return places


def _running_place(a: mx.array, dim: int, largest: bool) -> mx.array:
    """Place of the largest or least so far, the last of equals; from the first NaN on, of the last NaN."""
    best = mx.cummax if largest else mx.cummin
    if is_float(a):
        nan = mx.isnan(a)
        least, most = extremes(a.dtype)
        numbers = mx.where(nan, least if largest else most, a)
        chosen = mx.where(mx.cummax(nan.astype(mx.int32), axis=dim) > 0, nan, numbers == best(numbers, axis=dim))
    else:
        chosen = a == best(a, axis=dim)
    number = mx.array(np.arange(a.shape[dim]).reshape([-1 if d == dim else 1 for d in range(4)]))
    return mx.cummax(mx.where(chosen, number, -1), axis=dim)


@planned()
def scan(node: Node) -> Function:
    """A running product, extreme's place or log of a sum of exponentials along one axis."""
    dim = 3 - node.attrs["axis"]
    functions: dict[ScanKind, Function] = {
        ScanKind.PROD: lambda a: mx.cumprod(a, axis=dim),
        ScanKind.ARGMAX: lambda a: _running_place(a, dim, largest=True),
        ScanKind.ARGMIN: lambda a: _running_place(a, dim, largest=False),
        ScanKind.LOGSUMEXP: lambda a: mx.logcumsumexp(a, axis=dim),
    }
    return functions[ScanKind(node.attrs["kind"])]
