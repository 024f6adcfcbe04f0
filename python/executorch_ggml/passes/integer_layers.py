"""Layers of integers: what is quantized is multiplied as int8 and summed in int32.

Given::

    %0 = dequantize(%x, scale=s, zero=z)
    %1 = dequantize(@weight, @scales)           # int8, one scale a channel
    %2 = linear(%0, %1, @bias)                  # or conv_2d; a relu or clamp may follow
    %3 = quantize(%2, inverse=i, zero=y)        # where it is not there, the layer gives floats

Result::

    constant @scale = @scales * s * i
    constant @addend = @bias * i
    %0 = quantized_linear(%x, @weight, @scale, @addend, zero=z, output=(I8, y, low, high))
"""

from __future__ import annotations

from dataclasses import replace

from ..ir._lazy import torch
from ..ir.dtypes import DType
from ..ir.formulas import holds
from ..ir.graph import Constant, Graph, Node, Value
from ..ir.ops.quantized import UNBOUNDED, Requantize, is_byte_zero, is_short
from ..ir.ops.spatial import NO_EPILOGUE
from .integer_functions import CLAMPS, bounds_of
from .layers import LAYERS, QUANTIZED_LAYERS, Layer
from .rewrite import Rewriter, input_of, present

_BYTES = (DType.I8, DType.U8)


def run(graph: Graph) -> Graph:
    """The graph with layers of integers where their operands are."""
    rules = dict.fromkeys(LAYERS, _layer) | dict.fromkeys(CLAMPS, _clamped)
    return Rewriter(graph).run({**rules, "quantize": _quantized})


def _layer(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    """A layer of dequantized operands, as one that gives floats."""
    x, weight, bias = inputs
    if x is None or weight is None or node.attrs["epilogue"] != NO_EPILOGUE:
        return None
    addend = None if bias is None else rewriter.constant(bias)
    integers = _integers(x)
    scales = _scales(rewriter, weight, LAYERS[node.op])
    if integers is None or scales is None or (bias is not None and addend is None):
        return None
    depth = weight.ne[0] * weight.ne[1] * weight.ne[2] if node.op == "conv_2d" else weight.ne[0]
    if not holds(is_short, depth):
        return None
    x_scale, zero = integers.attrs["scale"], integers.attrs["zero"]
    attrs = {name: value for name, value in node.attrs.items() if name != "epilogue"}
    return rewriter.builder.emit(
        f"quantized_{node.op}",
        integers.inputs[0],
        input_of(weight, 0),
        _scaled(rewriter, scales, x_scale),
        None if addend is None else addend.value,
        **attrs,
        zero=zero,
        output=UNBOUNDED,
    )


def _integers(x: Value) -> Node | None:
    """The node that dequantizes bytes with one scale, where a value is from one."""
    node = x.producer
    if node is None or node.op != "dequantize" or node.inputs[1] is not None:
        return None
    return node if input_of(x, 0).dtype in _BYTES and holds(is_byte_zero, node.attrs["zero"]) else None


def _scales(rewriter: Rewriter, weight: Value, channels: int) -> Constant | None:
    """A constant with the scale of each output channel of an int8 weight, around 0."""
    node = weight.producer
    if node is None or node.op != "dequantize" or node.attrs["zero"] != 0:
        return None
    integers = input_of(weight, 0)
    if integers.dtype != DType.I8 or rewriter.constant(integers) is None:
        return None
    outputs = weight.ne[1] if channels == 0 else weight.ne[3]
    if node.inputs[1] is None:
        scale = node.attrs["scale"]
        key = f"scale{scale!r}x{outputs}"
        value = rewriter.builder.constant(key, DType.F32, (outputs, 1, 1, 1), lambda: torch.full((outputs,), scale))
        return rewriter.builder.constant_of(value)
    scales = node.inputs[1]
    lies_along = scales.ne[1 if channels == 0 else 3] == outputs and scales.count == outputs
    return rewriter.constant(scales) if lies_along and node.attrs["scale"] == 1.0 else None


def _scaled(rewriter: Rewriter, numbers: Constant, factor: float) -> Value:
    """A constant times a number."""
    return rewriter.derived(f"times{factor!r}", [numbers], numbers.value.ne, lambda values: values * factor)


def _behind(rewriter: Rewriter, x: Value) -> Layer | None:
    """The layer of integers that gives floats for one reader alone, behind views."""
    layer = Layer.behind(rewriter, x, ops=QUANTIZED_LAYERS)
    return layer if layer is not None and layer.node.attrs["output"].dtype == DType.F32 else None


def _clamped(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    """A clamp as the bounds of the layer before it."""
    layer = _behind(rewriter, present(inputs)[0])
    if layer is None:
        return None
    low, high = CLAMPS[node.op](node.attrs)
    before: Requantize = layer.node.attrs["output"]
    low, high = max(low, before.low), min(high, before.high)
    return layer.emit(rewriter, output=replace(before, low=low, high=high)) if low <= high else None


def _quantized(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    """A layer of integers that is rounded to bytes."""
    layer = _behind(rewriter, present(inputs)[0])
    if layer is None or node.attrs["dtype"] not in _BYTES:
        return None
    x, weight, scale, bias = layer.node.inputs
    constants = [None if value is None else rewriter.constant(value) for value in (scale, bias)]
    steps = [None if each is None else _scaled(rewriter, each, node.attrs["inverse"]) for each in constants]
    before: Requantize = layer.node.attrs["output"]
    low, high = bounds_of(before.low, before.high, node.attrs)
    output = Requantize(node.attrs["dtype"], node.attrs["zero"], float(low), float(high))
    return layer.emit(rewriter, inputs=(x, weight, *steps), output=output)
