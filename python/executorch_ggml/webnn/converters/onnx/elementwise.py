"""Elementwise operators."""

from __future__ import annotations

import math

from ...data_types import FLOATS, FOUR_BITS, integer_range
from .writer import CannotError, Value, Writer, emits


def _arithmetic(name: str, op: str) -> None:
    @emits(name)
    def emit(w: Writer, a: Value, b: Value) -> Value:
        return w.broadcast(op, w.wide(a), w.wide(b))


def _extreme(name: str, op: str) -> None:
    @emits(name)
    def emit(w: Writer, a: Value, b: Value) -> Value:
        return w.unordered(w.extreme(op, w.ordered(a), w.ordered(b)))


def _comparison(name: str, op: str, *, negated: bool = False) -> None:
    @emits(name)
    def emit(w: Writer, a: Value, b: Value) -> Value:
        result = w.broadcast(op, w.ordered(a), w.ordered(b), "bool")
        return w.call("Not", result) if negated else result


def _logic(name: str, op: str) -> None:
    @emits(name)
    def emit(w: Writer, a: Value, b: Value) -> Value:
        return w.broadcast(op, w.cast(a, "bool"), w.cast(b, "bool"))


def _unary(name: str, op: str) -> None:
    @emits(name)
    def emit(w: Writer, input: Value) -> Value:
        return w.call(op, w.wide(input))


for _name, _op in {"add": "Add", "sub": "Sub", "mul": "Mul"}.items():
    _arithmetic(_name, _op)
for _name, _op in {"max": "Max", "min": "Min"}.items():
    _extreme(_name, _op)
for _name, _op in {
    "equal": "Equal",
    "greater": "Greater",
    "greater_or_equal": "GreaterOrEqual",
    "lesser": "Less",
    "lesser_or_equal": "LessOrEqual",
}.items():
    _comparison(_name, _op)
_comparison("not_equal", "Equal", negated=True)
for _name, _op in {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}.items():
    _logic(_name, _op)
for _name, _op in {
    "abs": "Abs",
    "ceil": "Ceil",
    "cos": "Cos",
    "erf": "Erf",
    "exp": "Exp",
    "floor": "Floor",
    "log": "Log",
    "neg": "Neg",
    "reciprocal": "Reciprocal",
    "round_even": "Round",
    "sin": "Sin",
    "sqrt": "Sqrt",
    "tan": "Tan",
    "sigmoid": "Sigmoid",
    "softplus": "Softplus",
    "softsign": "Softsign",
    "tanh": "Tanh",
}.items():
    _unary(_name, _op)


@emits("identity")
def identity(w: Writer, input: Value) -> Value:
    """Nothing: the model's outputs are copies."""
    return input


@emits("logical_not")
def logical_not(w: Writer, a: Value) -> Value:
    """Of bool."""
    return w.call("Not", w.cast(a, "bool"))


@emits("is_nan")
def is_nan(w: Writer, a: Value) -> Value:
    """Whether it is no number."""
    return w.call("IsNaN", w.wide(a), data_type="bool")


@emits("is_infinite")
def is_infinite(w: Writer, a: Value) -> Value:
    """Whether it is an infinity."""
    return w.call("IsInf", w.wide(a), data_type="bool")


@emits("sign")
def sign(w: Writer, input: Value) -> Value:
    """``(x > 0) - (x < 0)``: 0 for NaN, which Sign keeps."""
    x = w.wide(input)
    zero = w.scalar(0, x)
    above, below = (w.cast(w.call(op, x, zero, data_type="bool"), x.data_type) for op in ("Greater", "Less"))
    return w.call("Sub", above, below)


@emits("relu")
def relu(w: Writer, input: Value) -> Value:
    """The greater of it and 0."""
    x = w.wide(input)
    return w.call("Relu", x) if x.is_float else w.extreme("Max", x, w.scalar(0, x))


@emits("div")
def div(w: Writer, a: Value, b: Value) -> Value:
    """Of integers truncated; 0 where the divisor is 0, which would end the process."""
    if a.data_type == "uint64":
        raise CannotError("ONNX Runtime has no division of uint64")
    x, y = w.wide(a), w.wide(b)
    if x.is_float:
        return w.broadcast("Div", x, y)
    none = w.call("Equal", y, w.scalar(0, y), data_type="bool")
    quotient = w.broadcast("Div", x, w.call("Where", none, w.scalar(1, y), y, data_type=y.data_type))
    return w.call("Where", none, w.scalar(0, y), quotient, data_type=y.data_type, shape=quotient.shape)


@emits("pow")
def pow_(w: Writer, a: Value, b: Value) -> Value:
    """Powers; of integers those below 2**53 are exact."""
    return w.broadcast("Pow", w.wide(a), w.wide(b))


@emits("cast")
def cast(w: Writer, input: Value, data_type: str) -> Value:
    """To another type; 4 bits are cut out of wider integers, and halves converted from float32."""
    x = w.wide(input) if input.data_type in FLOATS else input
    if data_type not in FOUR_BITS:
        return w.cast(x, data_type)
    if input.data_type in FLOATS:
        low, high = integer_range(data_type)
        limits = w.constant(float(low), "float32"), w.constant(float(high), "float32")
        return w.cast(w.call("Clip", x, *limits), data_type)
    wide = w.cast(x, "int32")
    bits = w.call("BitwiseAnd", wide, w.constant(15, "int32"))
    if data_type == "uint4":
        return bits
    return w.call("Sub", w.call("BitwiseXor", bits, w.constant(8, "int32")), w.constant(8, "int32"))


@emits("clamp")
def clamp(w: Writer, input: Value, min_value: float, max_value: float) -> Value:
    """Clip; for floats Max and Min, which take infinite limits for what they are."""
    if input.data_type not in FLOATS:
        return w.call("Clip", input, w.scalar(min_value, input), w.scalar(max_value, input))
    x = w.wide(input)
    x = x if min_value == -math.inf else w.call("Max", x, w.scalar(min_value, x))
    return x if max_value == math.inf else w.call("Min", x, w.scalar(max_value, x))


@emits("elu")
def elu(w: Writer, input: Value, alpha: float) -> Value:
    """Elu."""
    return w.call("Elu", w.wide(input), alpha=alpha)


@emits("gelu")
def gelu(w: Writer, input: Value) -> Value:
    """The exact form."""
    return w.call("Gelu", w.wide(input))


@emits("hard_sigmoid")
def hard_sigmoid(w: Writer, input: Value, alpha: float, beta: float) -> Value:
    """HardSigmoid."""
    return w.call("HardSigmoid", w.wide(input), alpha=alpha, beta=beta)


@emits("hard_swish")
def hard_swish(w: Writer, input: Value) -> Value:
    """``x * clip(x + 3, 0, 6) / 6``."""
    x = w.wide(input)
    moved = w.call("Clip", w.call("Add", x, w.scalar(3, x)), w.scalar(0, x), w.scalar(6, x))
    return w.call("Div", w.call("Mul", x, moved), w.scalar(6, x))


@emits("leaky_relu")
def leaky_relu(w: Writer, input: Value, alpha: float) -> Value:
    """LeakyRelu."""
    return w.call("LeakyRelu", w.wide(input), alpha=alpha)


@emits("linear")
def linear(w: Writer, input: Value, alpha: float, beta: float) -> Value:
    """A product and a sum."""
    x = w.wide(input)
    return w.call("Add", w.call("Mul", x, w.scalar(alpha, x)), w.scalar(beta, x))


@emits("prelu")
def prelu(w: Writer, input: Value, slope: Value) -> Value:
    """PRelu broadcasts one way only, so a choice."""
    x = w.wide(input)
    sloped = w.broadcast("Mul", w.wide(slope), x)
    below = w.call("Less", x, w.scalar(0, x), data_type="bool")
    return w.call("Where", below, sloped, x, data_type=x.data_type, shape=w.shape)


@emits("where")
def where(w: Writer, condition: Value, true_value: Value, false_value: Value) -> Value:
    """Where."""
    a, b = w.wide(true_value), w.wide(false_value)
    return w.call("Where", w.cast(condition, "bool"), a, b, data_type=a.data_type, shape=w.shape)
