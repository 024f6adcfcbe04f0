"""Elementwise operators."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from ...data_types import FLOATS, FOUR_BITS
from .module import CARRIERS, SIGN, computes

Tensor = torch.Tensor


def _binary(name: str, function: Callable[[Tensor, Tensor], Tensor], *, ordered: bool = False) -> None:
    def call(a: Tensor, b: Tensor) -> Tensor:
        return function(a, b)

    computes(name, ordered=ordered)(call)


def _unary(name: str, function: Callable[[Tensor], Tensor]) -> None:
    def call(input: Tensor) -> Tensor:
        return function(input)

    computes(name)(call)


_binary("add", torch.add)
_binary("sub", torch.sub)
_binary("mul", torch.mul)
_binary("max", torch.maximum, ordered=True)
_binary("min", torch.minimum, ordered=True)
_binary("equal", torch.eq)
_binary("not_equal", torch.ne)
_binary("greater", torch.gt, ordered=True)
_binary("greater_or_equal", torch.ge, ordered=True)
_binary("lesser", torch.lt, ordered=True)
_binary("lesser_or_equal", torch.le, ordered=True)
_binary("logical_and", torch.logical_and)
_binary("logical_or", torch.logical_or)
_binary("logical_xor", torch.logical_xor)

_unary("abs", torch.abs)
_unary("ceil", torch.ceil)
_unary("cos", torch.cos)
_unary("erf", torch.erf)
_unary("exp", torch.exp)
_unary("floor", torch.floor)
_unary("log", torch.log)
_unary("neg", torch.neg)
_unary("reciprocal", torch.reciprocal)
_unary("round_even", torch.round)
_unary("sin", torch.sin)
_unary("sign", torch.sign)
_unary("sqrt", torch.sqrt)
_unary("tan", torch.tan)
_unary("gelu", F.gelu)
_unary("hard_swish", lambda x: x * (x + 3).clamp(0, 6) / 6)
_unary("relu", torch.relu)
_unary("sigmoid", torch.sigmoid)
_unary("softplus", F.softplus)
_unary("softsign", F.softsign)
_unary("tanh", torch.tanh)


@computes("identity", moves=True)
def identity(input: Tensor) -> Tensor:
    """A copy, so that no output is an input."""
    return input.clone()


@computes("logical_not")
def logical_not(a: Tensor) -> Tensor:
    """Whether it is 0."""
    return a == 0


@computes("is_nan")
def is_nan(a: Tensor) -> Tensor:
    """Whether it is no number."""
    return torch.isnan(a)


@computes("is_infinite")
def is_infinite(a: Tensor) -> Tensor:
    """Whether it is an infinity."""
    return torch.isinf(a)


@computes("div", typed=True)
def div(a: Tensor, b: Tensor, from_type: str, to_type: str) -> Tensor:
    """Quotients; of integers truncated, and 0 where the divisor is 0."""
    del to_type
    if from_type in FLOATS:
        return a / b
    if from_type == "uint64":
        return _divided_unsigned(a, b)
    quotient = torch.div(a, torch.where(b == 0, torch.ones_like(b), b), rounding_mode="trunc")
    return torch.where(b == 0, torch.zeros_like(quotient), quotient)


def _divided_unsigned(a: Tensor, b: Tensor) -> Tensor:
    """Quotients of 64 unsigned bits in signed ones: half of ``a`` is divided, doubled and put right by one at most."""
    big = b < 0
    divisor = torch.where(big | (b == 0), torch.ones_like(b), b)
    half = (a >> 1) & ~SIGN
    quotient = torch.div(half, divisor, rounding_mode="trunc") * 2
    rest = a - quotient * divisor
    quotient = quotient + ((rest ^ SIGN) >= (divisor ^ SIGN))
    at_least = ((a ^ SIGN) >= (b ^ SIGN)).to(torch.int64)
    return torch.where(b == 0, torch.zeros_like(quotient), torch.where(big, at_least, quotient))


@computes("pow", typed=True)
def pow_(a: Tensor, b: Tensor, from_type: str, to_type: str) -> Tensor:
    """Powers; of integers modulo the type's range, and 0 for what a negative exponent makes a fraction of."""
    del to_type
    if from_type in FLOATS:
        return torch.pow(a, b)
    if from_type.startswith("u") or from_type == "int64":
        base, exponent = a.to(torch.int64), b.to(torch.int64)
    else:
        base, exponent = a.to(torch.int32), b.to(torch.int32)
    powers = torch.pow(base, exponent.clamp(min=0))
    if from_type.startswith("u"):
        return powers
    fraction = torch.where(base == 1, 1, torch.where(base == -1, 1 - 2 * (exponent & 1), 0)).to(powers.dtype)
    return torch.where(exponent < 0, fraction, powers)


@computes("cast", typed=True)
def cast(input: Tensor, data_type: str, from_type: str, to_type: str) -> Tensor:
    """To floats the nearest, to integers without the fraction; what is beyond an integer type is its nearest end."""
    del data_type
    if to_type in FLOATS:
        return _unsigned_as_float(input) if from_type == "uint64" else input.to(CARRIERS[to_type])
    if from_type in FLOATS:
        return _float_as_integer(input, to_type)
    if to_type in FOUR_BITS:
        low = input.to(torch.int64) & 15
        return low if to_type == "uint4" else (low ^ 8) - 8
    return input.to(torch.int64)


def _unsigned_as_float(bits: Tensor) -> Tensor:
    """64 unsigned bits as floats: large ones by their half, whose last bit keeps what rounding has to know."""
    half = ((bits >> 1) & ~SIGN) | (bits & 1)
    return torch.where(bits < 0, half.to(torch.float32) * 2, bits.to(torch.float32))


def _float_as_integer(x: Tensor, to_type: str) -> Tensor:
    """Truncated and limited to the type's range; 0 for NaN."""
    x = torch.nan_to_num(x.double(), nan=0.0, posinf=2.0**70, neginf=-(2.0**70)).trunc()
    bits = int(to_type.lstrip("uint"))
    if to_type == "uint64":
        x = x.clamp(0.0, 2.0**64)
        upper = (x - 2.0**63).clamp(0.0, 2.0**63)
        top = torch.where(upper >= 2.0**63, -1, upper.clamp(max=2.0**63 - 1024).to(torch.int64) ^ SIGN)
        return torch.where(x >= 2.0**63, top, x.clamp(max=2.0**63 - 1024).to(torch.int64))
    if to_type == "int64":
        whole = x.clamp(-(2.0**63), 2.0**63 - 1024).to(torch.int64)
        return torch.where(x >= 2.0**63, 2**63 - 1, whole)
    low, high = (0, 2**bits - 1) if to_type[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return x.clamp(low, high).to(torch.int64)


@computes("clamp", typed=True)
def clamp(input: Tensor, min_value: float, max_value: float, from_type: str, to_type: str) -> Tensor:
    """Limited from below, then from above; NaN stays."""
    del to_type
    if from_type == "uint64":
        return (input ^ SIGN).clamp(int(min_value) + SIGN, int(max_value) + SIGN) ^ SIGN
    return torch.clamp(input, min_value, max_value)


@computes("elu")
def elu(input: Tensor, alpha: float) -> Tensor:
    """``alpha * (exp(x) - 1)`` below 0."""
    return torch.where(input > 0, input, alpha * torch.expm1(input.clamp(max=0)))


@computes("hard_sigmoid")
def hard_sigmoid(input: Tensor, alpha: float, beta: float) -> Tensor:
    """A line limited to 0 and 1."""
    return (alpha * input + beta).clamp(0, 1)


@computes("leaky_relu")
def leaky_relu(input: Tensor, alpha: float) -> Tensor:
    """``alpha * x`` below 0."""
    return torch.where(input < 0, alpha * input, input)


@computes("prelu")
def prelu(input: Tensor, slope: Tensor) -> Tensor:
    """``slope * x`` below 0."""
    return torch.where(input < 0, slope * input, input)


@computes("linear")
def linear(input: Tensor, alpha: float, beta: float) -> Tensor:
    """A line."""
    return alpha * input + beta


@computes("where", moves=True)
def where(condition: Tensor, true_value: Tensor, false_value: Tensor) -> Tensor:
    """One or the other."""
    return torch.where(condition != 0, true_value, false_value)
