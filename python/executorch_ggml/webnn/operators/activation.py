"""Activation functions, clamping and the linear function, element by element."""

from __future__ import annotations

import math

from ..data_types import FLOATS
from .shapes import Shape
from .spec import ANY, SIGNED, Call, Number, Real, Same, Tensor, operator
from .unary import same_shape

_INPUT = Tensor("input", FLOATS)
_OUTPUT = Tensor("output", Same("input"), Same("input"))

_FUNCTIONS = {
    "gelu": (FLOATS, "``0.5 * x * (1 + erf(x / sqrt(2)))``."),
    "hardSwish": (FLOATS, "``x * max(0, min(6, x + 3)) / 6``."),
    "relu": (SIGNED, "``max(0, x)``."),
    "sigmoid": (FLOATS, "``1 / (exp(-x) + 1)``."),
    "softplus": (FLOATS, "``log(1 + exp(x))``."),
    "softsign": (FLOATS, "``x / (1 + abs(x))``."),
    "tanh": (FLOATS, "Hyperbolic tangent."),
}
for _name, (_types, _doc) in _FUNCTIONS.items():
    same_shape(_name, _types, _doc)


@operator("elu", _INPUT, Real("alpha", 1.0), outputs=_OUTPUT)
def elu(call: Call) -> Shape:
    """``max(0, x) + alpha * (exp(min(0, x)) - 1)``."""
    return call.shape("input")


@operator("hardSigmoid", _INPUT, Real("alpha", 0.2), Real("beta", 0.5), outputs=_OUTPUT)
def hard_sigmoid(call: Call) -> Shape:
    """``max(0, min(1, alpha * x + beta))``."""
    return call.shape("input")


@operator("leakyRelu", _INPUT, Real("alpha", 0.01), outputs=_OUTPUT)
def leaky_relu(call: Call) -> Shape:
    """``max(0, x) + alpha * min(0, x)``."""
    return call.shape("input")


@operator("linear", _INPUT, Real("alpha", 1.0), Real("beta", 0.0), outputs=_OUTPUT)
def linear(call: Call) -> Shape:
    """``alpha * x + beta``."""
    return call.shape("input")


@operator("clamp", Tensor("input", ANY), Number("min_value", -math.inf), Number("max_value", math.inf), outputs=_OUTPUT)
def clamp(call: Call) -> Shape:
    """Limited to ``min_value`` from below and ``max_value`` from above; NaN is no limit."""
    for name, none in (("min_value", -math.inf), ("max_value", math.inf)):
        if math.isnan(call[name]):
            call.options[name] = none
    if call["min_value"] > call["max_value"]:
        call.fail("min_value", f"at most max_value, {call['max_value']}")
    return call.shape("input")
