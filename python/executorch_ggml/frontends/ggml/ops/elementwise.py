"""Arithmetic, activations and gates."""

from __future__ import annotations

from collections.abc import Callable

from ....ir.builder import Builder
from ....ir.dtypes import DType
from ....ir.graph import Value
from ....ir.ops.custom import BinaryKind
from ..translate import Node, tile, translates
from ..words import UnsupportedError

_INF = float("inf")
_ARITHMETIC = {"ADD": "add", "SUB": "sub", "MUL": "mul", "DIV": "div"}
_UNARY = {"SQR": "sqr", "SQRT": "sqrt", "LOG": "log", "SIN": "sin", "COS": "cos"}

Function = Callable[[Builder, Value], Value]


def _one(op: str) -> Function:
    return lambda b, x: b.emit(op, x)


def step(b: Builder, x: Value) -> Value:
    """1 where positive, else 0."""
    return b.convert(b.emit("binary", x, b.scalar(0.0, DType.F32), kind=BinaryKind.GT), DType.F32)


def gelu_quick(b: Builder, x: Value) -> Value:
    """``x * sigmoid(1.702 x)``."""
    return b.emit("mul", x, b.emit("sigmoid", b.emit("scale_bias", x, s=1.702, b=0.0)))


def away_from_zero(b: Builder, x: Value) -> Value:
    """Rounded, halves away from zero, as C does."""
    whole = b.emit("trunc", x)
    part = b.emit("abs", b.emit("sub", x, whole))
    half = b.emit("binary", part, b.scalar(0.5, DType.F32), kind=BinaryKind.GE)
    return b.emit("add", whole, b.emit("mul", b.convert(half, DType.F32), b.emit("sgn", x)))


ACTIVATIONS: dict[str, Function] = {
    "ABS": _one("abs"),
    "SGN": _one("sgn"),
    "NEG": _one("neg"),
    "STEP": step,
    "TANH": _one("tanh"),
    "ELU": _one("elu"),
    "RELU": _one("relu"),
    "SIGMOID": _one("sigmoid"),
    "GELU": _one("gelu"),
    "GELU_QUICK": gelu_quick,
    "SILU": _one("silu"),
    "HARDSWISH": _one("hardswish"),
    "HARDSIGMOID": _one("hardsigmoid"),
    "EXP": _one("exp"),
    "EXPM1": _one("expm1"),
    "SOFTPLUS": _one("softplus"),
    "GELU_ERF": _one("gelu_erf"),
    "FLOOR": _one("floor"),
    "CEIL": _one("ceil"),
    "ROUND": away_from_zero,
    "TRUNC": _one("trunc"),
}
_GATES = {
    "REGLU": "RELU",
    "GEGLU": "GELU",
    "SWIGLU": "SILU",
    "GEGLU_ERF": "GELU_ERF",
    "GEGLU_QUICK": "GELU_QUICK",
}


@translates(*_ARITHMETIC)
def arithmetic(n: Node) -> Value:
    """The second operand repeats over the first. Half types are computed in f32, and rounded once."""
    if DType.I32 in (n.plain(0).dtype, n.plain(1).dtype):
        raise UnsupportedError("arithmetic on integers")
    a = n.f32(0)
    return n.emit(_ARITHMETIC[n.op], a, _repeated(n, n.f32(1), a))


def _repeated(n: Node, small: Value, big: Value) -> Value:
    """As it is where the IR's ops broadcast it by themselves."""
    if all(s in (1, size) for s, size in zip(small.ne, big.ne, strict=True)):
        return small
    return tile(n.b, small, big.ne)


@translates("ADD1")
def add1(n: Node) -> Value:
    """A number of one element added."""
    return n.emit("add", n.f32(0), n.f32(1))


@translates("ADD_ID")
def add_id(n: Node) -> Value:
    """Rows of a table, chosen by number, added to those of each token."""
    a, table, ids = n.f32(0), n.f32(1), n.plain(2)
    flat = n.b.reshape(n.b.cont(ids), (ids.ne[0] * ids.ne[1],))
    index = n.emit("to_index", flat, size=table.ne[1], wrap=False)
    rows = n.b.reshape(n.emit("get_rows", table, index), (table.ne[0], ids.ne[0], ids.ne[1]))
    return n.emit("add", a, rows)


@translates(*_UNARY)
def function(n: Node) -> Value:
    """A function with an op of its own."""
    return n.emit(_UNARY[n.op], n.f32(0))


@translates("UNARY")
def unary(n: Node) -> Value:
    """One of the activations."""
    name = n.translator.names.unary(n.i32(0))
    if name not in ACTIVATIONS:
        raise UnsupportedError(f"activation {name}")
    return ACTIVATIONS[name](n.b, n.f32(0))


@translates("LEAKY_RELU")
def leaky_relu(n: Node) -> Value:
    """With its slope."""
    return n.emit("leaky_relu", n.f32(0), negative_slope=n.f32_param(0))


@translates("SCALE")
def scale(n: Node) -> Value:
    """``a * s + b``."""
    return n.emit("scale_bias", n.f32(0), s=n.f32_param(0), b=n.f32_param(1))


@translates("CLAMP")
def clamp(n: Node) -> Value:
    """Between two numbers."""
    return n.emit("clamp", n.f32(0), min=n.f32_param(0), max=n.f32_param(1))


@translates("FILL")
def fill(n: Node) -> Value:
    """One number everywhere."""
    return n.b.fill(n.ne, n.f32_param(0), n.dtype())


@translates("GLU")
def glu(n: Node) -> Value:
    """An activation of one half of each row, or of a tensor, times the other."""
    name = n.translator.names.glu(n.i32(0))
    x, gate = _halves(n)
    if name == "SWIGLU_OAI":
        return _swiglu_oai(n, x, gate)
    if name not in _GATES:
        raise UnsupportedError(f"gate {name}")
    return n.emit("mul", ACTIVATIONS[_GATES[name]](n.b, x), gate)


def _halves(n: Node) -> tuple[Value, Value]:
    x = n.f32(0)
    if n.has(1):
        return x, n.f32(1)
    half = (x.ne[0] // 2, *x.ne[1:])
    first, second = n.b.view(x, (0, 0, 0, 0), half), n.b.view(x, (half[0], 0, 0, 0), half)
    return (second, first) if n.i32(1) else (first, second)


def _swiglu_oai(n: Node, x: Value, gate: Value) -> Value:
    alpha, limit = n.f32_param(2), n.f32_param(3)
    x = n.emit("clamp", x, min=-_INF, max=limit)
    gate = n.emit("clamp", gate, min=-limit, max=limit)
    turned = n.emit("sigmoid", n.emit("scale_bias", x, s=alpha, b=0.0))
    return n.emit("mul", n.emit("mul", x, turned), n.emit("scale_bias", gate, s=1.0, b=1.0))
