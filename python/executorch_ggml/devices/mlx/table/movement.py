"""Views, copies, concatenation, rows: what MLX does by strides it does without a copy."""

from __future__ import annotations

import mlx.core as mx

from ....ir.graph import Node
from ....ir.op import Dims
from ..quantized import Packed
from ..registry import Function, direct, in_range, planned, shape_of


@planned()
def reshape(node: Node) -> Function:
    """The same elements in another shape."""
    shape = shape_of(node.output)
    return lambda a: a.reshape(shape)


@planned()
def permute(node: Node) -> Function:
    """Dim ``i`` moved to place ``axes[i]``."""
    axes = [3 - node.attrs["axes"].index(3 - i) for i in range(4)]
    return lambda a: a.transpose(axes)


@planned()
def view(node: Node) -> Function:
    """A strided window."""
    start, step, ne = (node.attrs[name] for name in ("start", "step", "ne"))
    window = tuple(slice(start[i], start[i] + step[i] * (ne[i] - 1) + 1, step[i]) for i in reversed(range(4)))
    return lambda a: a[window]


@direct()
def cont(a: mx.array) -> mx.array:
    """A dense copy, which nothing here depends on: MLX follows strides."""
    return a


@planned()
def broadcast(node: Node) -> Function:
    """Dims of size 1 repeated."""
    shape = shape_of(node.output)
    return lambda a: mx.broadcast_to(a, shape)


@direct()
def concat(a: mx.array, b: mx.array, *, dim: int) -> mx.array:
    """``a`` then ``b`` along a dim."""
    return mx.concatenate([a, b], axis=3 - dim)


@direct()
def write_state(a: mx.array, state: mx.array) -> mx.array:
    """What the state is from then on; the plan keeps it."""
    return a


@direct()
def pad_ext(a: mx.array, *, lead: Dims, trail: Dims) -> mx.array:
    """Zeros before and after each dim."""
    return mx.pad(a, [(lead[3 - i], trail[3 - i]) for i in range(4)])


@direct(packed=(0,), checks=True)
def get_rows(a: mx.array | Packed, rows: mx.array) -> mx.array:
    """Rows as f32; of a packed table only those are unpacked."""
    if isinstance(a, Packed):
        index = in_range(rows[0], a.weight.shape[2], wrap=False)
        return a.dequantized(*(part[0, 0][index] for part in (a.weight, a.scales, a.biases)))
    return a[0, 0][in_range(rows[0], a.shape[2], wrap=False)].astype(mx.float32)


@direct(checks=True)
def to_index(a: mx.array, *, size: int, wrap: bool) -> mx.array:
    """Indices as i32; one out of range fails the run."""
    return in_range(a, size, wrap=wrap).astype(mx.int32)


@direct(checks=True)
def take_rows(a: mx.array, rows: mx.array) -> mx.array:
    """Rows in any type."""
    return a[0, 0][in_range(rows[0], a.shape[2], wrap=False)]
