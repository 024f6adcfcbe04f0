"""Functions of integers with a scale, of one tensor as a table of 256 elements, of two in one kernel.

Given::

    %0 = dequantize(%x, scale=s, zero=z)
    %1 = hardswish(%0)                      # any elementwise functions of one tensor
    %2 = quantize(%1, inverse=i, zero=y)

Result::

    constant @lookup: i8[256, 1, 1, 1]
    %0 = lookup(%x, @lookup)

Given::

    %0 = dequantize(%a, scale=s, zero=z)
    %1 = dequantize(%b, scale=t, zero=w)
    %2 = add(%0, %1)                        # or sub, mul; a relu or clamp may follow
    %3 = quantize(%2, inverse=i, zero=y)

Result::

    %0 = quantized_binary(%a, %b, kind=ADD, ...)

A tensor that is quantized as it was is left as it was, a clamp between two roundings to one grid becomes the bounds of
the first, and the parts of a concatenation are each put on its grid.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any

from ..ir._lazy import torch
from ..ir.dtypes import DType
from ..ir.formulas import holds
from ..ir.graph import Graph, Node, Value
from ..ir.ops.custom import BinaryKind
from ..ir.ops.quantized import Requantize, is_byte_of
from .rewrite import Rewriter, computed_by, input_of, present

CLAMPS: dict[str, Callable[[dict[str, Any]], tuple[float, float]]] = {
    "relu": lambda attrs: (0.0, math.inf),
    "clamp": lambda attrs: (attrs["min"], attrs["max"]),
}
_BINARY = {"add": BinaryKind.ADD, "sub": BinaryKind.SUB, "mul": BinaryKind.MUL}
_BYTES = (DType.I8, DType.U8)


def run(graph: Graph) -> Graph:
    """The graph with functions of integers as one node each."""
    return Rewriter(graph).run({"quantize": _quantized})


def _quantized(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    (x,) = present(inputs)
    return (
        _unchanged(node, x)
        or _narrowed(rewriter, node, x)
        or _looked_up(rewriter, node, x)
        or _combined(rewriter, node, x)
        or _concatenated(rewriter, node, x)
    )


def same_grid(quantize: dict[str, Any], dequantize: Node) -> bool:
    """Whether integers that are dequantized and quantized again are what they were, but for the bounds."""
    near = math.isclose(dequantize.attrs["scale"] * quantize["inverse"], 1.0, rel_tol=1e-6)
    return (
        near
        and dequantize.attrs["zero"] == quantize["zero"]
        and input_of(dequantize.output, 0).dtype == (quantize["dtype"])
    )


def bounds_of(low: float, high: float, grid: dict[str, Any]) -> tuple[int, int]:
    """The integers that numbers between two bounds become, for the attributes of a ``quantize`` node."""

    def rounded(bound: float) -> int:
        steps = ctypes.c_float(ctypes.c_float(bound).value * grid["inverse"]).value  # in f32, as kernels compute
        whole = round(steps) if math.isfinite(steps) else int(math.copysign(2**16, steps))
        return int(max(grid["low"], min(grid["high"], whole + grid["zero"])))

    return rounded(low), rounded(high)


def rounding_to(grid: dict[str, Any], low: float, high: float) -> Requantize:
    """The rounding of a ``quantize`` node with these attributes, of numbers between two bounds."""
    return Requantize(grid["dtype"], grid["zero"], *map(float, bounds_of(low, high, grid)))


def clamped(value: Value) -> tuple[Value, tuple[float, float]]:
    """What a value is a clamp of, with the bounds; the value itself where it is none."""
    node = value.producer
    if node is None or node.op not in CLAMPS:
        return value, (-math.inf, math.inf)
    low, high = CLAMPS[node.op](node.attrs)
    ordered = low <= high  # not where one is NaN
    return (input_of(value, 0), (low, high)) if ordered else (value, (-math.inf, math.inf))


def is_whole(dequantize: Node | None) -> bool:
    """Whether it is a node that dequantizes bytes with one scale."""
    if dequantize is None or dequantize.op != "dequantize":
        return False
    is_of_bytes = holds(is_byte_of, dequantize.attrs["zero"], input_of(dequantize.output, 0))
    return is_of_bytes and dequantize.inputs[1] is None


def _unchanged(node: Node, x: Value) -> Value | None:
    """What is quantized as it was."""
    if not is_whole(x.producer) or x.producer is None or not same_grid(node.attrs, x.producer):
        return None
    limits = torch.iinfo(node.attrs["dtype"].torch)
    source = input_of(x, 0)
    earlier = source.producer
    if earlier is not None and earlier.op == "quantize":
        within = earlier.attrs["low"] >= node.attrs["low"] and earlier.attrs["high"] <= node.attrs["high"]
    else:
        within = node.attrs["low"] <= limits.min and node.attrs["high"] >= limits.max
    return source if within else None


def _narrowed(rewriter: Rewriter, node: Node, x: Value) -> Value | None:
    """A clamp of what was just quantized, to the same grid: its bounds."""
    between, (low, high) = clamped(x)
    if not is_whole(between.producer) or between.producer is None or not same_grid(node.attrs, between.producer):
        return None
    earlier = input_of(between, 0)
    alone = rewriter.reads(between) == 1 and rewriter.reads(earlier) == 1
    if not alone or earlier.producer is None or earlier.producer.op != "quantize":
        return None
    first = earlier.producer.attrs
    low_step, high_step = bounds_of(low, high, node.attrs)
    low_step, high_step = max(low_step, first["low"]), min(high_step, first["high"])
    if low_step > high_step:
        return None
    return rewriter.builder.emit("quantize", input_of(earlier, 0), **{**first, "low": low_step, "high": high_step})


def _looked_up(rewriter: Rewriter, node: Node, x: Value) -> Value | None:
    """A chain of functions of bytes as a table."""
    if node.attrs["dtype"] not in _BYTES:
        return None
    chain = [node]
    while x.producer is not None and not is_whole(x.producer):
        if len(present(x.producer.inputs)) != 1 or x.producer.spec.along != ():
            return None
        chain.append(x.producer)
        x = input_of(x, 0)
    if x.producer is None:
        return None
    chain.append(x.producer)
    return _table(rewriter, chain[::-1], input_of(x, 0))


def _table(rewriter: Rewriter, chain: Sequence[Node], x: Value) -> Value:
    """``lookup`` of the results of some nodes, one after the other, for each byte."""
    text = repr([(each.op, each.attrs) for each in chain])
    dtype = chain[-1].output.dtype

    def contents() -> torch.Tensor:
        value = torch.arange(256, dtype=torch.uint8).view(x.dtype.torch)
        for each in chain:
            value = each.spec.reference(value, *[None] * (len(each.inputs) - 1), **each.attrs)
        return value

    key = f"lookup~{hashlib.sha256((x.dtype.name + text).encode()).hexdigest()[:16]}"
    return rewriter.builder.emit("lookup", x, rewriter.builder.constant(key, dtype, (256, 1, 1, 1), contents))


def _combined(rewriter: Rewriter, node: Node, x: Value) -> Value | None:
    """A sum, difference or product of two tensors of bytes."""
    combined, (low, high) = clamped(x)
    function = combined.producer
    kind = None if function is None else _BINARY.get(function.op, function.attrs.get("kind"))
    if function is None or kind not in _BINARY.values() or rewriter.reads(combined) != 1:
        return None
    a, b = (value.producer for value in present(function.inputs))
    if a is None or b is None or not is_whole(a) or not is_whole(b) or node.attrs["dtype"] not in _BYTES:
        return None
    return rewriter.builder.emit(
        "quantized_binary",
        input_of(a.output, 0),
        input_of(b.output, 0),
        kind=kind,
        a_scale=a.attrs["scale"],
        a_zero=a.attrs["zero"],
        b_scale=b.attrs["scale"],
        b_zero=b.attrs["zero"],
        inverse=node.attrs["inverse"],
        output=rounding_to(node.attrs, low, high),
    )


def _concatenated(rewriter: Rewriter, node: Node, x: Value) -> Value | None:
    """A concatenation of bytes, each put on the result's grid."""
    if not computed_by(x, "concat") or x.producer is None or rewriter.reads(x) != 1:
        return None
    parts = present(x.producer.inputs)
    if not all(is_whole(part.producer) for part in parts) or node.attrs["dtype"] not in _BYTES:
        return None
    moved = []
    for part in parts:
        unchanged = _unchanged(node, part)
        moved.append(_looked_up(rewriter, node, part) if unchanged is None else unchanged)
    return rewriter.builder.emit("concat", *moved, **x.producer.attrs)
