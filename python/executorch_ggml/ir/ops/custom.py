"""What ggml has no builder for, or not for every type: comparisons, selection, casts, reductions, integers.

Each row names its CPU kernel. All take any strides and broadcast both ways.
"""

from __future__ import annotations

import enum
import math
from typing import Any

from .._lazy import torch
from ..dtypes import DType
from ..formulas import broadcasts_to, formula
from ..op import Dim, Dims, Empty, Operand, op
from .movement import shape_of


class UnaryKind(enum.IntEnum):
    """Function of the ``unary`` node."""

    RSQRT = 0
    RECIPROCAL = 1
    ERF = 2
    LOG1P = 3
    ROUND = 4  # half to even
    LOGICAL_NOT = 5
    ISNAN = 6
    ISINF = 7
    NEG = 8
    ABS = 9
    BITWISE_NOT = 10
    TAN = 11
    ATAN = 12
    SIGN = 13
    ACOS = 14
    ACOSH = 15
    ASIN = 16
    ASINH = 17
    ATANH = 18
    COSH = 19
    SINH = 20
    LOG2 = 21
    LOG10 = 22
    EXP2 = 23
    SIGNBIT = 24
    ERFC = 25
    LGAMMA = 26
    ROUND_F16 = 27  # to the nearest number that f16 has, half to even
    ROUND_BF16 = 28


class BinaryKind(enum.IntEnum):
    """Function of the ``binary`` node; the comparisons and logical ones give bool."""

    MAXIMUM = 0
    MINIMUM = 1
    POW = 2
    FLOOR_DIVIDE = 3
    REMAINDER = 4  # sign of the divisor
    FMOD = 5  # sign of the dividend
    BITWISE_AND = 6
    BITWISE_OR = 7
    BITWISE_XOR = 8
    EQ = 9
    NE = 10
    LT = 11
    LE = 12
    GT = 13
    GE = 14
    LOGICAL_AND = 15
    LOGICAL_OR = 16
    LOGICAL_XOR = 17
    ADD = 18
    SUB = 19
    MUL = 20
    DIV = 21
    ATAN2 = 22
    HYPOT = 23
    SHIFT_LEFT = 24  # 0 where the shift is negative or too wide
    SHIFT_RIGHT = 25  # the sign everywhere there
    TRUNC_DIVIDE = 26


class ReduceKind(enum.IntEnum):
    """Function of the ``reduce`` node."""

    SUM = 0
    MEAN = 1
    MAX = 2
    MIN = 3
    PROD = 4
    ANY = 5
    ALL = 6
    ARGMAX = 7  # one axis; the first of equals; i64
    ARGMIN = 8


UNARY_BOOL = frozenset({UnaryKind.LOGICAL_NOT, UnaryKind.ISNAN, UnaryKind.ISINF, UnaryKind.SIGNBIT})
BINARY_BOOL = frozenset(BinaryKind(n) for n in range(BinaryKind.EQ, BinaryKind.LOGICAL_XOR + 1))
REDUCE_BOOL = frozenset({ReduceKind.ANY, ReduceKind.ALL})
REDUCE_INDEX = frozenset({ReduceKind.ARGMAX, ReduceKind.ARGMIN})


ROUNDED_TO = {UnaryKind.ROUND_F16: DType.F16, UnaryKind.ROUND_BF16: DType.BF16}
NUMBERS = frozenset({DType.F32, DType.I32, DType.I64})
FLOATS = frozenset({DType.F32, DType.F16, DType.BF16, DType.F64})
INTEGERS = frozenset({DType.I32, DType.I64})
SIGNED = frozenset({UnaryKind.NEG, UnaryKind.ABS, UnaryKind.SIGN})
EXTREMES = frozenset({BinaryKind.MAXIMUM, BinaryKind.MINIMUM})
BITWISE = frozenset({BinaryKind.BITWISE_AND, BinaryKind.BITWISE_OR, BinaryKind.BITWISE_XOR})
OF_INTEGERS = frozenset({BinaryKind.SHIFT_LEFT, BinaryKind.SHIFT_RIGHT, BinaryKind.TRUNC_DIVIDE})
OF_FLOATS = frozenset({BinaryKind.DIV, BinaryKind.ATAN2, BinaryKind.HYPOT})


@formula
def unary_takes(kind: UnaryKind, a: Operand) -> bool:
    """Expects `kind` to be a function that there is for the element type of `a`."""
    return (
        a.dtype != DType.BOOL
        if kind in SIGNED
        else a.dtype not in FLOATS
        if kind == UnaryKind.BITWISE_NOT
        else kind == UnaryKind.LOGICAL_NOT or a.dtype == DType.F32
    )


@formula
def binary_takes(kind: BinaryKind, a: Operand) -> bool:
    """Expects `kind` to be a function that there is for the element type of `a`."""
    return (
        kind in BINARY_BOOL
        or kind in EXTREMES
        or (
            a.dtype not in FLOATS
            if kind in BITWISE
            else a.dtype in INTEGERS
            if kind in OF_INTEGERS
            else a.dtype == DType.F32 or (a.dtype in INTEGERS and kind not in OF_FLOATS)
        )
    )


@formula
def broadcast_together(a: Operand, b: Operand) -> bool:
    """Expects `a` and `b` to have sizes that are equal wherever neither is 1."""
    return all(m == 1 or n == 1 or m == n for m, n in zip(a.ne, b.ne))  # noqa: B905, PLR1714 - the language's


@formula
def are_axes(axes: tuple[int, ...]) -> bool:
    """Expects `axes` to be one or more dims, each once."""
    return (
        len(axes) > 0
        and all(0 <= axis < 4 for axis in axes)
        and all(axes[i] != axes[j] for i in range(len(axes)) for j in range(i))
    )


@formula
def reduces(kind: ReduceKind, a: Operand, axes: tuple[int, ...]) -> bool:
    """Expects `kind` to be a function that there is for the element type of `a`, places being along one of `axes`."""
    return (
        kind in REDUCE_BOOL
        or (kind in REDUCE_INDEX and len(axes) == 1 and (a.dtype in FLOATS or a.dtype in INTEGERS))
        or (kind not in REDUCE_INDEX and (a.dtype in FLOATS or (a.dtype in INTEGERS and kind != ReduceKind.MEAN)))
    )


@formula
def is_plain(dtype: DType) -> bool:
    """Expects `dtype` not to be a quantized type."""
    return not dtype.is_quantized


@formula
def is_number(dtype: DType) -> bool:
    """Expects `dtype` to be float32, int32 or int64."""
    return dtype in NUMBERS


@formula
def turns(x: Operand, table: Operand) -> bool:
    """Expects `table` to have rows as long as `x`'s, an even number, and other dims that are `x`'s or 1."""
    return x.ne[0] % 2 == 0 and x.ne[0] == table.ne[0] and broadcasts_to(table.ne, x.ne)


@op(
    100,
    inputs={"a": "f32|i32|i64|bool"},
    result="DType.BOOL if kind in UNARY_BOOL else a.dtype, a.ne",
    checks=("unary_takes(kind, a)",),
    call="custom",
    kernel="unary",
    along=(),
)
def unary(a: torch.Tensor, *, kind: UnaryKind) -> torch.Tensor:
    """An elementwise function that ggml lacks (custom)."""
    if kind in ROUNDED_TO:
        return a.to(ROUNDED_TO[UnaryKind(kind)].torch).to(a.dtype)
    name = {UnaryKind.ROUND: "round", UnaryKind.NEG: "negative"}.get(UnaryKind(kind), UnaryKind(kind).name.lower())
    y: torch.Tensor = getattr(torch, name)(a)
    return y


@op(
    101,
    inputs={"a": "f32|i32|i64|bool", "b": "f32|i32|i64|bool"},
    result="DType.BOOL if kind in BINARY_BOOL else a.dtype, broadcast_dims(a.ne, b.ne)",
    checks=("same_type(a, b)", "broadcast_together(a, b)", "binary_takes(kind, a)"),
    call="custom",
    kernel="binary",
    along=(),
)
def binary(a: torch.Tensor, b: torch.Tensor, *, kind: BinaryKind) -> torch.Tensor:
    """An elementwise function of two tensors of one type, broadcast both ways (custom)."""
    if kind == BinaryKind.TRUNC_DIVIDE:
        return torch.div(a, b, rounding_mode="trunc")
    shifts = {BinaryKind.SHIFT_LEFT: "bitwise_left_shift", BinaryKind.SHIFT_RIGHT: "bitwise_right_shift"}
    y: torch.Tensor = getattr(torch, shifts.get(kind) or BinaryKind(kind).name.lower())(a, b)
    return y


@op(
    102,
    inputs={"condition": "bool", "a": "any", "b": "any"},
    result="a.dtype, broadcast_dims(condition.ne, a.ne, b.ne)",
    checks=(
        "same_type(a, b)",
        "broadcast_together(condition, a)",
        "broadcast_together(condition, b)",
        "broadcast_together(a, b)",
    ),
    call="custom",
    kernel="select",
    along=(),
)
def select(condition: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """``a`` where the condition holds, else ``b``, broadcast all ways (custom)."""
    return torch.where(condition, a, b)


@op(
    103,
    inputs={"a": "any"},
    result="dtype, a.ne",
    checks=("is_plain(dtype)",),
    call="ggml_cast(ctx, a, storage_type(dtype))",
    kernel="convert",
    stock="is_float(a.dtype) and is_float(dtype)",
    along=(),
)
def convert(a: torch.Tensor, *, dtype: DType) -> torch.Tensor:
    """``a`` as another type, as ``Tensor.to`` does (``ggml_cast``)."""
    return a.to(DType(dtype).torch)


@op(
    104,
    inputs={"a": "f32|f64|i32|i64|bool"},
    result=(
        "DType.BOOL if kind in REDUCE_BOOL else DType.I64 if kind in REDUCE_INDEX else a.dtype,"
        "dims(1 if i in axes else a.ne[i] for i in range(4))"
    ),
    checks=("are_axes(axes)", "reduces(kind, a, axes)"),
    empty=Empty.COMPUTED,
    call="custom",
    kernel="reduce",
)
def reduce(a: torch.Tensor, *, kind: ReduceKind, axes: tuple[int, ...]) -> torch.Tensor:
    """Reduce the ggml dims ``axes`` to size 1 (custom). NaN wins in MAX and MIN."""
    dims = tuple(3 - axis for axis in axes)
    if kind in REDUCE_INDEX:
        index: torch.Tensor = getattr(torch, ReduceKind(kind).name.lower())(a, dims[0], keepdim=True)
        return index
    if kind == ReduceKind.PROD:
        for dim in dims:
            a = a.prod(dim, keepdim=True, dtype=a.dtype)
        return a
    name = {ReduceKind.MAX: "amax", ReduceKind.MIN: "amin"}.get(ReduceKind(kind), ReduceKind(kind).name.lower())
    if name in {"amax", "amin"} and a.numel() == 0:  # torch has no largest one of nothing
        floats = a.dtype.is_floating_point
        low, high = (-math.inf, math.inf) if floats else (torch.iinfo(a.dtype).min, torch.iinfo(a.dtype).max)
        shape = [1 if dim in dims else size for dim, size in enumerate(a.shape)]
        return a.new_full(shape, low if name == "amax" else high)
    extra: dict[str, Any] = {"dtype": a.dtype} if kind == ReduceKind.SUM else {}
    y: torch.Tensor = getattr(torch, name)(a, dims, keepdim=True, **extra)
    return y


@op(
    105,
    inputs={},
    result="dtype, ne",
    checks=("is_number(dtype)",),
    call="custom",
    kernel="iota",
)
def iota(*, ne: Dims, start: Dim, step: int, dtype: DType) -> torch.Tensor:
    """``start + step * i`` along ``ne[0]`` (custom; ``ggml_arange`` counts in f32 only)."""
    n = int(ne[0])
    return (int(start) + int(step) * torch.arange(n)).to(DType(dtype).torch).expand(shape_of(ne)).clone()


@op(
    106,
    inputs={},
    result="dtype, ne",
    checks=("is_plain(dtype)",),
    call="custom",
    kernel="fill",
)
def fill(*, ne: Dims, value: float, integer: Dim, dtype: DType) -> torch.Tensor:
    """One value everywhere: ``value`` in float types, ``integer`` in the others (custom)."""
    number = value if DType(dtype).torch.is_floating_point else int(integer)
    return torch.full(shape_of(ne), number, dtype=DType(dtype).torch)


@op(
    180,
    inputs={"x": "f32 rows", "cos": "f32 rows", "sin": "f32 rows"},
    result="x",
    checks=("turns(x, cos)", "turns(x, sin)"),
    call="custom",
    kernel="rotary",
    along=(0,),
)
def rotary(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, interleaved: bool) -> torch.Tensor:
    """``x * cos + rotated(x) * sin``, rows rotated by halves, or by pairs of neighbours (custom; RoFormer's RoPE).

    ``ggml_rope_ext`` has the angles' law built in; here they are given, as models compute them.
    """
    if interleaved:
        rotated = torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
    else:
        rotated = torch.cat((-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]), -1)
    return x * cos + rotated * sin
