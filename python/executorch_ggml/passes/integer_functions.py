"""Functions of integers with a scale, of one tensor as a table of 256 elements, of two in one kernel.

Given::

    %0 = dequantize(%x, scale=s, zero=z)
    %1 = hardswish(%0)                      # any elementwise functions of it, and of numbers
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
from ..ir.dims import is_one
from ..ir.dtypes import DType
from ..ir.formulas import holds
from ..ir.graph import Graph, Node, Value
from ..ir.ops.custom import BinaryKind
from ..ir.ops.quantized import Requantize, is_byte_of
from .rewrite import Rewriter, input_of, present

CLAMPS: dict[str, Callable[[dict[str, Any]], tuple[float, float]]] = {
    "relu": lambda attrs: (0.0, math.inf),
    "clamp": lambda attrs: (attrs["min"], attrs["max"]),
}
_BINARY = {"add": BinaryKind.ADD, "sub": BinaryKind.SUB, "mul": BinaryKind.MUL}
_BYTES = (DType.I8, DType.U8)
_MOST_STEPS = 16


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
    """Functions of one tensor of bytes as a table."""
    if node.attrs["dtype"] not in _BYTES:
        return None
    steps: dict[Value, Node] = {}
    sources: set[Value] = set()
    if not _is_function(x, steps, sources) or len(sources) != 1:
        return None
    source = sources.pop()
    places = {value: place for place, value in enumerate((source, *steps))}
    calls = [(step, [None if value is None else places[value] for value in step.inputs]) for step in steps.values()]
    return _table(rewriter, source, [*calls, (node, [places[x]])])


def _is_function(x: Value, steps: dict[Value, Node], sources: set[Value]) -> bool:
    """Whether a value follows, element by element, from tensors of bytes and numbers: these, and the nodes in order."""
    node = x.producer
    if x in steps:
        return True
    if node is None or len(steps) == _MOST_STEPS:
        return False
    if is_whole(node):
        sources.add(input_of(x, 0))
    elif node.op == "fill":
        if not is_one(x.count):
            return False
    elif node.spec.along != () or not all(_is_function(value, steps, sources) for value in present(node.inputs)):
        return False
    steps[x] = node
    return True


def _table(rewriter: Rewriter, x: Value, calls: Sequence[tuple[Node, Sequence[int | None]]]) -> Value:
    """``lookup`` of what the last of some calls gives for each byte; they read ``x``, 0, or the n-th call's result."""
    text = repr([(node.op, read, node.attrs) for node, read in calls])
    dtype = calls[-1][0].output.dtype

    def contents() -> torch.Tensor:
        values = [torch.arange(256, dtype=torch.uint8).view(x.dtype.torch)]
        for node, read in calls:
            operands = [None if place is None else values[place] for place in read]
            values.append(node.spec.reference(*operands, **node.attrs))
        return values[-1]

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
    """A concatenation of bytes and numbers, each put on the result's grid."""
    if x.producer is None or x.producer.op != "concat" or node.attrs["dtype"] not in _BYTES or rewriter.reads(x) != 1:
        return None
    parts = [_put_on_grid(rewriter, node, part) for part in present(x.producer.inputs)]
    return None if None in parts else rewriter.builder.emit("concat", *parts, **x.producer.attrs)


def _put_on_grid(rewriter: Rewriter, node: Node, part: Value) -> Value | None:
    """A part of what a node quantizes, as it quantizes it."""
    if is_whole(part.producer):
        unchanged = _unchanged(node, part)
        return _looked_up(rewriter, node, part) if unchanged is None else unchanged
    if part.producer is not None and part.producer.op == "fill" and part.dtype == DType.F32:
        number = part.producer.attrs["value"]
        if math.isnan(number):
            return None
        return rewriter.builder.fill(part.ne, bounds_of(number, number, node.attrs)[0], node.attrs["dtype"])
    return _concatenated(rewriter, node, part)
