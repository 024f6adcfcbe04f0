"""Elementwise operators."""

from __future__ import annotations

import math

import numpy as np
from coremltools.converters.mil.mil import Builder as mb

from ...data_types import integer_range
from .emitter import Emitter, Var, emits
from .movement import repeated


def _two(name: str, op: str, *, wraps: bool = False) -> None:
    @emits(name)
    def emit(e: Emitter, a: Var, b: Var) -> Var:
        made = getattr(mb, op)(x=a, y=b)
        return e.wrapped(made) if wraps and not e.is_float else made


def _logic(name: str, op: str) -> None:
    @emits(name)
    def emit(e: Emitter, a: Var, b: Var) -> Var:
        return getattr(mb, op)(x=e.cast(a, "bool"), y=e.cast(b, "bool"))


def _one(name: str, op: str) -> None:
    @emits(name)
    def emit(e: Emitter, input: Var) -> Var:
        del e
        return getattr(mb, op)(x=input)


for _name in ("add", "sub", "mul"):
    _two(_name, _name, wraps=True)
for _name, _op in {
    "max": "maximum",
    "min": "minimum",
    "equal": "equal",
    "not_equal": "not_equal",
    "greater": "greater",
    "greater_or_equal": "greater_equal",
    "lesser": "less",
    "lesser_or_equal": "less_equal",
}.items():
    _two(_name, _op)
for _name in ("logical_and", "logical_or", "logical_xor"):
    _logic(_name, _name)
for _name, _op in {
    "abs": "abs",
    "ceil": "ceil",
    "cos": "cos",
    "erf": "erf",
    "exp": "exp",
    "floor": "floor",
    "identity": "identity",
    "round_even": "round",
    "sin": "sin",
    "sign": "sign",
    "sqrt": "sqrt",
    "tan": "tan",
    "sigmoid": "sigmoid",
    "softplus": "softplus",
    "softsign": "softsign",
    "tanh": "tanh",
}.items():
    _one(_name, _op)


@emits("log")
def log(e: Emitter, input: Var) -> Var:
    """Without the small number that MIL would add."""
    return mb.log(x=input, epsilon=e.number(0, input))


@emits("neg")
def neg(e: Emitter, input: Var) -> Var:
    """``x * -1``."""
    made = mb.mul(x=input, y=e.number(-1, input))
    return made if e.is_float else e.wrapped(made)


@emits("reciprocal")
def reciprocal(e: Emitter, input: Var) -> Var:
    """``1 / x``: MIL's own adds a small number."""
    return mb.real_div(x=e.number(1, input), y=input)


@emits("logical_not")
def logical_not(e: Emitter, a: Var) -> Var:
    """Of bool."""
    return mb.logical_not(x=e.cast(a, "bool"))


@emits("is_nan")
def is_nan(e: Emitter, a: Var) -> Var:
    """What is not equal to itself."""
    del e
    return mb.not_equal(x=a, y=a)


@emits("is_infinite")
def is_infinite(e: Emitter, a: Var) -> Var:
    """Whose size is infinite."""
    return mb.equal(x=mb.abs(x=a), y=e.number(math.inf, a))


@emits("relu")
def relu(e: Emitter, input: Var) -> Var:
    """MIL's own is of floats only."""
    return mb.relu(x=input) if e.is_float else mb.maximum(x=input, y=np.int32(0))


@emits("pow")
def pow_(e: Emitter, a: Var, b: Var) -> Var:
    """Powers; of integers 0 for what a negative exponent makes a fraction of."""
    if e.is_float:
        return mb.pow(x=a, y=b)
    made = e.wrapped(mb.pow(x=a, y=mb.maximum(x=b, y=np.int32(0))))
    return mb.mul(x=made, y=e.cast(mb.greater_equal(x=b, y=np.int32(0)), "int32"))


@emits("div")
def div(e: Emitter, a: Var, b: Var) -> Var:
    """Of integers truncated: sizes are divided, and the sign put back."""
    if e.is_float:
        return mb.real_div(x=a, y=b)
    size = mb.floor_div(x=mb.abs(x=a), y=mb.abs(x=b))
    return e.wrapped(mb.mul(x=size, y=mb.mul(x=mb.sign(x=a), y=mb.sign(x=b))))


@emits("cast")
def cast(e: Emitter, input: Var, data_type: str) -> Var:
    """To floats, or to integers cut to their bits."""
    if data_type.startswith("float"):
        return e.cast(input, "fp32" if data_type == "float32" else "fp16")
    whole = e.cast(input, "int32")
    if not e.is_float:
        return e.wrapped(whole)
    low, high = integer_range(data_type)
    if high >= 2**31 - 1:
        return whole
    return mb.maximum(x=mb.minimum(x=whole, y=np.int32(high)), y=np.int32(low))


@emits("clamp")
def clamp(e: Emitter, input: Var, min_value: float, max_value: float) -> Var:
    """The greater, then the lesser."""
    if e.is_float:
        x = input if min_value == -math.inf else mb.maximum(x=input, y=e.number(min_value, input))
        return x if max_value == math.inf else mb.minimum(x=x, y=e.number(max_value, input))
    return mb.minimum(x=mb.maximum(x=input, y=np.int32(min_value)), y=np.int32(max_value))


@emits("elu")
def elu(e: Emitter, input: Var, alpha: float) -> Var:
    """Elu."""
    return mb.elu(x=input, alpha=e.number(alpha, input))


@emits("gelu")
def gelu(e: Emitter, input: Var) -> Var:
    """The exact form."""
    del e
    return mb.gelu(x=input, mode="EXACT")


@emits("hard_sigmoid")
def hard_sigmoid(e: Emitter, input: Var, alpha: float, beta: float) -> Var:
    """A line limited to 0 and 1."""
    line = mb.add(x=mb.mul(x=input, y=e.number(alpha, input)), y=e.number(beta, input))
    return mb.maximum(x=mb.minimum(x=line, y=e.number(1, input)), y=e.number(0, input))


@emits("hard_swish")
def hard_swish(e: Emitter, input: Var) -> Var:
    """``x * max(0, min(6, x + 3)) / 6``."""
    moved = mb.minimum(x=mb.add(x=input, y=e.number(3, input)), y=e.number(6, input))
    product = mb.mul(x=input, y=mb.maximum(x=moved, y=e.number(0, input)))
    return mb.real_div(x=product, y=e.number(6, input))


@emits("leaky_relu")
def leaky_relu(e: Emitter, input: Var, alpha: float) -> Var:
    """Leaky ReLU."""
    return mb.leaky_relu(x=input, alpha=e.number(alpha, input))


@emits("linear")
def linear(e: Emitter, input: Var, alpha: float, beta: float) -> Var:
    """A line."""
    return mb.add(x=mb.mul(x=input, y=e.number(alpha, input)), y=e.number(beta, input))


@emits("prelu")
def prelu(e: Emitter, input: Var, slope: Var) -> Var:
    """MIL's own takes a slope a channel only, so a choice."""
    below = mb.minimum(x=input, y=e.number(0, input))
    made = mb.add(x=mb.maximum(x=input, y=e.number(0, input)), y=mb.mul(x=slope, y=below))
    return made if e.is_float else e.wrapped(made)


@emits("where")
def where(e: Emitter, condition: Var, true_value: Var, false_value: Var) -> Var:
    """Select, of operands repeated to one shape."""
    wanted = mb.not_equal(x=repeated(condition, e.shape), y=np.int32(0))
    return mb.select(cond=wanted, a=repeated(true_value, e.shape), b=repeated(false_value, e.shape))
