"""Elementwise functions of f32, NaN kept; sums and products of integers wrap."""

from __future__ import annotations

import math
from collections.abc import Callable

import mlx.core as mx

from ....ir.graph import Node
from ..registry import Function, direct, register


def _same(function: Function) -> Callable[[Node], Function]:
    return lambda node: function


def gelu_tanh(a: mx.array) -> mx.array:
    """GELU, tanh form."""
    return 0.5 * a * (1 + mx.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a * a * a)))


def gelu_exact(a: mx.array) -> mx.array:
    """GELU, exact form."""
    return 0.5 * a * (1 + mx.erf(a * math.sqrt(0.5)))


def silu_of(a: mx.array) -> mx.array:
    """``a * sigmoid(a)``."""
    return a * mx.sigmoid(a)


def hard_sigmoid(a: mx.array) -> mx.array:
    """``relu6(a + 3) / 6``."""
    return mx.clip(a + 3, 0, 6) / 6


def hard_swish(a: mx.array) -> mx.array:
    """``a * relu6(a + 3) / 6``."""
    return a * mx.clip(a + 3, 0, 6) / 6


def elu_of(a: mx.array) -> mx.array:
    """``a`` where positive, else ``exp(a) - 1``."""
    return mx.where(a > 0, a, mx.expm1(a))


def relu_of(a: mx.array) -> mx.array:
    """``max(a, 0)``, NaN kept."""
    return mx.maximum(a, 0)


def softplus_of(a: mx.array) -> mx.array:
    """``log(1 + exp(a))``."""
    return mx.logaddexp(a, mx.zeros((), a.dtype))


def _gated(activation: Function) -> Function:
    def gated(a: mx.array, b: mx.array) -> mx.array:
        return activation(a) * b

    gated.__doc__ = f"{activation.__doc__} Times ``b``."
    return gated


_FUNCTIONS: dict[str, Function] = {
    "add": mx.add,
    "sub": mx.subtract,
    "mul": mx.multiply,
    "div": mx.divide,
    "sqr": mx.square,
    "sqrt": mx.sqrt,
    "log": mx.log,
    "sin": mx.sin,
    "cos": mx.cos,
    "abs": mx.abs,
    "sgn": mx.sign,
    "neg": mx.negative,
    "tanh": mx.tanh,
    "elu": elu_of,
    "relu": relu_of,
    "sigmoid": mx.sigmoid,
    "gelu": gelu_tanh,
    "gelu_erf": gelu_exact,
    "silu": silu_of,
    "hardswish": hard_swish,
    "hardsigmoid": hard_sigmoid,
    "exp": mx.exp,
    "expm1": mx.expm1,
    "softplus": softplus_of,
    "floor": mx.floor,
    "ceil": mx.ceil,
    "trunc": mx.trunc,
    "swiglu_split": _gated(silu_of),
    "geglu_split": _gated(gelu_tanh),
    "geglu_erf_split": _gated(gelu_exact),
}
for _name, _function in _FUNCTIONS.items():
    register(_name, _same(_function))


@direct()
def leaky_relu(a: mx.array, *, negative_slope: float) -> mx.array:
    """``a`` where positive, else ``negative_slope * a``."""
    return mx.where(a > 0, a, a * negative_slope)


@direct()
def scale_bias(a: mx.array, *, s: float, b: float) -> mx.array:
    """``a * s + b``."""
    return a * s + b if b else a * s


@direct()
def clamp(a: mx.array, *, min: float, max: float) -> mx.array:
    """``a`` limited to [min, max], NaN kept."""
    return mx.clip(a, min, max)
