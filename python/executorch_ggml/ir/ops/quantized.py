"""Ops on integers that stand for numbers: ``(integer - zero) * scale``, with one scale and zero point for a tensor.

Layers multiply integers and sum in int32; what comes out is integers again, or floats. All are the CPU's own kernels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from .._lazy import F, torch
from ..dtypes import DType
from ..formulas import count, formula
from ..op import Dims, Operand, op
from .custom import BinaryKind
from .movement import shape_of
from .spatial import (
    _BY_WINOGRAD,
    PoolKind,
    Window2d,
    _convolution_checks,
    _fitted,
    _on_planes,
    _pooling_checks,
    planes,
    pool_2d,
    pool_taps,
)


@dataclass(frozen=True)
class Requantize:
    """What an op gives: integers around ``zero`` between two bounds, or floats between them where ``dtype`` is F32."""

    dtype: DType = DType.F32
    zero: int = 0
    low: float = 0.0
    high: float = 0.0


UNBOUNDED = Requantize(DType.F32, 0, -math.inf, math.inf)


@formula
def is_output(output: Requantize) -> bool:
    """Expects `output` to be of float32, or of int8 or uint8 with a zero point and bounds that the type has."""
    return output.low <= output.high and (
        (output.dtype == DType.F32 and output.zero == 0)
        or (output.dtype == DType.I8 and -128 <= output.zero <= 127 and output.low >= -128 and output.high <= 127)
        or (output.dtype == DType.U8 and 0 <= output.zero <= 255 and output.low >= 0 and output.high <= 255)
    )


@formula
def is_of_bytes(output: Requantize) -> bool:
    """Expects `output` to be of int8 or uint8."""
    return output.dtype == DType.I8 or output.dtype == DType.U8  # noqa: PLR1714 - for C++


@formula
def is_zero_point(zero: int) -> bool:
    """Expects `zero` to be within -32768 and 32767."""
    return -32768 <= zero <= 32767


@formula
def is_narrow(dtype: DType) -> bool:
    """Expects `dtype` to be int8, uint8 or int16."""
    return dtype == DType.I8 or dtype == DType.U8 or dtype == DType.I16  # noqa: PLR1714 - for C++


@formula
def is_byte_of(zero: int, x: Operand) -> bool:
    """Expects `zero` to be a number that `x` may hold."""
    return (x.dtype == DType.I8 and -128 <= zero <= 127) or (x.dtype == DType.U8 and 0 <= zero <= 255)


@formula
def spans(low: int, high: int) -> bool:
    """Expects `low` to be at most `high`, and both to be within -32768 and 32767."""
    return -32768 <= low <= high <= 32767


@formula
def has_scales(scale: Operand, channels: int) -> bool:
    """Expects `scale` to have a number for each of the `channels`, these being fewer than 2^26."""
    return channels <= 2**26 and count(scale.ne) == channels


@formula
def is_short(depth: int) -> bool:
    """Expects `depth`, the number of products in a sum, to be at most 65536: sums are in int32."""
    return depth <= 2**16


@formula
def averages(kind: PoolKind) -> bool:
    """Expects `kind` to be AVG or AVG_PAD."""
    return kind == PoolKind.AVG or kind == PoolKind.AVG_PAD  # noqa: PLR1714 - for C++


@formula
def sums_few(x: Dims, ne: Dims, window: Window2d) -> bool:
    """Expects `window` to see at most 2^22 pixels of `x`: sums are in int32."""
    return pool_taps(window.w, x[0], ne[0]) * pool_taps(window.h, x[1], ne[1]) <= 2**22


@formula
def is_table(table: Operand) -> bool:
    """Expects `table` to have 256 elements."""
    return count(table.ne) == 256


@formula
def combines(kind: BinaryKind) -> bool:
    """Expects `kind` to be ADD, SUB or MUL."""
    return kind == BinaryKind.ADD or kind == BinaryKind.SUB or kind == BinaryKind.MUL  # noqa: PLR1714 - for C++


@formula
def spreads_over(scales: Operand | None, x: Operand) -> bool:
    """Expects each dim of `scales` to be that of `x` or 1."""
    return scales is None or all(m == 1 or m == n for m, n in zip(scales.ne, x.ne))  # noqa: B905, PLR1714 - for C++


def requantized(sums: torch.Tensor, output: Requantize) -> torch.Tensor:
    """Sums in the units of the result, as it is given."""
    if output.dtype != DType.F32:
        sums = torch.round(sums) + output.zero
    return sums.clamp(output.low, output.high).to(DType(output.dtype).torch)


@op(
    190,
    inputs={"x": "f32"},
    result="dtype, x.ne",
    checks=("is_narrow(dtype)", "is_zero_point(zero)", "spans(low, high)"),
    call="custom",
    kernel="quantize",
    along=(),
)
def quantize(x: torch.Tensor, *, inverse: float, zero: int, low: int, high: int, dtype: DType) -> torch.Tensor:
    """``clamp(round(x * inverse) + zero, low, high)``: half to even, ``inverse`` being one over the scale (custom)."""
    return (torch.round(x * inverse) + zero).clamp(low, high).to(DType(dtype).torch)


@op(
    191,
    inputs={"x": "i8|u8|i16", "scales": "f32?"},
    result="DType.F32, x.ne",
    checks=("is_zero_point(zero)", "spreads_over(scales, x)"),
    call="custom",
    kernel="dequantize",
    along=(),
)
def dequantize(x: torch.Tensor, scales: torch.Tensor | None, *, scale: float, zero: int) -> torch.Tensor:
    """``(x - zero) * scale``, times ``scales`` if given, which is broadcast to ``x`` (custom)."""
    floats = (x.float() - zero) * scale
    return floats if scales is None else floats * scales


def _unscaled(x: torch.Tensor, zero: int) -> torch.Tensor:
    return x.double() - zero


_INTEGERS = {"x": "i8|u8 cont", "weight": "i8 cont", "scale": "f32 cont", "bias": "f32? cont"}


def _integer_convolution_checks(x: str, ne: str) -> tuple[str, ...]:
    return (
        *_convolution_checks(x, ne),
        f"has_scales(scale, {ne}[2])",
        "is_short(weight.ne[0] * weight.ne[1] * weight.ne[2])",
        "is_byte_of(zero, x)",
        "is_output(output)",
    )


@op(
    192,
    inputs=_INTEGERS,
    result="output.dtype, ne",
    checks=_integer_convolution_checks("x.ne", "ne"),
    work="ne[0] * ne[1] * ne[3] * count(weight.ne)",
    call="replaced",
)
def quantized_conv_2d(
    x: torch.Tensor,
    weight: torch.Tensor,
    scale: torch.Tensor,
    bias: torch.Tensor | None,
    *,
    ne: Dims,
    window: Window2d,
    groups: int,
    zero: int,
    output: Requantize,
) -> torch.Tensor:
    """``conv_2d`` of integers: ``sums of (x - zero) * weight, times scale, plus bias``, rounded to ``output``.

    ``scale`` and ``bias`` have a number a channel, in steps of the result. Pixels outside of the image are ``zero``.
    """
    if 0 in shape_of(ne):
        return torch.zeros(shape_of(ne), dtype=DType(output.dtype).torch)
    steps = [(getattr(window.h, name), getattr(window.w, name)) for name in ("stride", "dilation")]
    fitted = _fitted(_unscaled(x, zero), ne, window)
    sums = F.conv2d(fitted, weight.double(), None, steps[0], 0, steps[1], groups)
    sums = sums.float() * scale.reshape(-1, 1, 1)
    return requantized(sums if bias is None else sums + bias.reshape(-1, 1, 1), output)


@op(
    193,
    inputs=_INTEGERS,
    result="output.dtype, ne",
    checks=_integer_convolution_checks("planes(x.ne)", "planes(ne)"),
    work="ne[1] * ne[2] * ne[3] * count(weight.ne)",
    call="self.quantized_conv_2d(x, weight, scale, bias, window, groups, zero, output)",
    kernel="quantized_layer",
    families={"integer_winograd": _BY_WINOGRAD},
)
def quantized_conv_2d_nhwc(
    x: torch.Tensor,
    weight: torch.Tensor,
    scale: torch.Tensor,
    bias: torch.Tensor | None,
    *,
    ne: Dims,
    window: Window2d,
    groups: int,
    zero: int,
    output: Requantize,
) -> torch.Tensor:
    """``quantized_conv_2d`` with channels innermost (custom)."""
    attrs: dict[str, Any] = {"window": window, "groups": groups, "zero": zero, "output": output}
    return _on_planes(quantized_conv_2d, x, weight, scale, bias, ne=planes(ne), **attrs)


@op(
    194,
    inputs=_INTEGERS,
    result="output.dtype, (weight.ne[1], x.ne[1], x.ne[2], x.ne[3])",
    checks=(
        "is_layer(x, weight)",
        "is_bias(bias, weight.ne[1])",
        "has_scales(scale, weight.ne[1])",
        "is_short(weight.ne[0])",
        "is_byte_of(zero, x)",
        "is_output(output)",
    ),
    work="count(x.ne) * weight.ne[1]",
    call="self.quantized_linear(x, weight, scale, bias, zero, output)",
    kernel="quantized_layer",
)
def quantized_linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    scale: torch.Tensor,
    bias: torch.Tensor | None,
    *,
    zero: int,
    output: Requantize,
) -> torch.Tensor:
    """``linear`` of integers, as ``quantized_conv_2d`` (custom)."""
    sums = F.linear(_unscaled(x, zero), weight.double()[0, 0]).float() * scale.reshape(-1)
    return requantized(sums if bias is None else sums + bias.reshape(-1), output)


@op(
    195,
    inputs={"a": "i8|u8", "b": "i8|u8"},
    result="output.dtype, broadcast_dims(a.ne, b.ne)",
    checks=(
        "broadcast_together(a, b)",
        "combines(kind)",
        "is_byte_of(a_zero, a)",
        "is_byte_of(b_zero, b)",
        "is_output(output)",
        "is_of_bytes(output)",
    ),
    call="custom",
    kernel="quantized_binary",
    along=(),
)
def quantized_binary(
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    kind: BinaryKind,
    a_scale: float,
    a_zero: int,
    b_scale: float,
    b_zero: int,
    inverse: float,
    output: Requantize,
) -> torch.Tensor:
    """A sum, difference or product of dequantized tensors, times ``inverse`` and rounded to ``output`` (custom)."""
    x, y = (a.float() - a_zero) * a_scale, (b.float() - b_zero) * b_scale
    combined: torch.Tensor = getattr(torch, BinaryKind(kind).name.lower())(x, y)
    return requantized(combined * inverse, output)


@op(
    196,
    inputs={"x": "i8|u8", "table": "i8|u8|f32 cont"},
    result="table.dtype, x.ne",
    checks=("is_table(table)",),
    call="custom",
    kernel="lookup",
    along=(),
)
def lookup(x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """A function of a byte: the element of ``table`` at ``x`` read as unsigned, -1 being 255 (custom)."""
    return table.reshape(-1)[x.long() % 256]


def _integer_pooling_checks(x: str, ne: str) -> tuple[str, ...]:
    return (
        "averages(kind)",
        *_pooling_checks(x, ne),
        f"sums_few({x}, {ne}, window)",
        "is_byte_of(zero, x)",
        "is_output(output)",
        "is_of_bytes(output)",
    )


@op(
    197,
    inputs={"x": "i8|u8 cont"},
    result="output.dtype, ne",
    checks=_integer_pooling_checks("x.ne", "ne"),
    work="count(ne) * pool_taps(window.w, x.ne[0], ne[0]) * pool_taps(window.h, x.ne[1], ne[1])",
    call="replaced",
)
def quantized_pool_2d(
    x: torch.Tensor,
    *,
    ne: Dims,
    kind: PoolKind,
    window: Window2d,
    divisor: int,
    zero: int,
    factor: float,
    output: Requantize,
) -> torch.Tensor:
    """``pool_2d`` of integers: averages of ``x - zero``, times ``factor``, rounded to ``output``.

    With a factor of 1 what is half-way between two steps goes to the even one.
    """
    average: torch.Tensor = pool_2d(_unscaled(x, zero), ne=ne, kind=kind, window=window, divisor=divisor)
    return requantized(average.float() * factor, output)


@op(
    198,
    inputs={"x": "i8|u8 cont"},
    result="output.dtype, ne",
    checks=_integer_pooling_checks("planes(x.ne)", "planes(ne)"),
    work="count(ne) * pool_taps(window.w, x.ne[1], ne[1]) * pool_taps(window.h, x.ne[2], ne[2])",
    call="custom",
    kernel="quantized_pool",
)
def quantized_pool_2d_nhwc(
    x: torch.Tensor,
    *,
    ne: Dims,
    kind: PoolKind,
    window: Window2d,
    divisor: int,
    zero: int,
    factor: float,
    output: Requantize,
) -> torch.Tensor:
    """``quantized_pool_2d`` with channels innermost (custom)."""
    attrs: dict[str, Any] = {"kind": kind, "window": window, "divisor": divisor, "zero": zero, "factor": factor}
    return _on_planes(quantized_pool_2d, x, ne=planes(ne), **attrs, output=output)
