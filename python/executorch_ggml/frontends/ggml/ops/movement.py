"""What moves elements: copies, repetition, concatenation, padding, and tensors made of nothing."""

from __future__ import annotations

import math

import numpy as np

from ....ir.dtypes import DType
from ....ir.graph import Value
from .. import windows
from ..translate import Node, tile, translates


@translates("DUP", "CONT", "CPY")
def copy(n: Node) -> Value:
    """The same elements, in the type and shape of the result."""
    return n.b.reshape(n.b.cont(n.b.convert(n.plain(0), n.dtype())), n.ne)


@translates("REPEAT")
def repeat(n: Node) -> Value:
    """Whole times."""
    return tile(n.b, n.plain(0), n.ne)


@translates("CONCAT")
def concat(n: Node) -> Value:
    """One after the other."""
    return n.emit("concat", n.plain(0), n.plain(1), dim=n.i32(0))


@translates("ACC", "SET")
def window_of(n: Node) -> Value:
    """A window of a tensor added to, or replaced."""
    a, b = n.plain(0), n.b.convert(n.plain(1), n.dtype())
    size = n.dtype().itemsize
    strides = (1, *(n.i32(i) // size for i in range(3)))
    offset = n.i32(3) // size
    a = n.b.cont(a)
    if n.op == "ACC":
        b = n.emit("add", windows.window(n.b, a, b.ne, strides, offset), b)
    return windows.updated(n.b, a, b.ne, strides, offset, b)


@translates("PAD")
def pad(n: Node) -> Value:
    """Zeros around, or the tensor's own other side."""
    lead, trail = (tuple(n.i32(2 * i + end) for i in range(4)) for end in (0, 1))
    if n.i32(8) != 0:
        return _around(n, lead, trail)
    return n.emit("pad_ext", n.f32(0), lead=lead, trail=trail)


def _around(n: Node, lead: tuple[int, ...], trail: tuple[int, ...]) -> Value:
    value = n.plain(0)
    for axis in range(4):
        if lead[axis] or trail[axis]:
            size = value.ne[axis]
            shape = [1, 1, 1, 1]
            shape[3 - axis] = lead[axis] + size + trail[axis]
            places = (np.arange(-lead[axis], size + trail[axis]) % size).reshape(shape)
            value = n.emit("take", value, n.constant(places, DType.I64), axis=axis, wrap=False)
    return value


@translates("PAD_REFLECT_1D")
def pad_reflect(n: Node) -> Value:
    """Rows continued as in a mirror."""
    a = n.plain(0)
    places = np.pad(np.arange(a.ne[0]), (n.i32(0), n.i32(1)), mode="reflect")
    return n.emit("take", a, n.constant(places, DType.I64), axis=0, wrap=False)


@translates("ROLL")
def roll(n: Node) -> Value:
    """Turned around along each dim."""
    value = n.plain(0)
    for axis in range(4):
        size = value.ne[axis]
        if size > 1 and n.i32(axis) % size:
            shape = [1, 1, 1, 1]
            shape[3 - axis] = size
            places = np.roll(np.arange(size), n.i32(axis)).reshape(shape)
            value = n.emit("take", value, n.constant(places, DType.I64), axis=axis, wrap=False)
    return value


@translates("ARANGE")
def arange(n: Node) -> Value:
    """Numbers at equal distances."""
    start, step = np.float32(n.f32_param(0)), np.float32(n.f32_param(2))
    return n.constant(start + step * np.arange(n.ne[0], dtype=np.float32))


@translates("TIMESTEP_EMBEDDING")
def timestep_embedding(n: Node) -> Value:
    """Cosines, then sines, of times at falling frequencies."""
    dim, period = n.i32(0), n.i32(1)
    half = dim // 2
    frequency = np.exp(-math.log(period) * np.arange(half) / half)
    times = n.b.reshape(n.b.cont(n.f32(0)), (1, n.source(0).count))
    angle = n.emit("mul", n.b.broadcast(times, (half, times.ne[1], 1, 1)), n.constant(frequency))
    made = n.emit("concat", n.emit("cos", angle), n.emit("sin", angle), dim=0)
    missing = n.ne[0] - 2 * half
    return made if missing == 0 else n.emit("pad_ext", made, lead=(0, 0, 0, 0), trail=(missing, 0, 0, 0))


@translates("DIAG_MASK_INF")
def diag_mask_inf(n: Node) -> Value:
    """-inf above the diagonal."""
    return n.emit("diag_mask_inf", n.f32(0), n_past=n.i32(0))


@translates("DIAG_MASK_ZERO", "TRI")
def triangle(n: Node) -> Value:
    """Zeros on one side of the diagonal."""
    a = n.f32(0)
    row, column = np.arange(a.ne[1])[:, None], np.arange(a.ne[0])
    if n.op == "DIAG_MASK_ZERO":
        kept = column <= row + n.i32(0)
    else:
        kept = [column >= row, column > row, column <= row, column < row][n.i32(0)]
    mask = n.b.convert(n.constant(kept.astype(np.int64), DType.I64), DType.BOOL)
    return n.emit("select", mask, a, n.b.scalar(0.0, DType.F32))


@translates("DIAG")
def diag(n: Node) -> Value:
    """Rows as diagonals."""
    a = n.f32(0)
    eye = n.b.convert(n.constant(np.eye(a.ne[0], dtype=np.int64), DType.I64), DType.BOOL)
    return n.emit("select", eye, a, n.b.scalar(0.0, DType.F32))
