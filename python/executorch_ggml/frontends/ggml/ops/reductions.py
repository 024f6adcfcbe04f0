"""Normalizations, sums, extremes and order, all along rows but for the sum of everything."""

from __future__ import annotations

import numpy as np

from ....ir.dtypes import DType
from ....ir.graph import Value
from ....ir.op import Dim
from ....ir.ops.custom import BinaryKind, ReduceKind
from ..translate import Node, translates

_INF = float("inf")
_ROWS = {"SUM_ROWS": "sum_rows", "MEAN": "mean", "CUMSUM": "cumsum"}


@translates("NORM", "RMS_NORM")
def norm(n: Node) -> Value:
    """Each row normalized."""
    return n.emit("norm" if n.op == "NORM" else "rms_norm", n.f32(0), eps=n.f32_param(0))


@translates("GROUP_NORM")
def group_norm(n: Node) -> Value:
    """Groups of channels normalized together; the last group may be smaller."""
    a, groups = n.b.cont(n.f32(0)), n.i32(0)
    width, height, channels, images = a.ne
    each = -(-channels // groups)
    parts = []
    for first in range(0, channels, each):
        count = min(each, channels - first)
        if count == channels or channels % groups == 0:
            break
        part = n.b.cont(n.b.view(a, (0, 0, first, 0), (width, height, count, images)))
        flat = n.b.reshape(part, (width * height * count, 1, 1, images))
        parts.append(n.b.reshape(n.emit("norm", flat, eps=n.f32_param(1)), (width, height, count, images)))
    if not parts:
        flat = n.b.reshape(a, (width * height * each, channels // each, images))
        return n.b.reshape(n.emit("norm", flat, eps=n.f32_param(1)), a.ne)
    made = parts[0]
    for part in parts[1:]:
        made = n.emit("concat", made, part, dim=2)
    return made


@translates("L2_NORM")
def l2_norm(n: Node) -> Value:
    """Each row over its length, or over a number where that is more."""
    a = n.f32(0)
    length = n.emit("sqrt", n.emit("sum_rows", n.emit("sqr", a)))
    return n.emit("div", a, n.emit("clamp", length, min=n.f32_param(0), max=_INF))


@translates(*_ROWS)
def along_rows(n: Node) -> Value:
    """Sums and means."""
    return n.emit(_ROWS[n.op], n.f32(0))


@translates("SUM")
def total(n: Node) -> Value:
    """The sum of everything."""
    return n.emit("reduce", n.f32(0), kind=ReduceKind.SUM, axes=(0, 1, 2, 3))


@translates("COUNT_EQUAL")
def count_equal(n: Node) -> Value:
    """How many elements are equal."""
    same = n.emit("binary", n.plain(0), n.plain(1), kind=BinaryKind.EQ)
    return n.emit("reduce", n.b.convert(same, DType.I64), kind=ReduceKind.SUM, axes=(0, 1, 2, 3))


@translates("ARGMAX")
def argmax(n: Node) -> Value:
    """Where each row is largest; of equals the last, as on ggml's CPU."""
    a = n.f32(0)
    last = a.ne[0] - 1
    turned = n.emit("take", a, n.constant(np.arange(last, -1, -1), DType.I64), axis=0, wrap=False)
    places = _index(n, n.emit("reduce", turned, kind=ReduceKind.ARGMAX, axes=(0,)), a.ne[0])
    made = n.emit("binary", n.b.scalar(last, DType.I32), places, kind=BinaryKind.SUB)
    return n.b.reshape(made, n.ne)


@translates("ARGSORT")
def argsort(n: Node) -> Value:
    """Places of each row's elements in order."""
    a = n.f32(0)
    return _index(n, n.emit("sort", a, count=a.ne[0], descending=n.i32(0) == 1), a.ne[0])


@translates("TOP_K")
def top_k(n: Node) -> Value:
    """Places of each row's largest elements."""
    a = n.f32(0)
    return _index(n, n.emit("sort", a, count=n.ne[0], descending=True), a.ne[0])


def _index(n: Node, places: Value, size: Dim) -> Value:
    """As ggml has them: in 32 bits, which a device of 32 bits knows to suffice."""
    return n.emit("to_index", n.b.cont(places), size=size, wrap=False)
