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

A scale and a zero point that are computed, for all or for each row, are applied to a linear layer's sums:
``(sums - zero * sums of the weights) * scale + bias``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..ir._lazy import torch
from ..ir.builder import Builder
from ..ir.dims import is_one, same_dims
from ..ir.dtypes import DType
from ..ir.formulas import holds
from ..ir.graph import Constant, Graph, Node, Value
from ..ir.ops.custom import BinaryKind
from ..ir.ops.quantized import UNBOUNDED, Requantize, is_byte_of, is_short
from ..ir.ops.spatial import NO_EPILOGUE, Window2d
from .integer_functions import CLAMPS, rounding_to
from .layers import LAYERS, QUANTIZED_LAYERS, Layer
from .rewrite import Rewriter, computed_by, input_of, present

_BYTES = (DType.I8, DType.U8)


def run(graph: Graph) -> Graph:
    """The graph with layers of integers where their operands are."""
    rules = dict.fromkeys(LAYERS, _layer) | dict.fromkeys(CLAMPS, _clamped)
    return Rewriter(graph).run({**rules, "quantize": _quantized})


def _layer(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    """A layer of dequantized operands, as one that gives floats."""
    x, weight, bias = inputs
    if x is None or weight is None or node.attrs["epilogue"] != NO_EPILOGUE or not _has_pixels_side_by_side(node):
        return None
    addend = None if bias is None else rewriter.constant(bias)
    scales = _scales(rewriter, weight, LAYERS[node.op])
    if scales is None:
        return None
    integers = _integers(x)
    if integers is None:
        return _of_computed_grid(rewriter, x, input_of(weight, 0), scales, bias) if node.op == "linear" else None
    if bias is not None and addend is None:
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


def _has_pixels_side_by_side(node: Node) -> bool:
    """Whether no zeros are between a convolution's pixels: the kernel for floats alone leaves these out."""
    window = node.attrs.get("window", Window2d())
    return bool(window.w.up == window.h.up == 1)


def _integers(x: Value) -> Node | None:
    """The node that dequantizes bytes with one scale, where a value is from one."""
    node = x.producer
    if node is None or node.op != "dequantize" or node.inputs[1] is not None:
        return None
    return node if holds(is_byte_of, node.attrs["zero"], input_of(x, 0)) else None


@dataclass(frozen=True)
class _Computed:
    """Bytes, and what they are multiplied by after a zero point, negated, is added: one number, or one a row."""

    integers: Value
    scale: Value
    negated_zero: Value | None

    @staticmethod
    def behind(builder: Builder, x: Value) -> _Computed | None:
        """What a value dequantizes, step by step; one number for all may be behind a reshape."""
        shown = input_of(x, 0) if computed_by(x, "reshape") else x
        if not computed_by(shown, "mul"):
            return None
        value, scale = input_of(shown, 0), input_of(shown, 1)
        zero = input_of(value, 1) if computed_by(value, "add") else None
        value = value if zero is None else input_of(value, 0)
        numbers = [each for each in (scale, zero) if each is not None]
        for_all = all(is_one(each.count) for each in numbers)
        if not computed_by(value, "convert") or not (for_all or (shown is x and _are_rows(numbers, x))):
            return None
        integers = input_of(value, 0)
        return _Computed(builder.reshape(integers, x.ne), scale, zero) if integers.dtype in _BYTES else None


def _are_rows(numbers: Sequence[Value], x: Value) -> bool:
    """Whether each has one number for each row of ``x``."""
    return all(is_one(each.ne[0]) and same_dims(each.ne[1:], x.ne[1:]) for each in numbers)


def _of_computed_grid(
    rewriter: Rewriter, x: Value, weight: Value, scales: Constant, bias: Value | None
) -> Value | None:
    """A linear layer of bytes whose scale is computed, as floats."""
    builder = rewriter.builder
    grid, integers = _Computed.behind(builder, x), rewriter.constant(weight)
    if grid is None or integers is None or not holds(is_short, weight.ne[0]):
        return None
    y = builder.emit("quantized_linear", grid.integers, weight, scales.value, None, zero=0, output=UNBOUNDED)
    if grid.negated_zero is not None:
        outputs = (weight.ne[1], 1, 1, 1)

        def sums(numbers: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
            return matrix.reshape(numbers.numel(), -1).sum(1) * numbers

        of_weights = rewriter.derived("sums", [scales, integers], outputs, sums)
        y = builder.emit("add", y, builder.emit("binary", of_weights, grid.negated_zero, kind=BinaryKind.MUL))
    return scaled_rows(builder, y, grid.scale, bias)


def scaled_rows(builder: Builder, y: Value, scale: Value, bias: Value | None) -> Value:
    """``y * scale + bias``: ``scale`` has a number for each row or one for all, ``bias`` one for each column."""
    y = builder.emit("mul", y, scale)
    return y if bias is None else builder.emit("add", y, builder.reshape(bias, (bias.count,)))


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
    return layer.emit(rewriter, inputs=(x, weight, *steps), output=rounding_to(node.attrs, before.low, before.high))
