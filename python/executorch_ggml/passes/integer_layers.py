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

A scale and a zero point that are computed, for all or for each row, are applied to the layer's sums:
``(sums - zero * sums of the weights) * scale + bias``. A convolution's image is padded with the zero point beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..ir._lazy import torch
from ..ir.builder import Builder
from ..ir.dims import is_one, product, same_dims
from ..ir.dtypes import DType
from ..ir.formulas import holds
from ..ir.graph import Constant, Graph, Node, Value
from ..ir.op import Dim, Dims
from ..ir.ops.custom import BinaryKind
from ..ir.ops.quantized import UNBOUNDED, Requantize, is_short
from ..ir.ops.spatial import NO_EPILOGUE, Window2d, far_pad
from .integer_functions import CLAMPS, is_whole, rounding_to
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
    integers = x.producer
    if integers is None or not is_whole(integers):
        return _of_computed_grid(rewriter, node, inputs, scales)
    if bias is not None and addend is None:
        return None
    if not holds(is_short, _depth(node.op, weight)):
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


@dataclass(frozen=True)
class _Computed:
    """Bytes, and what they are multiplied by after a zero point, negated, is added: one number, or one a row."""

    integers: Value
    scale: Value
    zero: int  # of those that are known
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
        if integers.dtype not in _BYTES:
            return None
        known = None if zero is None else _Byte.negated(zero, integers.dtype)
        number = None if known is None else known.number
        integers = builder.reshape(integers, x.ne)
        return _Computed(integers, scale, number or 0, zero if number is None else None)


@dataclass(frozen=True)
class _Byte:
    """A computed number that is a whole one and in a type's range, whatever the input."""

    value: Value  # as F32
    number: int | None  # where it is known

    @staticmethod
    def negated(negated: Value, dtype: DType) -> _Byte | None:
        """The number whose negative a value is; None where it may be another than a byte."""
        if not computed_by(negated, "neg"):
            return None
        zero = value = input_of(negated, 0)
        whole = False
        while computed_by(value, "convert") or computed_by(value, "reshape"):
            value = input_of(value, 0)
            whole = whole or value.dtype in (DType.I32, DType.I64)
        node, limits = value.producer, torch.iinfo(dtype.torch)
        if node is None or not whole:
            return None
        if node.op == "fill" and isinstance(node.attrs["integer"], int):
            number = node.attrs["integer"] if value.dtype != DType.F32 else int(node.attrs["value"])
            return _Byte(zero, number) if limits.min <= number <= limits.max else None
        if node.op == "clamp" and limits.min <= node.attrs["min"] <= node.attrs["max"] <= limits.max:
            return _Byte(zero, None)
        return None


def _are_rows(numbers: Sequence[Value], x: Value) -> bool:
    """Whether each has one number for each row of ``x``."""
    return all(is_one(each.ne[0]) and same_dims(each.ne[1:], x.ne[1:]) for each in numbers)


def _depth(op: str, weight: Value) -> Dim:
    """How many products a sum of a layer has."""
    return product(weight.ne[:3]) if op == "conv_2d" else weight.ne[0]


def _of_computed_grid(
    rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...], scales: Constant
) -> Value | None:
    """A layer of bytes whose scale is computed, as floats; of a convolution, one scale for all."""
    x, dequantized, bias = inputs
    assert x is not None
    assert dequantized is not None
    builder, weight, channels = rewriter.builder, input_of(dequantized, 0), LAYERS[node.op]
    grid, integers = _Computed.behind(builder, x), rewriter.constant(weight)
    if grid is None or integers is None or not holds(is_short, _depth(node.op, weight)):
        return None
    if channels != 0 and not is_one(grid.scale.count):
        return None
    outputs = node.output.ne[channels]
    along: Dims = (outputs, 1, 1, 1) if channels == 0 else (1, 1, outputs, 1)
    source, attrs = grid.integers, {name: value for name, value in node.attrs.items() if name != "epilogue"}
    if channels != 0 and grid.negated_zero is not None:
        zero = _Byte.negated(grid.negated_zero, source.dtype)
        if zero is None:
            return None
        source, attrs["window"] = _padded(builder, source, zero.value, node.output.ne, attrs["window"])
    attrs |= {"zero": grid.zero, "output": UNBOUNDED}
    y = builder.emit(f"quantized_{node.op}", source, weight, scales.value, None, **attrs)
    if grid.negated_zero is not None:

        def sums(numbers: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
            return matrix.reshape(numbers.numel(), -1).sum(1) * numbers

        of_weights = rewriter.derived("sums", [scales, integers], along, sums)
        y = builder.emit("add", y, builder.emit("binary", of_weights, grid.negated_zero, kind=BinaryKind.MUL))
    return scaled_rows(builder, y, grid.scale, None if bias is None else builder.reshape(bias, along))


def scaled_rows(builder: Builder, y: Value, scale: Value, bias: Value | None) -> Value:
    """``y * scale + bias``: ``scale`` has a number for each row or one for all, ``bias`` one for each channel."""
    y = builder.emit("mul", y, scale)
    return y if bias is None else builder.emit("add", y, bias)


def _padded(builder: Builder, image: Value, zero: Value, ne: Dims, window: Window2d) -> tuple[Value, Window2d]:
    """An image with the zero point around it where windows reach over its edges, and the windows over that."""
    zero = builder.convert(zero, image.dtype)
    windows = []
    for dim, along in enumerate((window.w, window.h)):
        far = far_pad(image.ne[dim], ne[dim], along)
        far = far if isinstance(far, int) else along.pad  # as much on both sides, which is no less
        for at, amount in enumerate((along.pad, far)):
            if amount > 0:
                edge = builder.broadcast(zero, [amount if d == dim else n for d, n in enumerate(image.ne)])
                image = builder.emit("concat", *((image, edge) if at else (edge, image)), dim=dim)
        windows.append(replace(along, pad=min(along.pad, 0)))
    return image, Window2d(*windows)


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
