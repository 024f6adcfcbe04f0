"""Comparisons, selection, casts, reductions, integers. What could trap in integer arithmetic is checked."""

from __future__ import annotations

import math
from collections.abc import Callable

import mlx.core as mx
import numpy as np

from ....ir.dtypes import DType
from ....ir.graph import Node
from ....ir.ops.custom import BinaryKind, ReduceKind, UnaryKind
from ..registry import MLX_TYPES, Function, direct, planned, require, shape_of

Pair = Callable[[mx.array, mx.array], mx.array]


def is_float(a: mx.array) -> bool:
    """Whether it is an array of floats."""
    return bool(mx.issubdtype(a.dtype, mx.floating))


# ---------------------------------------------------------------------------------------------------------- functions


def _erfc(x: mx.array) -> mx.array:
    """Complement of erf, right to the last digits also where it is tiny (Numerical Recipes, erfcc)."""
    z = mx.abs(x)
    t = 1 / (1 + 0.5 * z)
    series = mx.zeros_like(t)
    for factor in _ERFC:
        series = series * t + factor
    y = t * mx.exp(-z * z + series)
    return mx.where(x < 0, 2 - y, y)


_ERFC = (
    *(0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418, 0.37409196, 1.00002368),
    -1.26551223,
)

_UNARY: dict[UnaryKind, Callable[[mx.array], mx.array]] = {
    UnaryKind.RSQRT: mx.rsqrt,
    UnaryKind.RECIPROCAL: mx.reciprocal,
    UnaryKind.ERF: mx.erf,
    UnaryKind.LOG1P: mx.log1p,
    UnaryKind.ROUND: mx.round,
    UnaryKind.LOGICAL_NOT: mx.logical_not,
    UnaryKind.ISNAN: mx.isnan,
    UnaryKind.ISINF: mx.isinf,
    UnaryKind.NEG: mx.negative,
    UnaryKind.ABS: mx.abs,
    UnaryKind.BITWISE_NOT: mx.bitwise_invert,
    UnaryKind.TAN: mx.tan,
    UnaryKind.ATAN: mx.arctan,
    UnaryKind.SIGN: mx.sign,
    UnaryKind.ACOS: mx.arccos,
    UnaryKind.ACOSH: mx.arccosh,
    UnaryKind.ASIN: mx.arcsin,
    UnaryKind.ASINH: mx.arcsinh,
    UnaryKind.ATANH: mx.arctanh,
    UnaryKind.COSH: mx.cosh,
    UnaryKind.SINH: mx.sinh,
    UnaryKind.LOG2: mx.log2,
    UnaryKind.LOG10: mx.log10,
    UnaryKind.EXP2: lambda a: mx.power(2.0, a),
    UnaryKind.SIGNBIT: lambda a: a.view(mx.int32) < 0,
    UnaryKind.ERFC: _erfc,
    UnaryKind.ROUND_F16: lambda a: a.astype(mx.float16).astype(mx.float32),
    UnaryKind.ROUND_BF16: lambda a: a.astype(mx.bfloat16).astype(mx.float32),
}


def _unary_refused(node: Node) -> str | None:
    kind = UnaryKind(node.attrs["kind"])
    a = node.inputs[0]
    assert a is not None
    if kind not in _UNARY:
        return f"MLX has no {kind.name.lower()}"
    if kind == UnaryKind.SIGNBIT and a.dtype != DType.F32:
        return f"{kind.name.lower()} of {a.dtype.name.lower()}"
    return None


@planned(refuses=_unary_refused)
def unary(node: Node) -> Function:
    """An elementwise function."""
    return _UNARY[UnaryKind(node.attrs["kind"])]


def _divisor(a: mx.array, b: mx.array) -> mx.array:
    """An integer divisor that does not trap: 0 fails the run."""
    require(mx.all(b != 0), ZeroDivisionError("mlx: division by zero"))
    return mx.where((b == 0) | (b == -1), 1, b)


def _floor_divide(a: mx.array, b: mx.array) -> mx.array:
    if not is_float(a):
        return mx.where(b == -1, -a, mx.floor_divide(a, _divisor(a, b)))
    rest = _fmod(a, b)
    quotient = (a - rest) / b
    quotient = mx.where((rest != 0) & ((b < 0) != (rest < 0)), quotient - 1, quotient)
    whole = mx.floor(quotient)
    whole = mx.where(quotient - whole > 0.5, whole + 1, whole)
    whole = mx.where(quotient == 0, mx.where((a < 0) != (b < 0), -0.0, 0.0), whole)
    return mx.where(b == 0, a / b, whole)


def _trunc_divide(a: mx.array, b: mx.array) -> mx.array:
    divisor = _divisor(a, b)
    quotient = mx.floor_divide(a, divisor)
    exact = quotient * divisor == a
    quotient = mx.where(~exact & ((a < 0) != (divisor < 0)), quotient + 1, quotient)
    return mx.where(b == -1, -a, quotient)


def _remainder(a: mx.array, b: mx.array) -> mx.array:
    """Of the divisor's sign."""
    if not is_float(a):
        return mx.where(b == -1, 0, mx.remainder(a, _divisor(a, b)))
    rest = _fmod(a, b)
    return mx.where((rest != 0) & ((b < 0) != (rest < 0)), rest + b, rest)


def _fmod(a: mx.array, b: mx.array) -> mx.array:
    """Of the dividend's sign."""
    if not is_float(a):
        return a - _trunc_divide(a, b) * b
    rest = mx.remainder(mx.abs(a), mx.abs(b))
    return mx.where(a < 0, -rest, rest)


def _power(a: mx.array, b: mx.array) -> mx.array:
    if is_float(a):
        return mx.power(a, b)
    inverse = mx.where(a == 1, 1, mx.where(a == -1, 1 - 2 * (b & 1), 0))
    return mx.where(b < 0, inverse, mx.power(a, mx.maximum(b, 0))).astype(a.dtype)


def _hypot(a: mx.array, b: mx.array) -> mx.array:
    a, b = mx.abs(a), mx.abs(b)
    large, small = mx.maximum(a, b), mx.minimum(a, b)
    ratio = mx.where(large == 0, 0.0, small / large)
    y = large * mx.sqrt(1 + ratio * ratio)
    return mx.where(mx.isinf(a) | mx.isinf(b), mx.inf, y)


def _shift(left: bool) -> Pair:
    def shift(a: mx.array, b: mx.array) -> mx.array:
        bits = a.itemsize * 8
        wide = (b < 0) | (b >= bits)
        if left:
            return mx.where(wide, 0, mx.left_shift(a, mx.where(wide, 0, b)))
        return mx.right_shift(a, mx.where(wide, bits - 1, b))

    return shift


_BINARY: dict[BinaryKind, Pair] = {
    BinaryKind.MAXIMUM: mx.maximum,
    BinaryKind.MINIMUM: mx.minimum,
    BinaryKind.POW: _power,
    BinaryKind.FLOOR_DIVIDE: _floor_divide,
    BinaryKind.REMAINDER: _remainder,
    BinaryKind.FMOD: _fmod,
    BinaryKind.BITWISE_AND: mx.bitwise_and,
    BinaryKind.BITWISE_OR: mx.bitwise_or,
    BinaryKind.BITWISE_XOR: mx.bitwise_xor,
    BinaryKind.EQ: mx.equal,
    BinaryKind.NE: mx.not_equal,
    BinaryKind.LT: mx.less,
    BinaryKind.LE: mx.less_equal,
    BinaryKind.GT: mx.greater,
    BinaryKind.GE: mx.greater_equal,
    BinaryKind.LOGICAL_AND: mx.logical_and,
    BinaryKind.LOGICAL_OR: mx.logical_or,
    BinaryKind.LOGICAL_XOR: lambda a, b: (a != 0) != (b != 0),
    BinaryKind.ADD: mx.add,
    BinaryKind.SUB: mx.subtract,
    BinaryKind.MUL: mx.multiply,
    BinaryKind.DIV: mx.divide,
    BinaryKind.ATAN2: mx.arctan2,
    BinaryKind.HYPOT: _hypot,
    BinaryKind.SHIFT_LEFT: _shift(left=True),
    BinaryKind.SHIFT_RIGHT: _shift(left=False),
    BinaryKind.TRUNC_DIVIDE: _trunc_divide,
}


@planned(checks=True)
def binary(node: Node) -> Function:
    """An elementwise function of two arrays."""
    return _BINARY[BinaryKind(node.attrs["kind"])]


@direct()
def select(condition: mx.array, a: mx.array, b: mx.array) -> mx.array:
    """``a`` where the condition holds, else ``b``."""
    return mx.where(condition, a, b)


@direct()
def convert(a: mx.array, *, dtype: DType) -> mx.array:
    """As another type: floats to the nearest, to small integers by way of i64, as torch does."""
    if is_float(a) and dtype in (DType.I8, DType.I16, DType.U8):
        a = a.astype(mx.int64)
    return a.astype(MLX_TYPES[dtype])


# --------------------------------------------------------------------------------------------------------- reductions


def extremes(dtype: mx.Dtype) -> tuple[float, float]:
    """The least and the largest of a type."""
    if mx.issubdtype(dtype, mx.floating):
        return -math.inf, math.inf
    if dtype == mx.bool_:
        return 0, 1
    info = mx.iinfo(dtype)
    return info.min, info.max


def _extreme_place(a: mx.array, axis: int, largest: bool) -> mx.array:
    """The first place of the largest or least; a NaN is either."""
    find = mx.argmax if largest else mx.argmin
    if not is_float(a):
        return find(a, axis=axis, keepdims=True)
    nan = mx.isnan(a)
    least, most = extremes(a.dtype)
    place = find(mx.where(nan, least if largest else most, a), axis=axis, keepdims=True)
    first_nan = mx.argmax(nan.astype(mx.int32), axis=axis, keepdims=True)
    return mx.where(mx.any(nan, axis=axis, keepdims=True), first_nan, place)


def _extreme(a: mx.array, axes: list[int], largest: bool) -> mx.array:
    return (mx.max if largest else mx.min)(a, axis=axes, keepdims=True)


@planned()
def reduce(node: Node) -> Function:
    """Some dims reduced to size 1; sums and products in the array's own type."""
    kind = ReduceKind(node.attrs["kind"])
    axes = sorted(3 - axis for axis in node.attrs["axes"])
    dtype = MLX_TYPES[node.output.dtype]
    functions: dict[ReduceKind, Function] = {
        ReduceKind.SUM: lambda a: mx.sum(a, axis=axes, keepdims=True),
        ReduceKind.MEAN: lambda a: mx.mean(a, axis=axes, keepdims=True),
        ReduceKind.MAX: lambda a: _extreme(a, axes, largest=True),
        ReduceKind.MIN: lambda a: _extreme(a, axes, largest=False),
        ReduceKind.PROD: lambda a: mx.prod(a, axis=axes, keepdims=True),
        ReduceKind.ANY: lambda a: mx.any(a != 0, axis=axes, keepdims=True),
        ReduceKind.ALL: lambda a: mx.all(a != 0, axis=axes, keepdims=True),
        ReduceKind.ARGMAX: lambda a: _extreme_place(a, axes[0], largest=True),
        ReduceKind.ARGMIN: lambda a: _extreme_place(a, axes[0], largest=False),
    }
    function = functions[kind]
    return lambda a: function(a).astype(dtype)


# ---------------------------------------------------------------------------------------------------- making, turning


@planned()
def iota(node: Node) -> Function:
    """``start + step * i`` along the innermost dim, counted in 64 bits."""
    shape = shape_of(node.output)
    numbers = node.attrs["start"] + node.attrs["step"] * np.arange(shape[-1], dtype=np.int64)
    row = mx.array(numbers).astype(MLX_TYPES[node.output.dtype])
    return lambda: mx.broadcast_to(row, shape)


@planned()
def fill(node: Node) -> Function:
    """One value everywhere."""
    dtype = node.output.dtype
    number = node.attrs["value"] if dtype.is_floating else int(node.attrs["integer"])
    one, shape = mx.array(number, dtype=MLX_TYPES[dtype]), shape_of(node.output)
    return lambda: mx.broadcast_to(one, shape)


@direct()
def rotary(x: mx.array, cos: mx.array, sin: mx.array, *, interleaved: bool) -> mx.array:
    """``x * cos + rotated(x) * sin``, rows rotated by halves or by pairs of neighbours."""
    if interleaved:
        rotated = mx.stack([-x[..., 1::2], x[..., ::2]], axis=-1).reshape(x.shape)
    else:
        half = x.shape[-1] // 2
        rotated = mx.concatenate([-x[..., half:], x[..., :half]], axis=-1)
    return x * cos + rotated * sin
