"""Nodes that make something of tensors without elements: MLX's CPU functions do not all bear those."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import mlx.core as mx

from ...ir.ops.custom import ReduceKind
from .registry import MLX_TYPES, Function, shape_of
from .table.custom import extremes

if TYPE_CHECKING:
    from ...ir.graph import Node, Value


def is_empty(value: Value) -> bool:
    """Whether it has no elements."""
    return 0 in value.ne


def _filled(number: float) -> Callable[[Node], Function]:
    def make(node: Node) -> Function:
        one, shape = mx.array(number, dtype=MLX_TYPES[node.output.dtype]), shape_of(node.output)
        return lambda *arrays: mx.broadcast_to(one, shape)

    return make


def _first(node: Node) -> Function:
    return lambda *arrays: arrays[0]


def _other(node: Node) -> Function:
    return lambda a, b: b if a.size == 0 else a


def _reduce(node: Node) -> Function:
    least, most = extremes(MLX_TYPES[node.output.dtype])
    numbers = {ReduceKind.PROD: 1, ReduceKind.ALL: 1, ReduceKind.MEAN: math.nan}
    numbers |= {ReduceKind.MAX: least, ReduceKind.MIN: most}
    return _filled(numbers.get(ReduceKind(node.attrs["kind"]), 0))(node)


EMPTY: dict[str, Callable[[Node], Function]] = {
    "concat": _other,
    "mean": _filled(math.nan),
    "mul_mat": _filled(0),
    "pad_ext": _filled(0),
    "reduce": _reduce,
    "scatter": _first,
    "sum_rows": _filled(0),
    "update_state": _first,
}


def function_of_empty(node: Node) -> Function | None:
    """The function of a node without elements in its result, or in what it reads; None of any other."""
    if is_empty(node.output):
        shape, dtype = shape_of(node.output), MLX_TYPES[node.output.dtype]
        return lambda *arrays: mx.zeros(shape, dtype)
    if any(value is not None and is_empty(value) for value in node.inputs):
        return EMPTY[node.op](node)
    return None


def empty_refusal(node: Node) -> str | None:
    """Why a node is not taken for its lack of elements, or None."""
    if is_empty(node.output) or not any(value is not None and is_empty(value) for value in node.inputs):
        return None
    return None if node.op in EMPTY else "an input has no elements"
