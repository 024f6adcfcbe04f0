"""Integers that are moved before they are dequantized: a quarter of the bytes, and layers see where they come from.

Given::

    %0 = dequantize(%x, scale=s, zero=z)
    %1 = reshape(%0)            # or any op that moves or repeats elements; a concatenation of tensors on one grid, or
                                # with numbers that are on it; a max pooling; a resizing to the nearest pixels

Result::

    %0 = reshape(%x)
    %1 = dequantize(%0, scale=s, zero=z)
"""

from __future__ import annotations

import math

from ..ir._lazy import F, torch
from ..ir.builder import Builder
from ..ir.dims import same
from ..ir.dtypes import DType
from ..ir.graph import Graph, Node, Value
from ..ir.op import Dim, Moves
from ..ir.ops import OPS
from ..ir.ops.custom import BinaryKind
from ..ir.ops.spatial import PoolKind, ScaleMode
from .rewrite import Rewriter, computed_by, input_of, present

_FROM_ANYWHERE = ("take", "take_rows")  # their second input says where from


def run(graph: Graph) -> Graph:
    """The graph with movements before its dequantizations."""
    moving = [name for name, spec in OPS.items() if spec.moves is not Moves.NO]
    rules = dict.fromkeys((*moving, "broadcast", "concat", *_FROM_ANYWHERE), _moved)
    return Rewriter(graph).run({**rules, "pool_2d": _pooled, "interpolate": _resized})


def _pooled(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    """The largest bytes are the largest numbers."""
    (x,) = present(inputs)
    grows = x.producer is not None and x.producer.op == "dequantize" and x.producer.attrs["scale"] > 0
    is_max = node.attrs["kind"] == PoolKind.MAX
    return _moved(rewriter, node, inputs) if grows and is_max and input_of(x, 0).dtype != DType.I16 else None


def _moved(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    values = present(inputs)
    places = values[1:] if node.op in _FROM_ANYWHERE else ()
    values = values[: len(values) - len(places)]
    first = next((value.producer for value in values if computed_by(value, "dequantize")), None)
    if first is None or first.inputs[1] is not None:
        return None
    integers = [_on_grid(rewriter.builder, value, first) for value in values]
    found = tuple(value for value in integers if value is not None)
    if len(found) != len(inputs) - len(places):
        return None
    return rewriter.builder.emit("dequantize", rewriter.copied(node, (*found, *places)), None, **first.attrs)


def _on_grid(builder: Builder, value: Value, dequantize: Node) -> Value | None:
    """The integers that are dequantized to a value as another node does it; those of a number that is on its grid."""
    node, dtype = value.producer, input_of(dequantize.output, 0).dtype
    if node is None:
        return None
    if node.op == "dequantize":
        same_grid = node.attrs == dequantize.attrs and node.inputs[1] is None and input_of(value, 0).dtype == dtype
        return input_of(value, 0) if same_grid else None
    if node.op != "fill" or value.dtype != DType.F32 or not math.isfinite(node.attrs["value"]):
        return None
    number, limits = node.attrs["value"], torch.iinfo(dtype.torch)
    integer = round(number / dequantize.attrs["scale"]) + dequantize.attrs["zero"]
    if not limits.min <= integer <= limits.max:
        return None
    exact = float(dequantize.spec.reference(torch.tensor(integer), None, **dequantize.attrs)) == number
    return builder.fill(value.ne, integer, dtype) if exact else None


def _resized(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    """The nearest pixels, taken along one axis after the other."""
    (x,) = present(inputs)
    if node.attrs["mode"] != ScaleMode.NEAREST or not computed_by(x, "dequantize") or x.producer is None:
        return None
    if x.producer.inputs[1] is not None:
        return None
    pixels = input_of(x, 0)
    for axis in (0, 1):
        size, out = x.ne[axis], node.attrs["ne"][axis]
        if same(size, out):
            continue
        places = _nearest(rewriter.builder, size, out)
        if places is None:
            return None
        line = rewriter.builder.reshape(places, [out if dim == axis else 1 for dim in range(4)])
        pixels = rewriter.builder.emit("take", pixels, line, axis=axis, wrap=False)
    return rewriter.builder.emit("dequantize", pixels, None, **x.producer.attrs)


def _nearest(builder: Builder, size: Dim, out: Dim) -> Value | None:
    """The place of the nearest of ``size`` pixels, for each of ``out``; sizes that the run knows must be doubled."""
    if isinstance(size, int) and isinstance(out, int):
        line = torch.arange(size, dtype=torch.float32).reshape(1, 1, size)

        def contents() -> torch.Tensor:
            return F.interpolate(line, out, mode="nearest").flatten().to(torch.int32)

        return builder.constant(f"nearest{size}to{out}", DType.I32, (out, 1, 1, 1), contents)
    if not same(out, 2 * size):
        return None
    count = builder.emit("iota", ne=(out, 1, 1, 1), start=0, step=1, dtype=DType.I32)
    return builder.emit("binary", count, builder.scalar(2, DType.I32), kind=BinaryKind.FLOOR_DIVIDE)
