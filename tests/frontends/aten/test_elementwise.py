from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import executorch.exir.passes.dim_order_ops_registry  # noqa: F401 - declares the dim_order_ops
import pytest
import torch
from hypothesis import given as with_examples
from hypothesis import strategies as st
from tests.batches import check_case
from tests.helpers import (
    DYNAMIC,
    Case,
    Const,
    bools,
    check_program,
    having,
    inf,
    ints,
    lowered,
    nan,
    op,
    rand,
    run_interpreter,
    run_session,
    session,
    special,
)
from torch import Tensor
from torch._ops import OpOverload

aten = torch.ops.aten
dim_order_ops = torch.ops.dim_order_ops

F16, BF16, I32, I64, U8 = torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint8
I8, I16 = torch.int8, torch.int16
NARROW = (I8, U8, I16)

UNARY_FLOAT = [
    aten.sqrt.default,
    aten.log.default,
    aten.sin.default,
    aten.cos.default,
    aten.tanh.default,
    aten.sigmoid.default,
    aten.exp.default,
    aten.expm1.default,
    aten.floor.default,
    aten.ceil.default,
    aten.trunc.default,
    aten.hardsigmoid.default,
    aten.rsqrt.default,
    aten.reciprocal.default,
    aten.erf.default,
    aten.log1p.default,
    aten.round.default,
    aten.isnan.default,
    aten.isinf.default,
    aten.tan.default,
    aten.atan.default,
    aten.acos.default,
    aten.acosh.default,
    aten.asin.default,
    aten.asinh.default,
    aten.atanh.default,
    aten.cosh.default,
    aten.sinh.default,
    aten.log2.default,
    aten.log10.default,
    aten.exp2.default,
    aten.signbit.default,
    aten.erfc.default,
    aten.square.default,
    aten.sgn.default,
    aten.neg.default,
    aten.abs.default,
    aten.sign.default,
    aten.relu.default,
    aten.silu.default,
    aten.hardswish.default,
    aten.gelu.default,
    aten.leaky_relu.default,
    aten.elu.default,
    aten.softplus.default,
    aten.hardtanh.default,
    aten.logical_not.default,
]
# Which of them torch computes on integers, and on booleans.
UNARY_INT = [
    aten.sqrt.default,
    aten.log.default,
    aten.sin.default,
    aten.tanh.default,
    aten.sigmoid.default,
    aten.exp.default,
    aten.floor.default,
    aten.ceil.default,
    aten.trunc.default,
    aten.round.default,
    aten.reciprocal.default,
    aten.isnan.default,
    aten.isinf.default,
    aten.neg.default,
    aten.abs.default,
    aten.sign.default,
    aten.relu.default,
    aten.logical_not.default,
    aten.bitwise_not.default,
    aten.hardtanh.default,
    aten.atan.default,
    aten.asinh.default,
    aten.exp2.default,
    aten.log2.default,
    aten.signbit.default,
    aten.sgn.default,
]
UNARY_BOOL = [
    aten.sqrt.default,
    aten.cos.default,
    aten.sigmoid.default,
    aten.isnan.default,
    aten.logical_not.default,
    aten.bitwise_not.default,
    aten.reciprocal.default,
]

ARITHMETIC = [
    aten.add.Tensor,
    aten.sub.Tensor,
    aten.mul.Tensor,
    aten.div.Tensor,
    aten.maximum.default,
    aten.minimum.default,
    aten.atan2.default,
    aten.hypot.default,
    aten.remainder.Tensor,
    aten.fmod.Tensor,
    aten.floor_divide.default,
    aten.pow.Tensor_Tensor,
]
FLOAT_ONLY = [aten.hypot.default]
BITWISE = [aten.bitwise_and.Tensor, aten.bitwise_or.Tensor, aten.bitwise_xor.Tensor]
BITWISE_SCALAR = [aten.bitwise_and.Scalar, aten.bitwise_or.Scalar, aten.bitwise_xor.Scalar]
SHIFTS = [
    aten.bitwise_left_shift.Tensor,
    aten.bitwise_right_shift.Tensor,
    aten.__lshift__.Tensor,
    aten.__rshift__.Tensor,
]
SHIFTS_SCALAR = [
    aten.bitwise_left_shift.Tensor_Scalar,
    aten.bitwise_right_shift.Tensor_Scalar,
    aten.__lshift__.Scalar,
    aten.__rshift__.Scalar,
]
LOGICAL = [aten.logical_and.default, aten.logical_or.default, aten.logical_xor.default]
COMPARE = [aten.eq.Tensor, aten.ne.Tensor, aten.lt.Tensor, aten.le.Tensor, aten.gt.Tensor, aten.ge.Tensor]
COMPARE_SCALAR = [aten.eq.Scalar, aten.ne.Scalar, aten.lt.Scalar, aten.le.Scalar, aten.gt.Scalar, aten.ge.Scalar]
SCALAR = [aten.add.Scalar, aten.sub.Scalar, aten.mul.Scalar, aten.div.Scalar, aten.remainder.Scalar, aten.fmod.Scalar]

# Shapes that broadcast both ways, of any rank.
BROADCASTS = [
    ((3, 1), (1, 4)),
    ((5,), (2, 3, 5)),
    ((), (2, 3)),
    ((2, 3), ()),
    ((1,), (1,)),
    ((), ()),
    ((2, 1, 4), (3, 1)),
    ((0, 3), (1, 3)),
    ((2, 3, 4, 5), (4, 1)),
    ((3, 1, 1, 1), (2, 1, 5)),
    ((2, 1, 3, 5, 2), (2, 4, 3, 5, 2)),
    ((2, 3, 2, 2, 2, 3), (2, 3)),
    ((2, 1, 1, 3, 2, 2), (4, 3, 2, 2)),
    ((7,), (1, 7)),
    ((1, 17), (16, 1)),
]


def _domain(overload: OpOverload) -> Tensor:
    """Eager's GELU of an infinity is NaN or not by the layout of its input."""
    return special()[~special().isinf()] if overload == aten.gelu.default else special()


def _unary() -> list[Case]:
    cases = [having(op(f, _domain(f)), name="special") for f in UNARY_FLOAT]
    cases += [having(op(f, rand(3, 5, 7) * 4), name="3-D") for f in UNARY_FLOAT]
    cases += [having(op(f, _domain(f).to(F16)), name="f16") for f in UNARY_FLOAT]
    cases += [having(op(f, _domain(f).to(BF16)), name="bf16") for f in UNARY_FLOAT]
    cases += [having(op(f, ints(3, 4).abs() + 1), name="i64") for f in UNARY_INT]
    cases += [having(op(f, ints(2, 5, dtype=I32)), name="i32") for f in UNARY_INT]
    cases += [having(op(f, bools(2, 9)), name="bool") for f in UNARY_BOOL]
    return cases


def _binary() -> list[Case]:
    left, right = torch.meshgrid(special(), special(), indexing="ij")
    left, right = left.reshape(-1), right.reshape(-1)
    cases = [having(op(f, left, right), name="special") for f in ARITHMETIC + COMPARE + LOGICAL]
    for f in ARITHMETIC:
        cases += [having(op(f, rand(2, 3, dtype=d), rand(3, dtype=d) * 2), name=str(d)) for d in (F16, BF16)]
    cases += [
        op(f, rand(*a), rand(*b)) for f in (aten.add.Tensor, aten.sub.Tensor, aten.lt.Tensor) for a, b in BROADCASTS
    ]
    whole = [f for f in ARITHMETIC if f not in (aten.pow.Tensor_Tensor, *FLOAT_ONLY)]
    for dtype in (I32, I64, I8, I16):
        divisor = torch.tensor([-3, 2, 7, -1, 5], dtype=dtype)
        cases += [having(op(f, ints(4, 5, dtype=dtype), divisor), name=str(dtype)) for f in whole + COMPARE + BITWISE]
        exponent = torch.tensor([0, 1, 2, 3, 5], dtype=dtype)
        cases += [having(op(aten.pow.Tensor_Tensor, ints(4, 5, dtype=dtype), exponent), name=str(dtype))]
    mixed = [
        (rand(3, 4), ints(4)),
        (ints(3, 4), rand(3, 1)),
        (ints(2, 3, dtype=I32), ints(3)),
        (bools(4), ints(4)),
        (rand(3, dtype=F16), torch.tensor(0.1)),
        (rand(3, dtype=F16), rand(3)),
        (ints(3), torch.tensor(0.5)),
        (bools(3), rand(3)),
        (rand(3, dtype=BF16), rand(3, dtype=F16)),
    ]
    for place, (a, b) in enumerate(mixed):
        cases += [having(op(f, a, b), name=f"mixed{place}") for f in (aten.add.Tensor, aten.mul.Tensor, *COMPARE)]
    cases += [having(op(f, bools(4, 3), bools(3)), name="bool") for f in BITWISE + LOGICAL + COMPARE[:2]]
    cases += [having(op(f, bools(4, 1), bools(3)), name="bool") for f in (aten.add.Tensor, aten.mul.Tensor)]
    cases += [having(op(f, ints(3, 4), rand(4)), name="mixed") for f in LOGICAL]
    cases += [having(op(f, ints(3, 4, dtype=U8), ints(4, dtype=U8)), name="u8") for f in COMPARE]
    return cases


def _scalar() -> list[Case]:
    cases = [having(op(f, special(), 1.5), name="special") for f in SCALAR + COMPARE_SCALAR]
    cases += [having(op(f, special(), -2.0), name="negative") for f in (aten.remainder.Scalar, aten.fmod.Scalar)]
    cases += [op(f, rand(2, 3, dtype=F16), 0.1) for f in SCALAR + COMPARE_SCALAR]
    cases += [op(f, ints(2, 3), 2) for f in SCALAR + COMPARE_SCALAR + BITWISE_SCALAR]
    cases += [op(f, ints(2, 3), 2.5) for f in SCALAR + COMPARE_SCALAR]
    cases += [op(f, ints(2, 3, dtype=I32), -3) for f in SCALAR + COMPARE_SCALAR + BITWISE_SCALAR]
    cases += [op(f, bools(5), True) for f in [*BITWISE_SCALAR, aten.mul.Scalar, aten.eq.Scalar, aten.ne.Scalar]]
    cases += [
        op(f, rand(4), value) for f in (aten.mul.Scalar, aten.add.Scalar, aten.gt.Scalar) for value in (inf, nan, 1e-40)
    ]
    # A scalar is rounded to the tensor's type before it is compared.
    third = torch.tensor([0.1, 0.3, 1.0, -0.1])
    cases += [having(op(f, third.to(d), 0.1), name=f"rounded{d}") for f in COMPARE_SCALAR for d in (F16, BF16)]
    return cases


def _with_attributes() -> list[Case]:
    return [
        op(aten.add.Tensor, rand(2, 3), rand(3), alpha=2.5),
        op(aten.add.Tensor, ints(2, 3), ints(3), alpha=-2),
        op(aten.add.Scalar, rand(2, 3), 3.0, 2),
        op(aten.add.Scalar, ints(2, 3), 3, 2),
        op(aten.add.Scalar, ints(2, 3), 0),
        op(aten.sub.Scalar, ints(2, 3), 0, 5),
        op(aten.add.Scalar, ints(2, 3), 0.0),
        op(aten.add.Tensor, ints(3).to(torch.int32), Const(torch.zeros(1, 1, dtype=torch.int64))),
        op(aten.sub.Tensor, ints(3).to(torch.int32), Const(torch.tensor(0))),
        op(aten.sub.Tensor, rand(2, 3), rand(3), alpha=0.5),
        op(aten.sub.Tensor, rand(3), rand(2, 3)),
        op(aten.sub.Scalar, ints(2, 3), 3, 2),
        op(aten.sub.Scalar, rand(2, 3), 3.0, -2),
        op(aten.rsub.Scalar, rand(2, 3), 2.0),
        op(aten.rsub.Scalar, special(), 2.0, 3),
        op(aten.rsub.Scalar, ints(2, 3), 2, 3),
        op(aten.rsub.Scalar, rand(4, dtype=F16), 2.0),
        op(aten.div.Tensor, rand(3), rand(2, 3)),
        op(aten.div.Scalar, ints(4), 3),
        *(
            having(op(aten.div.Tensor_mode, *_special_pair(), rounding_mode=m), name=str(m))
            for m in ("floor", "trunc", None)
        ),
        *(op(aten.div.Scalar_mode, rand(9) * 5, 1.5, rounding_mode=m) for m in ("floor", "trunc", None)),
        *(op(aten.div.Scalar_mode, ints(9), -2, rounding_mode=m) for m in ("floor", None)),
        *(op(aten.div.Tensor_mode, ints(3, 1), ints(4).abs() + 1, rounding_mode=m) for m in ("floor", None)),
        *(
            having(op(aten.div.Tensor_mode, whole(d), ints(1, 5, dtype=d).abs() + 1, rounding_mode=m), name=f"{d}{m}")
            for d in (I32, I64, *NARROW)
            for m in ("floor", "trunc", None)
        ),
        *(op(aten.div.Scalar_mode, whole(I8), -3, rounding_mode=m) for m in ("floor", "trunc")),
        *(op(aten.pow.Tensor_Scalar, special(), e) for e in (2, 3, 0.5, -0.5, -1, 0, 1.7, -2)),
        *(op(aten.pow.Tensor_Scalar, ints(9), e) for e in (2, 3, 0.5, 0, 1)),
        op(aten.pow.Tensor_Scalar, rand(5, dtype=F16).abs(), 1.5),
        op(aten.pow.Scalar, 2.0, special()),
        op(aten.pow.Scalar, 0.3, rand(3, 4)),
        op(aten.pow.Scalar, 3, ints(5).abs()),
        op(aten.floor_divide.default, ints(5), 3),
        op(aten.gelu.default, _domain(aten.gelu.default), approximate="tanh"),
        op(aten.gelu.default, rand(3, 4, dtype=F16), approximate="tanh"),
        op(aten.leaky_relu.default, special(), 0.2),
        op(aten.leaky_relu.default, rand(5), -0.5),
        op(aten.elu.default, special(), 0.5),
        op(aten.elu.default, special(), 1.6732632423543772, 1.0507009873554805),
        op(aten.elu.default, rand(3, 4, dtype=F16) * 4, 1.3, 1.0, 1 / 1.3),
        op(aten.softplus.default, special(), 2.0),
        op(aten.softplus.default, rand(3, 7) * 9, 1, 10),
        op(aten.softplus.default, rand(3, 7) * 9, 0.5, 40),
        op(aten.hardtanh.default, special(), 0.0, 6.0),
        op(aten.clamp.default, special(), -1.0, 2.0),
        op(aten.clamp.default, special(), None, 0.5),
        op(aten.clamp.default, special(), 0.5),
        op(aten.clamp.default, special(), 2.0, -1.0),
        op(aten.clamp.default, special(), nan, 1.0),
        op(aten.clamp.default, ints(9), None, nan),
        op(aten.clamp.Tensor, rand(3, 4), rand(4) - 0.5, rand(3, 1) + 0.5),
        op(aten.clamp.Tensor, special(), rand(19), None),
        op(aten.clamp.Tensor, rand(3, 1), None, rand(1, 4)),
        op(aten.clamp.Tensor, special(), torch.tensor(2.0), torch.tensor(-1.0)),
        op(aten.clamp.Tensor, special(), torch.tensor(nan), torch.tensor(1.0)),
        having(op(aten.clamp.Tensor, ints(3, 4), ints(4, dtype=I32), rand(4)), name="mixed"),
        having(op(aten.clamp.Tensor, whole(I8), ints(5, dtype=I8), None), name="i8"),
        op(aten.clamp.default, ints(9), -2, 3),
        op(aten.clamp.default, ints(9, dtype=I32), None, 3),
        op(aten.clamp.default, ints(9), 0.5, 3.5),
        op(aten.clamp.default, rand(3, 4, dtype=BF16), -0.3, 0.3),
        *(
            having(op(aten.round.decimals, (special() * 7.777).to(d), decimals=n), name=f"{d}{n}")
            for d in (torch.float32, F16, BF16)
            for n in (0, 2, -1)
        ),
        having(op(aten.round.decimals, ints(3), decimals=1), refused="integers"),
        *(
            having(op(f, whole(d), torch.tensor([0, 1, 3, 7, 5], dtype=d)), name=str(d))
            for d in (I32, I64, *NARROW)
            for f in SHIFTS
        ),
        *(op(f, whole(d), n) for d in (I32, I64, I8) for f in SHIFTS_SCALAR for n in (0, 2, 7)),
        *(having(op(f, whole(I64), torch.tensor([-1, 64, 63, 99, 2])), name="wide") for f in SHIFTS),
        *(having(op(f, whole(I8), torch.tensor([-1, 8, 7, 99, 33], dtype=I8)), name="wide8") for f in SHIFTS),
        having(op(aten.bitwise_left_shift.Tensor, ints(3, dtype=I64), bools(3)), name="by-bool"),
        having(op(aten.copysign.Tensor, *_signs()), name="special"),
        op(aten.copysign.Tensor, rand(3, 1), rand(4)),
        op(aten.copysign.Scalar, special(), -0.0),
        *(having(op(f, *_signs()), name="special") for f in (aten.fmax.default, aten.fmin.default)),
        *(op(f, ints(3, 1), ints(4)) for f in (aten.fmax.default, aten.fmin.default)),
        having(op(aten.fmax.default, ints(3, 1), rand(4)), name="mixed"),
        op(aten.ldexp.Tensor, rand(3, 1), ints(4)),
        having(op(aten.square.default, torch.tensor([2**31 + 1, -(2**62), 3])), name="large"),
        op(aten.square.default, ints(5, dtype=torch.int8) * 9),
        op(aten.square.default, bools(4)),
        having(op(aten.ldexp.Tensor, rand(3, 4), rand(3, 4, dtype=BF16)), name="half-exponent", tolerance=1e-6),
        op(aten.native_dropout.default, special(), 0.3, False),
        having(op(aten.native_dropout.default, rand(4), 0.3, True), refused="training"),
        having(op(aten.elu.default, rand(4), 1.0, 1.0, inf), refused="not finite"),
        having(op(aten.rrelu_with_noise_functional.default, special(), torch.zeros(19), 0.1, 0.5), keep=(0,)),
        having(op(aten.rrelu_with_noise_functional.default, rand(3), rand(3), 0.1, 0.5, True), refused="training"),
        op(aten.lgamma.default, torch.tensor([0.5, 1.5, 3.0, 7.25, 100.0, 1e-3, inf, nan, 0.0, -1.5, -2.0])),
        op(aten.rsub.Tensor, rand(3, 1), rand(4)),
        op(aten.rsub.Tensor, ints(3, 1), ints(4), alpha=2),
        op(aten.rsub.Tensor, rand(3), torch.tensor(1.0)),
        op(aten.remainder.Scalar_Tensor, 7, ints(5).abs() + 1),
        op(aten.remainder.Scalar_Tensor, -7.5, rand(5)),
        op(aten.floor_divide.Scalar, ints(7), -2),
        op(aten.floor_divide.Scalar, rand(7) * 5, 1.5),
        op(aten.pow.Tensor_Tensor, torch.tensor([0.0, 0.0, -2.0, -2.0]), torch.tensor([0.0, -1.0, 3.0, 0.5])),
        op(aten.pow.Scalar, 0, ints(5).abs()),
        op(aten.pow.Scalar, -2, torch.tensor([0, 1, 2, 3, 62, 63, 64])),
        op(aten.pow.Tensor_Tensor, ints(5), torch.tensor([-1, -2, 0, 2, -3])),
        *(op(aten.pow.Tensor_Scalar, whole(d), e) for d in (*NARROW, I32) for e in (0, 1, 2, 3, 0.5)),
        *(
            op(aten.add.Tensor, rand(2, 1, 3, 1, 2), rand(*s))
            for s in [(2, 4, 3, 5, 2), (1, 4, 1, 5, 1), (4, 1, 5, 2), (4, 3, 5, 1)]
        ),
        op(aten.sub.Tensor, rand(2, 1, 3, 1, 2, 1), rand(1, 3, 1, 4, 1, 2)),
        op(aten.lt.Tensor, rand(2, 1, 3, 1, 2, 1), rand(1, 3, 1, 4, 1, 2)),
        having(op(aten.mul.Tensor, rand(3).double(), rand(3).double()), refused="float64"),
        having(op(aten.sqrt.default, rand(3).double()), refused="float64"),
        having(op(aten.eq.Tensor, rand(3).double(), rand(3).double()), refused="float64"),
    ]


def whole(dtype: torch.dtype) -> Tensor:
    """Integers up to the ends of the type's range."""
    info = torch.iinfo(dtype)
    return torch.tensor([[info.min, info.max, 0, 1, 7], [info.max - 1, info.min + 1, 3, 100, 5]], dtype=dtype)


def _signs() -> tuple[Tensor, Tensor]:
    left, right = torch.meshgrid(special(), special(), indexing="ij")
    return left.contiguous(), right.contiguous()


def _special_pair() -> tuple[Tensor, Tensor]:
    return rand(4, 5) * 7, rand(5)


def _selection() -> list[Case]:
    x, y = rand(2, 3), rand(2, 3)
    return [
        *(
            op(aten.where.self, bools(*c), rand(*a), rand(*b))
            for c, a, b in [
                ((2, 3), (2, 3), (2, 3)),
                ((3,), (2, 1), ()),
                ((2, 1), (), (1, 3)),
                ((), (2, 3), (3,)),
                ((2, 1, 3, 5, 2), (2, 4, 3, 5, 2), ()),
                ((1, 1, 4), (3, 1, 1), (2, 1)),
            ]
        ),
        having(op(aten.where.self, bools(3), ints(3), rand(3)), name="promotes"),
        having(op(aten.where.self, bools(3), ints(3, dtype=I32), ints(2, 3, dtype=I32)), name="i32"),
        having(op(aten.where.self, bools(3), bools(3), bools(2, 1)), name="bool"),
        having(op(aten.where.self, bools(4), rand(4, dtype=F16), rand(dtype=F16)), name="f16"),
        having(op(aten.where.self, bools(19), special(), -special()), name="special"),
        op(aten.masked_fill.Scalar, x, bools(3), -inf),
        op(aten.masked_fill.Scalar, x, bools(2, 1), torch.finfo(torch.float32).min),
        op(aten.masked_fill.Scalar, ints(2, 3), bools(2, 3), -7),
        op(aten.masked_fill.Scalar, rand(2, 3, dtype=F16), bools(3), 0.1),
        *(op(f, x) for f in (aten.alias_copy.default, aten.detach_copy.default, aten.lift_fresh_copy.default)),
        *(op(f, y) for f in (aten.alias.default, aten.detach.default, aten.clone.default)),
        op(dim_order_ops._clone_dim_order.default, x, dim_order=[0, 1]),
        op(aten.clone.default, rand(2, 3, 4, 5), memory_format=torch.channels_last),
        having(op(dim_order_ops._clone_dim_order.default, rand(2, 3, 4, 5), dim_order=[0, 2, 3, 1]), name="last"),
        having(op(dim_order_ops._to_dim_order_copy.default, rand(3, 4), dtype=I32, dim_order=[0, 1]), name="i32"),
    ]


def _casts() -> list[Case]:
    floats = torch.tensor([0.0, -0.0, 1.9, -1.9, 2.5, 100.25, 0.1])
    dtypes = [torch.float32, F16, BF16, I32, I64, torch.bool, torch.int8, torch.int16]
    cases = [having(op(aten._to_copy.default, floats.to(a), dtype=b), name=f"{a}-{b}") for a in dtypes for b in dtypes]
    cases += [
        having(op(aten._to_copy.default, special(), dtype=d), name=f"special{d}") for d in (F16, BF16, torch.bool)
    ]
    cases.append(having(op(aten._to_copy.default, torch.tensor([2**40 + 3, -5, 2**31]), dtype=I32), name="wraps"))
    cases.append(having(op(aten._to_copy.default, ints(5, dtype=U8), dtype=torch.float32), name="u8"))
    cases.append(op(aten._to_copy.default, rand(2, 2, 2, 2), memory_format=torch.channels_last))
    return cases


def _symbolic() -> list[Case]:
    """Sizes of both operands unknown, also such that one is broadcast over the other."""
    both = ({0: DYNAMIC, 1: DYNAMIC}, {0: DYNAMIC, 1: DYNAMIC})
    others = ((rand(5, 2), rand(5, 2)), (rand(1, 7), rand(1, 7)), (rand(16, 33), rand(16, 33)))
    first: Any = ({0: DYNAMIC}, {})
    cases = [having(op(f, rand(3, 4), rand(3, 4)), dynamic=both, others=others, name="symbolic") for f in ARITHMETIC]
    cases += [
        having(
            op(f, rand(3, 1), rand(1, 4)),
            dynamic=first,
            others=((rand(9, 1), rand(1, 4)), (rand(2, 1), rand(1, 4))),
            name="symbolic-broadcast",
        )
        for f in (aten.add.Tensor, aten.sub.Tensor, aten.lt.Tensor, aten.maximum.default)
    ]
    where = op(aten.where.self, bools(3, 1), rand(4), rand(3, 4))
    cases.append(
        having(
            where,
            dynamic=({0: DYNAMIC}, {}, {0: DYNAMIC}),
            others=((bools(7, 1), rand(4), rand(7, 4)),),
            name="symbolic",
        )
    )
    return cases


CASES = _unary() + _binary() + _scalar() + _with_attributes() + _selection() + _casts() + _symbolic()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case) -> None:
    check_case(case)


NARROW_UNARY = [f for f in UNARY_INT if f not in (aten.log.default, aten.log2.default, aten.exp.default)]


@pytest.mark.parametrize("dtype", NARROW)
def test_narrow_integers_wrap_at_their_own_width(dtype: torch.dtype) -> None:
    unary = [f for f in NARROW_UNARY if dtype != U8 or f not in (aten.neg.default, aten.hardtanh.default)]
    ring = [aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.maximum.default, aten.minimum.default]
    divisions = [aten.remainder.Tensor, aten.fmod.Tensor, aten.floor_divide.default, aten.div.Tensor]
    low, high = (3, 9) if dtype == U8 else (-3, 9)

    def program(x: Tensor, y: Tensor, some: Tensor, wide: Tensor, real: Tensor, half: Tensor, big: Tensor) -> Any:
        made = [f(x) for f in unary] + [f(x, y) for f in ring + COMPARE + BITWISE + LOGICAL]
        made += [f(x, some) for f in divisions] + [f(x, big) for f in ring + divisions + COMPARE]
        made += [f(x, 3) for f in SCALAR + COMPARE_SCALAR + BITWISE_SCALAR]
        made += [f(x, 2.5) for f in SCALAR + COMPARE_SCALAR]
        made += [f(x, other) for f in ring + COMPARE for other in (wide, real)] + [x + half, x < half]
        made += [x.clamp(low, high), torch.add(x, y, alpha=3), torch.sub(x, 2, alpha=3), 7 - x]
        return [*made, torch.where(real > 0, x, y)]

    x = whole(dtype)
    some = torch.tensor([1, 2, 3, 7, 100], dtype=dtype)
    check_program(program, x, x.flip(1), some, ints(5, dtype=I32), rand(5), rand(5, dtype=F16), torch.tensor(300))


@pytest.mark.parametrize(("a", "b"), [(I8, U8), (I8, I16), (U8, I16), (U8, I64), (I16, torch.bool)])
def test_mixed_integers(a: torch.dtype, b: torch.dtype) -> None:
    functions = (torch.add, torch.mul, torch.maximum, torch.lt, torch.div)
    check_program(lambda x, y: [f(x, y) for f in functions], ints(3, 4, dtype=a), ints(4, dtype=b))


@pytest.mark.parametrize("rank", range(7))
def test_every_rank(rank: int) -> None:
    shape = (2, 3, 1, 2, 3, 2)[:rank]
    check_program(
        lambda a, b: (torch.tanh(a) * b, a.sum() - b, torch.where(a > b, a, b)), rand(*shape), rand(*shape) + 1
    )


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4), (2, 0, 3)])
def test_empty(shape: tuple[int, ...]) -> None:
    check_program(
        lambda a, b: (a + b, a.relu(), a > b, torch.where(a > 0, a, b), a.to(I64)), rand(*shape), rand(*shape)
    )


def test_large_arguments_of_trigonometry() -> None:
    x = torch.tensor([1e2, 1e3, 1e4, 12345.678, 1e5, 1e6, -1e6])
    check_program(lambda a: (a.sin(), a.cos()), x)


def test_small_results_keep_their_digits() -> None:
    """Relative to each element, not to the largest: what tiny inputs are for."""
    x = torch.tensor([1e-6, -1e-6, 1e-4, -1e-3, 1e-10])
    for function in (torch.expm1, torch.log1p, torch.tanh, torch.sin, torch.erf, torch.atan, torch.tan):
        for value in x:
            check_program(function, value.reshape(1))


def test_scalars_beyond_float32_are_infinite() -> None:
    check_program(lambda a: (a * 1e300, a < 1e300, a + 1e300, a * 1e-300, a / 1e300), rand(5))


def test_zeros_of_both_signs_are_kept_apart() -> None:
    check_program(lambda a: (a / torch.full((2,), 0.0), a / torch.full((2,), -0.0)), torch.ones(2))


def test_integers_wrap_as_in_torch() -> None:
    big = torch.tensor([2**31 - 1, -(2**31), 5], dtype=I32)
    huge = torch.tensor([2**63 - 1, -(2**63), 5])
    for x in (big, huge):
        check_program(lambda a: (a + 1, a - 1, a * 3, -a, a.abs()), x)


def test_int64_beyond_float_precision_is_exact() -> None:
    big = torch.tensor([2**53 + 1, 2**40 + 1, -(2**60) - 1])
    check_program(lambda a, b: (a + b, a == b, a < b + 1, torch.maximum(a, b), a // 3, a % 1000, a * 2), big, big - 1)


def test_size_as_an_operand() -> None:
    program = lambda a: (a.long() + a.shape[0], a.long() < a.shape[0] * 2, a * a.shape[1])
    check_program(program, rand(3, 4) * 5, dynamic=({0: DYNAMIC},), others=((rand(6, 4) * 9,),))


OPERATORS: list[Callable[[Any, Any], Any]] = [
    operator.add,
    operator.sub,
    operator.mul,
    torch.maximum,
    torch.minimum,
    torch.lt,
    torch.eq,
    torch.atan2,
]


@st.composite
def broadcastable(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    shape = draw(st.lists(st.integers(1, 4), max_size=6))
    narrow = [size if draw(st.booleans()) else 1 for size in shape]
    wide = [size if draw(st.booleans()) else 1 for size in shape]
    return tuple(narrow[draw(st.integers(0, len(shape))) :]), tuple(wide[draw(st.integers(0, len(shape))) :])


@with_examples(broadcastable(), st.sampled_from(OPERATORS), st.booleans())
def test_broadcasting_property(shapes: Any, function: Any, views: bool) -> None:
    """Any two shapes that broadcast, also after both were transposed inside the program."""

    def program(a: Tensor, b: Tensor) -> Tensor:
        if views and a.dim() > 1:
            a = a.transpose(0, -1)
        made: Tensor = function(a, b)
        return made

    a, b = rand(*shapes[0]), rand(*shapes[1])
    if views and a.dim() > 1:
        a = a.transpose(0, -1).contiguous()
    check_program(program, a, b)


def test_zeros_keep_their_sign() -> None:
    x = torch.tensor([-0.0, 0.0, 1.0])
    graph = lowered(lambda x: (x * 2.0, x * 1.0, x + 0.0), (x,))
    for made in (run_interpreter(graph, (x,)), run_session(session(graph), (x,))):
        for ours, theirs in zip(made, (x * 2.0, x * 1.0, x + 0.0), strict=True):
            assert torch.equal(torch.signbit(ours), torch.signbit(theirs))
