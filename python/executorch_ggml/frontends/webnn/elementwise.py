"""Elementwise operators."""

from __future__ import annotations

import math
from typing import Any

import torch

from ...ir.dtypes import DType
from ...ir.ops.custom import BinaryKind, UnaryKind
from ...webnn.data_types import FLOATS, FOUR_BITS, integer_range
from ..aten.ops.elementwise import arithmetic
from .emitter import CARRIERS, SIGN, Emitter, Tensor, emits, is_float

aten = torch.ops.aten


def _arithmetic(name: str, kind: BinaryKind) -> None:
    @emits(name)
    def emit(cx: Emitter, a: Tensor, b: Tensor) -> Tensor:
        return cx.unsigned(arithmetic(cx, kind, a, b))


def _extreme(name: str, kind: BinaryKind) -> None:
    @emits(name)
    def emit(cx: Emitter, a: Tensor, b: Tensor) -> Tensor:
        made = cx.both(kind, cx.ordered(a), cx.ordered(b))
        return cx.flipped(made) if cx.data_type == "uint64" else made


def _comparison(name: str, kind: BinaryKind) -> None:
    @emits(name)
    def emit(cx: Emitter, a: Tensor, b: Tensor) -> Tensor:
        return cx.both(kind, cx.ordered(a), cx.ordered(b))


def _logic(name: str, kind: BinaryKind) -> None:
    @emits(name)
    def emit(cx: Emitter, a: Tensor, b: Tensor) -> Tensor:
        return cx.both(kind, cx.tensor(a, DType.BOOL), cx.tensor(b, DType.BOOL))


def _unary(name: str, overload: Any) -> None:
    @emits(name)
    def emit(cx: Emitter, input: Tensor) -> Tensor:
        return cx.aten(overload, input)


for _name, _kind in {"add": BinaryKind.ADD, "sub": BinaryKind.SUB, "mul": BinaryKind.MUL}.items():
    _arithmetic(_name, _kind)
for _name, _kind in {"max": BinaryKind.MAXIMUM, "min": BinaryKind.MINIMUM}.items():
    _extreme(_name, _kind)
for _name, _kind in {
    "equal": BinaryKind.EQ,
    "not_equal": BinaryKind.NE,
    "greater": BinaryKind.GT,
    "greater_or_equal": BinaryKind.GE,
    "lesser": BinaryKind.LT,
    "lesser_or_equal": BinaryKind.LE,
}.items():
    _comparison(_name, _kind)
for _name, _kind in {
    "logical_and": BinaryKind.LOGICAL_AND,
    "logical_or": BinaryKind.LOGICAL_OR,
    "logical_xor": BinaryKind.LOGICAL_XOR,
}.items():
    _logic(_name, _kind)
for _name, _overload in {
    "abs": aten.abs.default,
    "ceil": aten.ceil.default,
    "cos": aten.cos.default,
    "erf": aten.erf.default,
    "exp": aten.exp.default,
    "floor": aten.floor.default,
    "log": aten.log.default,
    "neg": aten.neg.default,
    "reciprocal": aten.reciprocal.default,
    "round_even": aten.round.default,
    "sin": aten.sin.default,
    "sqrt": aten.sqrt.default,
    "tan": aten.tan.default,
    "gelu": aten.gelu.default,
    "hard_swish": aten.hardswish.default,
    "relu": aten.relu.default,
    "sigmoid": aten.sigmoid.default,
    "softplus": aten.softplus.default,
    "tanh": aten.tanh.default,
}.items():
    _unary(_name, _overload)


@emits("identity")
def identity(cx: Emitter, input: Tensor) -> Tensor:
    """The tensor itself: values are never written in place."""
    del cx
    return input


@emits("logical_not")
def logical_not(cx: Emitter, a: Tensor) -> Tensor:
    """Whether it is 0."""
    return cx.with_number(BinaryKind.EQ, cx.wide(a), 0)


def _test(name: str, kind: UnaryKind) -> None:
    @emits(name)
    def emit(cx: Emitter, a: Tensor) -> Tensor:
        return Tensor(cx.builder.emit("unary", cx.f32(a).value, kind=kind), a.shape)


_test("is_nan", UnaryKind.ISNAN)
_test("is_infinite", UnaryKind.ISINF)


@emits("sign")
def sign(cx: Emitter, input: Tensor) -> Tensor:
    """``(x > 0) - (x < 0)``: 0 for NaN."""
    x = cx.wide(input)
    above, below = (cx.tensor(cx.with_number(kind, x, 0), DType.I32) for kind in (BinaryKind.GT, BinaryKind.LT))
    return cx.both(BinaryKind.SUB, above, below)


@emits("softsign")
def softsign(cx: Emitter, input: Tensor) -> Tensor:
    """``x / (1 + abs(x))``."""
    x = cx.f32(input)
    return cx.both(BinaryKind.DIV, x, cx.affine(cx.unary("abs", x), 1.0, 1.0))


@emits("div")
def div(cx: Emitter, a: Tensor, b: Tensor) -> Tensor:
    """Quotients; of integers truncated, and 0 where the divisor is 0."""
    if is_float(a):
        return arithmetic(cx, BinaryKind.DIV, a, b)
    x, y = cx.wide(a), cx.wide(b)
    none = cx.with_number(BinaryKind.EQ, y, 0)
    divisor = cx.chosen(none, cx.number(1, y.dtype), y)
    made = (
        _divided_unsigned(cx, x, divisor) if cx.data_type == "uint64" else cx.both(BinaryKind.TRUNC_DIVIDE, x, divisor)
    )
    return cx.chosen(none, cx.number(0, y.dtype), made)


def _divided_unsigned(cx: Emitter, a: Tensor, b: Tensor) -> Tensor:
    """Quotients of 64 unsigned bits in signed ones: half of ``a`` is divided, doubled and put right by one at most."""
    big = cx.with_number(BinaryKind.LT, b, 0)
    divisor = cx.chosen(big, cx.number(1, DType.I64), b)
    half = cx.with_number(BinaryKind.BITWISE_AND, cx.with_number(BinaryKind.SHIFT_RIGHT, a, 1), ~SIGN)
    quotient = cx.with_number(BinaryKind.SHIFT_LEFT, cx.both(BinaryKind.TRUNC_DIVIDE, half, divisor), 1)
    rest = cx.both(BinaryKind.SUB, a, cx.both(BinaryKind.MUL, quotient, divisor))
    more = cx.both(BinaryKind.GE, cx.flipped(rest), cx.flipped(divisor))
    quotient = cx.both(BinaryKind.ADD, quotient, cx.tensor(more, DType.I64))
    once = cx.tensor(cx.both(BinaryKind.GE, cx.flipped(a), cx.flipped(b)), DType.I64)
    return cx.chosen(big, once, quotient)


@emits("pow")
def pow_(cx: Emitter, a: Tensor, b: Tensor) -> Tensor:
    """Powers; of integers modulo the type's range, and 0 for what a negative exponent makes a fraction of."""
    if is_float(a):
        return arithmetic(cx, BinaryKind.POW, a, b)
    base, exponent = cx.wide(a), cx.wide(b)
    made = cx.both(BinaryKind.POW, base, cx.with_number(BinaryKind.MAXIMUM, exponent, 0))
    if cx.data_type.startswith("u"):
        return cx.unsigned(made)
    odd = cx.with_number(BinaryKind.BITWISE_AND, exponent, 1)
    one, zero = cx.number(1, base.dtype), cx.number(0, base.dtype)
    sign = cx.both(BinaryKind.SUB, one, cx.with_number(BinaryKind.SHIFT_LEFT, odd, 1))
    unit = cx.chosen(cx.with_number(BinaryKind.EQ, base, -1), sign, zero)
    unit = cx.chosen(cx.with_number(BinaryKind.EQ, base, 1), one, unit)
    return cx.chosen(cx.with_number(BinaryKind.LT, exponent, 0), unit, made)


@emits("cast")
def cast(cx: Emitter, input: Tensor, data_type: str) -> Tensor:
    """To floats the nearest, to integers without the fraction; what is beyond an integer type is its nearest end."""
    if data_type in FLOATS:
        return _unsigned_as_float(cx, input) if cx.data_type == "uint64" else cx.tensor(input, CARRIERS[data_type])
    if is_float(input):
        return _float_as_integer(cx, cx.f32(input), data_type)
    if data_type in FOUR_BITS:
        low = cx.with_number(BinaryKind.BITWISE_AND, cx.tensor(input, DType.I32), 15)
        if data_type == "uint4":
            return low
        return cx.with_number(BinaryKind.SUB, cx.with_number(BinaryKind.BITWISE_XOR, low, 8), 8)
    if data_type == "uint32":
        return cx.unsigned(cx.tensor(input, DType.I64))
    return cx.tensor(input, CARRIERS[data_type])


def _unsigned_as_float(cx: Emitter, bits: Tensor) -> Tensor:
    """64 unsigned bits as floats: large ones by their half, whose last bit keeps what rounding has to know."""
    half = cx.with_number(BinaryKind.BITWISE_AND, cx.with_number(BinaryKind.SHIFT_RIGHT, bits, 1), ~SIGN)
    half = cx.both(BinaryKind.BITWISE_OR, half, cx.with_number(BinaryKind.BITWISE_AND, bits, 1))
    large = cx.affine(cx.tensor(half, DType.F32), 2.0, 0.0)
    return cx.chosen(cx.with_number(BinaryKind.LT, bits, 0), large, cx.tensor(bits, DType.F32))


def _float_as_integer(cx: Emitter, x: Tensor, data_type: str) -> Tensor:
    """Truncated and limited to the type's range; 0 for NaN."""
    number = cx.both(BinaryKind.EQ, x, x)
    x = cx.chosen(number, x, cx.number(0.0, DType.F32))
    low, high = integer_range(data_type)
    whole = cx.tensor(cx.unary("clamp", x, min=max(low, -(2.0**63)), max=min(high, 2.0**63 - 2**39)), DType.I64)
    if data_type == "int64":
        return cx.chosen(cx.with_number(BinaryKind.GE, x, 2.0**63), cx.number(high, DType.I64), whole)
    if data_type == "uint64":
        upper = cx.unary("clamp", cx.affine(x, 1.0, -(2.0**63)), min=0.0, max=2.0**63 - 2**39)
        large = cx.flipped(cx.tensor(upper, DType.I64))
        large = cx.chosen(cx.with_number(BinaryKind.GE, x, 2.0**64), cx.number(-1, DType.I64), large)
        return cx.chosen(cx.with_number(BinaryKind.GE, x, 2.0**63), large, whole)
    # The ends of 32 bits are none of float32: what was rounded beyond them is limited again.
    return cx.with_number(BinaryKind.MINIMUM, whole, high)


@emits("clamp")
def clamp(cx: Emitter, input: Tensor, min_value: float, max_value: float) -> Tensor:
    """Limited from below, then from above; NaN stays."""
    if is_float(input):
        return cx.aten(aten.clamp.default, input, float(min_value), float(max_value))
    x, offset = cx.ordered(input), SIGN if cx.data_type == "uint64" else 0
    low, high = integer_range(cx.data_type)
    if min_value > low:
        x = cx.with_number(BinaryKind.MAXIMUM, x, int(min_value) + offset)
    if max_value < high:
        x = cx.with_number(BinaryKind.MINIMUM, x, int(max_value) + offset)
    return cx.flipped(x) if offset else x


@emits("elu")
def elu(cx: Emitter, input: Tensor, alpha: float) -> Tensor:
    """Elu."""
    return cx.aten(aten.elu.default, input, alpha)


@emits("hard_sigmoid")
def hard_sigmoid(cx: Emitter, input: Tensor, alpha: float, beta: float) -> Tensor:
    """A line limited to 0 and 1."""
    return cx.unary("clamp", cx.affine(input, alpha, beta), min=0.0, max=1.0)


@emits("leaky_relu")
def leaky_relu(cx: Emitter, input: Tensor, alpha: float) -> Tensor:
    """Leaky ReLU."""
    return cx.aten(aten.leaky_relu.default, input, alpha)


@emits("linear")
def linear(cx: Emitter, input: Tensor, alpha: float, beta: float) -> Tensor:
    """A line."""
    if math.copysign(1.0, beta) > 0 and beta == 0.0:
        beta = -0.0  # adding it changes nothing, not even a zero's sign
    return cx.affine(input, alpha, beta)


@emits("prelu")
def prelu(cx: Emitter, input: Tensor, slope: Tensor) -> Tensor:
    """``slope * x`` below 0."""
    x = cx.wide(input)
    return cx.chosen(cx.with_number(BinaryKind.LT, x, 0), cx.both(BinaryKind.MUL, cx.wide(slope), x), x)


@emits("where")
def where(cx: Emitter, condition: Tensor, true_value: Tensor, false_value: Tensor) -> Tensor:
    """One or the other."""
    return cx.aten(aten.where.self, condition, true_value, false_value)
