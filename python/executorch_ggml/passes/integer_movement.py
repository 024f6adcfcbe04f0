"""Integers that are moved before they are dequantized: a quarter of the bytes, and layers see where they come from.

Given::

    %0 = dequantize(%x, scale=s, zero=z)
    %1 = reshape(%0)            # or any op that moves elements; a concatenation of tensors on one grid; a max pooling

Result::

    %0 = reshape(%x)
    %1 = dequantize(%0, scale=s, zero=z)
"""

from __future__ import annotations

from ..ir.dtypes import DType
from ..ir.graph import Graph, Node, Value
from ..ir.op import Moves
from ..ir.ops import OPS
from ..ir.ops.spatial import PoolKind
from .rewrite import Rewriter, computed_by, input_of, present


def run(graph: Graph) -> Graph:
    """The graph with movements before its dequantizations."""
    moving = [name for name, spec in OPS.items() if spec.moves is not Moves.NO]
    return Rewriter(graph).run({**dict.fromkeys((*moving, "concat"), _moved), "pool_2d": _pooled})


def _pooled(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    """The largest bytes are the largest numbers."""
    (x,) = present(inputs)
    grows = x.producer is not None and x.producer.op == "dequantize" and x.producer.attrs["scale"] > 0
    is_max = node.attrs["kind"] == PoolKind.MAX
    return _moved(rewriter, node, inputs) if grows and is_max and input_of(x, 0).dtype != DType.I16 else None


def _moved(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    values = present(inputs)
    if len(values) != len(inputs) or not all(computed_by(value, "dequantize") for value in values):
        return None
    dequantizations = [value.producer for value in values if value.producer is not None]
    first = dequantizations[0]
    integers = tuple(input_of(value, 0) for value in values)
    same_grid = all(each.attrs == first.attrs for each in dequantizations)
    same_type = all(value.dtype == integers[0].dtype for value in integers)
    whole = all(each.inputs[1] is None for each in dequantizations)
    if not (same_grid and same_type and whole):
        return None
    return rewriter.builder.emit("dequantize", rewriter.copied(node, integers), None, **first.attrs)
