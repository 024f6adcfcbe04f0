"""Elementwise ATen ops: arithmetic, comparisons, logic, activations, selection and casts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import executorch.exir.passes.dim_order_ops_registry  # noqa: F401 - declares the dim_order_ops
import torch

from ....ir.dims import ne_of, same_dims
from ....ir.dtypes import DType
from ....ir.formulas import broadcasts_to, holds
from ....ir.graph import IRError, Value
from ....ir.layout import unbroadcast
from ....ir.ops.custom import BinaryKind, UnaryKind
from ..context import FLOATS, NARROW, Context, Tensor, compute_type
from ..layout import aligned
from ..registry import Refused, lowers

aten = torch.ops.aten
dim_order_ops = torch.ops.dim_order_ops

# ggml builders with the broadcasting rule "b over a", by what they compute.
_GGML_BINARY = {BinaryKind.ADD: "add", BinaryKind.SUB: "sub", BinaryKind.MUL: "mul", BinaryKind.DIV: "div"}
_COMMUTATIVE = frozenset({BinaryKind.ADD, BinaryKind.MUL})


def combine(cx: Context, kind: BinaryKind, a: Tensor, b: Tensor) -> Value:
    """A function of two tensors of one type, broadcast both ways; ggml's own builder where its rule fits."""
    values, target = aligned(cx.builder, [a, b], cx.shape())
    x, y = (unbroadcast(value) for value in values)
    return cx.builder.broadcast(_combined(cx, kind, x, y), target)


def _combined(cx: Context, kind: BinaryKind, x: Value, y: Value) -> Value:
    name = _GGML_BINARY.get(kind)
    if (
        name is not None
        and x.dtype in (DType.F32, DType.I32, DType.I64)
        and (kind != BinaryKind.DIV or x.dtype == DType.F32)
    ):
        if holds(broadcasts_to, y.ne, x.ne) and _covers(x, y):
            return cx.builder.emit(name, x, y)
        if kind in _COMMUTATIVE and holds(broadcasts_to, x.ne, y.ne) and _covers(y, x):
            return cx.builder.emit(name, y, x)
    return cx.builder.emit("binary", x, y, kind=kind)


def _covers(a: Value, b: Value) -> bool:
    """Whether every dim of ``b`` is provably ``a``'s or 1, whatever the symbols' values."""
    return all(same_dims([n], [m]) or (isinstance(n, int) and n == 1) for m, n in zip(a.ne, b.ne, strict=True))


def arithmetic(cx: Context, kind: BinaryKind, a: Any, b: Any) -> Tensor:
    """Compute in the type that stands for the result's, and give that one back: wider types round or wrap to it."""
    result = cx.dtype()
    compute = compute_type(result)
    if result == DType.BOOL and kind == BinaryKind.MUL:
        kind = BinaryKind.BITWISE_AND
    if kind not in _GGML_BINARY or result not in FLOATS:
        a, b = _rounded(cx, a, result), _rounded(cx, b, result)
    value = combine(cx, kind, cx.tensor(a, compute), cx.tensor(b, compute))
    return Tensor(cx.builder.convert(cx.out(value).value, result), cx.shape())


def _rounded(cx: Context, operand: Any, dtype: DType) -> Any:
    """An operand with no more digits than the type has: torch casts to it first, but for ``+ - * /`` of floats."""
    if isinstance(operand, Tensor):
        return cx.tensor(operand, dtype) if dtype in (DType.F16, DType.BF16) or dtype in NARROW else operand
    return torch.tensor(operand).to(dtype.torch).item() if isinstance(operand, (bool, int, float)) else operand


def _promoted(a: Any, b: Any) -> DType:
    """The type that torch compares two operands in."""

    def stand_in(operand: Any) -> Any:
        if isinstance(operand, Tensor):
            return torch.empty((1,) * min(operand.rank, 1), dtype=operand.dtype.torch)
        return operand if isinstance(operand, (int, float, bool)) else 0

    dtype = DType.from_torch(torch.result_type(stand_in(a), stand_in(b)))
    if dtype is None or dtype == DType.F64:
        raise IRError("comparing in float64 is left to ExecuTorch")
    return dtype


def compare(cx: Context, kind: BinaryKind, a: Any, b: Any) -> Tensor:
    """A comparison or logical function: operands promoted as torch does, result bool."""
    dtype = _promoted(a, b)
    a, b = _rounded(cx, a, dtype), _rounded(cx, b, dtype)
    compute = compute_type(dtype)
    return cx.out(combine(cx, kind, cx.tensor(a, compute), cx.tensor(b, compute)))


def _register_binary() -> None:
    arithmetics = {
        BinaryKind.MAXIMUM: (aten.maximum.default,),
        BinaryKind.MINIMUM: (aten.minimum.default,),
        BinaryKind.ATAN2: (aten.atan2.default,),
        BinaryKind.HYPOT: (aten.hypot.default,),
        BinaryKind.REMAINDER: (aten.remainder.Tensor, aten.remainder.Scalar, aten.remainder.Scalar_Tensor),
        BinaryKind.FMOD: (aten.fmod.Tensor, aten.fmod.Scalar),
        BinaryKind.BITWISE_AND: (aten.bitwise_and.Tensor, aten.bitwise_and.Scalar),
        BinaryKind.BITWISE_OR: (aten.bitwise_or.Tensor, aten.bitwise_or.Scalar),
        BinaryKind.BITWISE_XOR: (aten.bitwise_xor.Tensor, aten.bitwise_xor.Scalar),
        BinaryKind.SHIFT_LEFT: (
            aten.bitwise_left_shift.Tensor,
            aten.bitwise_left_shift.Tensor_Scalar,
            aten.__lshift__.Tensor,
            aten.__lshift__.Scalar,
        ),
        BinaryKind.SHIFT_RIGHT: (
            aten.bitwise_right_shift.Tensor,
            aten.bitwise_right_shift.Tensor_Scalar,
            aten.__rshift__.Tensor,
            aten.__rshift__.Scalar,
        ),
    }
    comparisons = {
        BinaryKind.EQ: (aten.eq.Tensor, aten.eq.Scalar),
        BinaryKind.NE: (aten.ne.Tensor, aten.ne.Scalar),
        BinaryKind.LT: (aten.lt.Tensor, aten.lt.Scalar),
        BinaryKind.LE: (aten.le.Tensor, aten.le.Scalar),
        BinaryKind.GT: (aten.gt.Tensor, aten.gt.Scalar),
        BinaryKind.GE: (aten.ge.Tensor, aten.ge.Scalar),
        BinaryKind.LOGICAL_AND: (aten.logical_and.default,),
        BinaryKind.LOGICAL_OR: (aten.logical_or.default,),
        BinaryKind.LOGICAL_XOR: (aten.logical_xor.default,),
    }
    for table, function in ((arithmetics, arithmetic), (comparisons, compare)):
        for kind, overloads in table.items():

            def lower(cx: Context, a: Any, b: Any, kind: BinaryKind = kind, function: Any = function) -> Tensor:
                made: Tensor = function(cx, kind, a, b)
                return made

            lower.__doc__ = f"``{kind.name.lower()}(a, b)``."

            lowers(*overloads)(lower)


_register_binary()


def _scaled(cx: Context, b: Any, alpha: Any) -> Any:
    """``alpha * b``, in the result's type."""
    if alpha == 1:
        return b
    if isinstance(b, Tensor):
        compute = compute_type(cx.dtype())
        factor = cx.builder.scalar(_rounded(cx, alpha, compute), compute)
        return Tensor(cx.builder.emit("mul", cx.builder.convert(b.value, compute), factor), b.shape)
    return b * alpha


@lowers(aten.mul.Tensor, aten.mul.Scalar)
def mul(cx: Context, a: Tensor, b: Any) -> Tensor:
    """``a * b``; with a number one node."""
    number = _number(b)
    if number is not None and cx.dtype() in FLOATS:
        return _affine(cx, a, number, -0.0)  # adding -0.0 changes nothing, not even a zero's sign
    return arithmetic(cx, BinaryKind.MUL, a, b)


@lowers(aten.add.Tensor, aten.add.Scalar)
def add(cx: Context, a: Tensor, b: Any, alpha: Any = 1) -> Tensor:
    """``a + alpha * b``."""
    if cx.dtype() == DType.BOOL:
        return arithmetic(cx, BinaryKind.BITWISE_OR, a, b)
    number = _number(b)
    if number is not None and cx.dtype() in FLOATS:
        return _affine(cx, a, 1.0, number * alpha)
    if number == 0 and _is_same_as_output(cx, a):  # `arange(n) + 0` in models of transformers
        return a
    return arithmetic(cx, BinaryKind.ADD, a, _scaled(cx, b, alpha))


@lowers(aten.sub.Tensor, aten.sub.Scalar)
def sub(cx: Context, a: Tensor, b: Any, alpha: Any = 1) -> Tensor:
    """``a - alpha * b``."""
    number = _number(b)
    if number is not None and cx.dtype() in FLOATS:
        return _affine(cx, a, 1.0, -number * alpha)
    if number == 0 and _is_same_as_output(cx, a):
        return a
    return arithmetic(cx, BinaryKind.SUB, a, _scaled(cx, b, alpha))


@lowers(aten.rsub.Scalar, aten.rsub.Tensor, preserve=True)
def rsub(cx: Context, a: Tensor, b: Any, alpha: Any = 1) -> Tensor:
    """``b - alpha * a``; kept whole, since Edge makes the number of its decomposition an int64 tensor that promotes."""
    number = _number(b)
    if number is not None and cx.dtype() in FLOATS:
        return _affine(cx, a, -float(alpha), number)
    return arithmetic(cx, BinaryKind.SUB, b, _scaled(cx, a, alpha))


def _is_same_as_output(cx: Context, a: Tensor) -> bool:
    """Whether an operand has the output's dtype and shape: nothing is promoted or broadcast."""
    return a.dtype == cx.dtype() and same_dims(a.shape, cx.shape())


def _number(operand: Any) -> float | None:
    """A Python number, or the one that a constant scalar holds: Edge programs carry most numbers as such."""
    if isinstance(operand, Tensor):
        operand = operand.number
    return float(operand) if isinstance(operand, (int, float)) and not isinstance(operand, bool) else None


def _affine(cx: Context, a: Tensor, s: float, b: float) -> Tensor:
    """``a * s + b`` in one node, or in none."""
    same_values = s == 1.0 and b == 0.0 and math.copysign(1.0, b) < 0
    if same_values and _is_same_as_output(cx, a):
        return a
    return _unary(cx, a, "scale_bias", s=s, b=b)


@lowers(aten.div.Tensor, aten.div.Scalar)
def div(cx: Context, a: Any, b: Any) -> Tensor:
    """True division."""
    return arithmetic(cx, BinaryKind.DIV, a, b)


@lowers(aten.div.Tensor_mode, aten.div.Scalar_mode)
def div_mode(cx: Context, a: Any, b: Any, rounding_mode: str | None = None) -> Tensor:
    """Division rounded towards zero or down."""
    if rounding_mode is None:
        return arithmetic(cx, BinaryKind.DIV, a, b)
    if rounding_mode == "floor":
        return arithmetic(cx, BinaryKind.FLOOR_DIVIDE, a, b)
    if cx.dtype() in FLOATS:
        quotient = arithmetic(cx, BinaryKind.DIV, a, b)
        return _unary(cx, quotient, "trunc")
    return arithmetic(cx, BinaryKind.TRUNC_DIVIDE, a, b)


@lowers(aten.floor_divide.default, aten.floor_divide.Scalar)
def floor_divide(cx: Context, a: Any, b: Any) -> Tensor:
    """Division rounded down."""
    return arithmetic(cx, BinaryKind.FLOOR_DIVIDE, a, b)


@lowers(aten.pow.Tensor_Tensor, aten.pow.Scalar)
def power(cx: Context, a: Any, b: Any) -> Tensor:
    """``a ** b``."""
    return arithmetic(cx, BinaryKind.POW, a, b)


@lowers(aten.pow.Tensor_Scalar)
def pow_scalar(cx: Context, a: Tensor, exponent: float) -> Tensor:
    """``a ** exponent``; the common exponents have nodes of their own."""
    if cx.dtype() in FLOATS and a.dtype in FLOATS:
        if exponent == 2:
            return _unary(cx, a, "sqr")
        if exponent == 0.5 and cx.dtype() != DType.F16:  # of -inf, which torch takes the root of but in f16
            return _unary(cx, a, "sqrt")
        if exponent == -0.5 and cx.dtype() != DType.F16:
            return _custom(cx, a, UnaryKind.RSQRT)
        if exponent == -1:
            return _custom(cx, a, UnaryKind.RECIPROCAL)
    return arithmetic(cx, BinaryKind.POW, a, exponent)


# --------------------------------------------------------------------------------------------------------- one operand


def _unary(cx: Context, a: Tensor, op: str, **attrs: Any) -> Tensor:
    """A ggml float function; integers are promoted, half types computed in f32."""
    result = cx.builder.emit(op, cx.f32(a).value, **attrs)
    return Tensor(cx.builder.convert(result, cx.dtype()), cx.shape())


_OF_ANY_TYPE = frozenset(
    {
        UnaryKind.NEG,
        UnaryKind.ABS,
        UnaryKind.SIGN,
        UnaryKind.LOGICAL_NOT,
        UnaryKind.BITWISE_NOT,
    }
)


def _custom(cx: Context, a: Tensor, kind: UnaryKind) -> Tensor:
    """A function of the custom unary node."""
    x = (cx.tensor(a, compute_type(a.dtype)) if kind in _OF_ANY_TYPE else cx.f32(a)).value
    return Tensor(cx.builder.convert(cx.builder.emit("unary", x, kind=kind), cx.dtype()), cx.shape())


_GGML_UNARY = {
    "sqrt": (aten.sqrt.default,),
    "log": (aten.log.default,),
    "sin": (aten.sin.default,),
    "cos": (aten.cos.default,),
    "tanh": (aten.tanh.default,),
    "sigmoid": (aten.sigmoid.default,),
    "exp": (aten.exp.default,),
    "expm1": (aten.expm1.default,),
    "floor": (aten.floor.default,),
    "ceil": (aten.ceil.default,),
    "trunc": (aten.trunc.default,),
    "hardsigmoid": (aten.hardsigmoid.default,),
}
_CUSTOM_UNARY = {
    UnaryKind.RSQRT: (aten.rsqrt.default,),
    UnaryKind.RECIPROCAL: (aten.reciprocal.default,),
    UnaryKind.ERF: (aten.erf.default,),
    UnaryKind.LOG1P: (aten.log1p.default,),
    UnaryKind.ROUND: (aten.round.default,),
    UnaryKind.LOGICAL_NOT: (aten.logical_not.default,),
    UnaryKind.ISNAN: (aten.isnan.default,),
    UnaryKind.ISINF: (aten.isinf.default,),
    UnaryKind.BITWISE_NOT: (aten.bitwise_not.default,),
    UnaryKind.TAN: (aten.tan.default,),
    UnaryKind.ATAN: (aten.atan.default,),
    UnaryKind.ACOS: (aten.acos.default,),
    UnaryKind.ACOSH: (aten.acosh.default,),
    UnaryKind.ASIN: (aten.asin.default,),
    UnaryKind.ASINH: (aten.asinh.default,),
    UnaryKind.ATANH: (aten.atanh.default,),
    UnaryKind.COSH: (aten.cosh.default,),
    UnaryKind.SINH: (aten.sinh.default,),
    UnaryKind.LOG2: (aten.log2.default,),
    UnaryKind.LOG10: (aten.log10.default,),
    UnaryKind.EXP2: (aten.exp2.default,),
    UnaryKind.SIGNBIT: (aten.signbit.default,),
    UnaryKind.ERFC: (aten.erfc.default,),
    UnaryKind.LGAMMA: (aten.lgamma.default,),
}
# Functions that ggml has for floats and the custom node for integers.
_BOTH_UNARY = {
    "neg": (UnaryKind.NEG, (aten.neg.default,)),
    "abs": (UnaryKind.ABS, (aten.abs.default,)),
    "sgn": (UnaryKind.SIGN, (aten.sign.default, aten.sgn.default)),
}
_ROUNDING = frozenset({"floor", "ceil", "trunc"})


def _register_unary() -> None:
    for op, overloads in _GGML_UNARY.items():

        def lower(cx: Context, a: Tensor, op: str = op) -> Tensor:
            return a if op in _ROUNDING and not a.dtype.is_floating else _unary(cx, a, op)

        preserve = op == "hardsigmoid"
        lower.__doc__ = f"Elementwise {op}."
        lowers(*overloads, preserve=preserve)(lower)
    for kind, targets in _CUSTOM_UNARY.items():

        def lower_custom(cx: Context, a: Tensor, kind: UnaryKind = kind) -> Tensor:
            if kind == UnaryKind.ROUND and not a.dtype.is_floating:
                return a
            return _custom(cx, a, kind)

        lower_custom.__doc__ = f"Elementwise {kind.name.lower()}."
        lowers(*targets)(lower_custom)
    for op, (kind, both) in _BOTH_UNARY.items():

        def lower_both(cx: Context, a: Tensor, op: str = op, kind: UnaryKind = kind) -> Tensor:
            return _unary(cx, a, op) if a.dtype in FLOATS else _custom(cx, a, kind)

        lower_both.__doc__ = f"Elementwise {op}."
        lowers(*both)(lower_both)


_register_unary()


@lowers(aten.square.default)
def square(cx: Context, a: Tensor) -> Tensor:
    """``a * a``; integers wrap around."""
    return _unary(cx, a, "sqr") if a.dtype in FLOATS else arithmetic(cx, BinaryKind.MUL, a, a)


@lowers(aten.relu.default)
def relu(cx: Context, a: Tensor) -> Tensor:
    """``max(a, 0)``."""
    if a.dtype not in FLOATS:
        return arithmetic(cx, BinaryKind.MAXIMUM, a, 0)
    return _unary(cx, a, "relu")


@lowers(aten.silu.default, preserve=True)
def silu(cx: Context, a: Tensor) -> Tensor:
    """``a * sigmoid(a)``."""
    return _unary(cx, a, "silu")


@lowers(aten.hardswish.default, preserve=True)
def hardswish(cx: Context, a: Tensor) -> Tensor:
    """``a * relu6(a + 3) / 6``."""
    return _unary(cx, a, "hardswish")


@lowers(aten.gelu.default)
def gelu(cx: Context, a: Tensor, approximate: str = "none") -> Tensor:
    """GELU, exact or by tanh."""
    if approximate == "tanh":
        return _unary(cx, a, "gelu")
    return _unary(cx, a, "gelu_erf")


@lowers(aten.leaky_relu.default)
def leaky_relu(cx: Context, a: Tensor, negative_slope: float = 0.01) -> Tensor:
    """``a`` where positive, else ``negative_slope * a``."""
    return _unary(cx, a, "leaky_relu", negative_slope=float(negative_slope))


@lowers(aten.elu.default)
def elu(cx: Context, a: Tensor, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Tensor | Refused:
    """``scale * a`` where positive, else ``scale * alpha * (exp(input_scale * a) - 1)``."""
    if not all(map(math.isfinite, (alpha, scale, input_scale))):
        return Refused("elu with a parameter that is not finite")
    if (alpha, scale, input_scale) == (1.0, 1.0, 1.0):
        return _unary(cx, a, "elu")

    def formula(x: Value) -> Value:
        low = cx.builder.emit("expm1", _times(cx, x, input_scale))
        return _where_above(cx, x, 0.0, _times(cx, x, scale), _times(cx, low, alpha * scale))

    return _computed(cx, a, formula)


def _computed(cx: Context, a: Tensor, formula: Callable[[Value], Value]) -> Tensor:
    """A composite function of one tensor, in f32."""
    return Tensor(cx.builder.convert(formula(cx.builder.cont(cx.f32(a).value)), cx.dtype()), cx.shape())


def _times(cx: Context, x: Value, factor: float) -> Value:
    return x if factor == 1.0 else cx.builder.emit("scale_bias", x, s=float(factor), b=-0.0)


def _where_above(cx: Context, x: Value, bound: float, yes: Value, no: Value) -> Value:
    above = cx.builder.emit("binary", x, cx.builder.scalar(bound, DType.F32), kind=BinaryKind.GT)
    return cx.builder.emit("select", above, yes, no)


@lowers(aten.softplus.default, preserve=True)
def softplus(cx: Context, a: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """``log(1 + exp(beta * a)) / beta``, and ``a`` where ``beta * a`` is above the threshold."""

    def formula(x: Value) -> Value:
        grown = _times(cx, x, beta)
        made = cx.builder.emit("softplus", grown)  # beyond its own threshold, 20, it has no more digits to give
        if beta != 1:
            made = cx.builder.emit("div", made, cx.builder.scalar(beta, DType.F32))
        return made if threshold >= 20 else _where_above(cx, grown, threshold, x, made)

    return _computed(cx, a, formula)


@lowers(aten.hardtanh.default)
def hardtanh(cx: Context, a: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """``a`` limited to [min_val, max_val]."""
    return clamp(cx, a, min_val, max_val)


@lowers(aten.clamp.default)
def clamp(cx: Context, a: Tensor, min: float | None = None, max: float | None = None) -> Tensor:
    """``a`` limited to [min, max]."""
    if any(isinstance(bound, float) and math.isnan(bound) for bound in (min, max)):
        return _affine(cx, a, 1.0, math.nan)
    if cx.dtype() in FLOATS:
        low = -math.inf if min is None else float(min)
        high = math.inf if max is None else float(max)
        return _unary(cx, a, "clamp", min=low, max=high)
    return _between(cx, a, min, max)


@lowers(aten.clamp.Tensor)
def clamp_tensor(cx: Context, a: Tensor, min: Tensor | None = None, max: Tensor | None = None) -> Tensor:
    """``a`` limited by tensors, the upper one last."""
    return _between(cx, a, min, max)


def _between(cx: Context, a: Tensor, low: Any, high: Any) -> Tensor:
    for kind, bound in ((BinaryKind.MAXIMUM, low), (BinaryKind.MINIMUM, high)):
        if bound is not None:
            a = arithmetic(cx, kind, a, bound)
    return a


@lowers(aten.round.decimals)
def round_decimals(cx: Context, a: Tensor, *, decimals: int = 0) -> Tensor | Refused:
    """Rounded to a number of decimals, half to even; negative ones round to tens, hundreds ..."""
    if a.dtype not in FLOATS:
        return Refused("rounding integers to decimals")
    power = cx.builder.scalar(10.0 ** abs(decimals), DType.F32)
    first, last = ("mul", "div") if decimals >= 0 else ("div", "mul")

    def formula(x: Value) -> Value:
        whole = cx.builder.emit("unary", cx.builder.emit(first, x, power), kind=UnaryKind.ROUND)
        return cx.builder.emit(last, whole, power)

    return _computed(cx, a, formula)


@lowers(aten.copysign.Tensor, aten.copysign.Scalar)
def copysign(cx: Context, a: Tensor, b: Any) -> Tensor:
    """The magnitude of ``a`` with the sign of ``b``."""
    b = cx.f32(b) if isinstance(b, Tensor) else cx.tensor(b, DType.F32)
    sign = Tensor(cx.builder.emit("unary", b.value, kind=UnaryKind.SIGNBIT), b.shape)
    size = Tensor(cx.builder.emit("abs", cx.f32(a).value), a.shape)
    return where(cx, sign, Tensor(cx.builder.emit("neg", size.value), a.shape), size)


@lowers(aten.fmax.default)
def fmax(cx: Context, a: Tensor, b: Tensor) -> Tensor:
    """The larger one, or the one that is no NaN."""
    return _but_nan(cx, BinaryKind.MAXIMUM, a, b)


@lowers(aten.fmin.default)
def fmin(cx: Context, a: Tensor, b: Tensor) -> Tensor:
    """The smaller one, or the one that is no NaN."""
    return _but_nan(cx, BinaryKind.MINIMUM, a, b)


def _but_nan(cx: Context, kind: BinaryKind, a: Tensor, b: Tensor) -> Tensor:
    made = arithmetic(cx, kind, a, b)
    if cx.dtype() not in FLOATS:
        return made
    for x, other in ((a, b), (b, a)):
        if x.dtype in FLOATS:
            missing = Tensor(cx.builder.emit("unary", cx.f32(x).value, kind=UnaryKind.ISNAN), x.shape)
            made = where(cx, missing, other, made)
    return made


@lowers(aten.ldexp.Tensor)
def ldexp(cx: Context, a: Tensor, b: Tensor) -> Tensor:
    """``a * 2 ** b``, the power in the exponent's own float type."""
    power = cx.builder.emit("unary", cx.f32(b).value, kind=UnaryKind.EXP2)
    power = cx.builder.convert(power, b.dtype if b.dtype in FLOATS else DType.F32)
    return arithmetic(cx, BinaryKind.MUL, a, Tensor(power, b.shape))


@lowers(aten.native_dropout.default)
def native_dropout(cx: Context, a: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor] | Refused:
    """The tensor itself; dropping elements is for training."""
    if train is None or (train and p > 0):
        return Refused("dropout in training")
    return a, Tensor(cx.builder.fill(ne_of(cx.shape(1)), True, DType.BOOL), cx.shape(1))


@lowers(aten.rrelu_with_noise_functional.default)
def rrelu(
    cx: Context,
    a: Tensor,
    noise: Tensor,
    lower: float = 0.125,
    upper: float = 1 / 3,
    training: bool = False,
    generator: Any = None,
) -> tuple[Tensor, Tensor] | Refused:
    """A leaky ReLU with the mean of the two slopes; random slopes are for training."""
    del generator
    if training:
        return Refused("random slopes, as in training")
    result = cx.builder.emit("leaky_relu", cx.f32(a).value, negative_slope=(lower + upper) / 2)
    return Tensor(cx.builder.convert(result, cx.dtype(0)), a.shape), noise


# ------------------------------------------------------------------------------------------------ selection and casts


@lowers(aten.where.self)
def where(cx: Context, condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """``a`` where the condition holds, else ``b``."""
    dtype = cx.dtype()
    operands = [cx.tensor(condition, DType.BOOL), cx.tensor(a, dtype), cx.tensor(b, dtype)]
    values, target = aligned(cx.builder, operands, cx.shape())
    selected = cx.builder.emit("select", *(unbroadcast(value) for value in values))
    return cx.out(cx.builder.broadcast(selected, target))


@lowers(aten.masked_fill.Scalar)
def masked_fill(cx: Context, a: Tensor, mask: Tensor, value: float) -> Tensor:
    """``value`` where the mask holds, else ``a``."""
    return where(cx, mask, Tensor(cx.builder.scalar(value, cx.dtype()), ()), a)


@lowers(
    aten.alias_copy.default,
    aten.detach_copy.default,
    aten.lift_fresh_copy.default,
    aten.alias.default,
    aten.detach.default,
)
def identity(cx: Context, a: Tensor) -> Tensor:
    """The tensor itself: values are never written in place."""
    return Tensor(a.value, a.shape, a.data, a.key)


@lowers(
    aten.clone.default,
    aten._to_copy.default,
    dim_order_ops._clone_dim_order.default,
    dim_order_ops._to_dim_order_copy.default,
)
def to_copy(cx: Context, a: Tensor, **_: Any) -> Tensor:
    """A cast. Memory formats matter at a delegate's boundary alone: it reads and writes tensors as they lie."""
    return cx.tensor(a, cx.dtype())
