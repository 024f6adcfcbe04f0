"""Every op that MLX computes, against the op table's torch functions: odd shapes, strides, NaN, ties, extremes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("mlx.core")

import torch
from tests.devices.mlx_check import built, check_graph, computed
from tests.helpers import run_interpreter
from tests.native import make_corpus
from tests.native.corpus_program import Program

from executorch_ggml.devices.mlx import MlxDevice
from executorch_ggml.devices.mlx.table import TABLE
from executorch_ggml.ir.builder import Builder
from executorch_ggml.ir.codec import quantize
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.ir.graph import Value
from executorch_ggml.ir.ops import OPS
from executorch_ggml.ir.ops.custom import BinaryKind, ReduceKind, UnaryKind
from executorch_ggml.ir.ops.indexing import ScanKind, ScatterKind
from executorch_ggml.ir.ops.spatial import (
    NO_EPILOGUE,
    Activation,
    Epilogue,
    PoolKind,
    SampleBorder,
    SampleKind,
    ScaleMode,
    Window,
    Window2d,
    Window3d,
)

Make = Callable[[Program], None]
CASES: dict[str, list[Make]] = {}
NAN, INF = float("nan"), float("inf")
ODD = torch.tensor([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1.5, 2.5, 1e-7, -88.0, 89.0, 21.0, 3e-39, 1e30])
WIDE = torch.tensor([2**62 + 1, -(2**62) - 3, 2**53 + 1, 0, -1, 1, 7, -7, 2**31, -(2**63)])


def case(*ops: str) -> Callable[[Make], Make]:
    """Register a case of some ops."""

    def declare(make: Make) -> Make:
        for op in ops:
            CASES.setdefault(op, []).append(make)
        return make

    return declare


def all_cases() -> Iterator[Any]:
    for make in dict.fromkeys(make for makes in CASES.values() for make in makes):
        yield pytest.param(make, id=make.__name__)


def turned(p: Program, x: Value) -> Value:
    """A value with its dims in another order: strides that are not dense."""
    return p.build.permute(x, (2, 0, 1, 3))


def strided(p: Program, *shape: int) -> Value:
    """Every other element of a larger input."""
    wide = p.random(*shape[:-1], 2 * shape[-1] + 1)
    return p.build.view(wide, (1, 0, 0, 0), tuple(reversed(shape)), (2, 1, 1, 1))


# -------------------------------------------------------------------------------------------------------- elementwise

PLAIN = (
    *("sqr", "sqrt", "log", "sin", "cos", "abs", "sgn", "neg", "tanh", "elu", "relu", "sigmoid", "gelu", "gelu_erf"),
    *("silu", "hardswish", "hardsigmoid", "exp", "expm1", "softplus", "floor", "ceil", "trunc"),
)


@case(*PLAIN)
def elementwise(p: Program) -> None:
    x = p.random(2, 3, 1, 21)
    y = p.input(torch.rand(5, 3) + 0.1)
    p.output(*(p.emit(op, value) for op in PLAIN for value in (x, y)))
    p.output(*(p.emit(op, turned(p, x)) for op in ("sqr", "neg", "gelu")))


@case(*PLAIN)
def elementwise_of_odd_numbers(p: Program) -> None:
    sane = p.input(ODD[ODD.abs().nan_to_num(0) < 100])
    x = p.input(ODD)
    bounded = {"tanh", "sigmoid", "hardsigmoid", "sgn", "neg", "abs", "floor", "ceil", "trunc", "relu"}
    p.output(*(p.emit(op, x if op in bounded else sane) for op in PLAIN if op not in {"sin", "cos"}))


@case("leaky_relu", "scale_bias", "clamp", "swiglu_split", "geglu_split", "geglu_erf_split")
def parametrized(p: Program) -> None:
    x, y = p.input(ODD[:12]), p.random(3, 12)
    for value in (x, y):
        p.output(p.emit("leaky_relu", value, negative_slope=0.1))
        p.output(p.emit("scale_bias", value, s=2.5, b=-1.0), p.emit("scale_bias", value, s=0.1, b=0.0))
        p.output(p.emit("clamp", value, min=-1.0, max=2.0), p.emit("clamp", value, min=0.0, max=INF))
    for op in ("swiglu_split", "geglu_split", "geglu_erf_split"):
        p.output(p.emit(op, y, p.random(3, 12)))


@case("lstm_cell", "gru_cell")
def recurrent_steps(p: Program) -> None:
    for op, gates in (("lstm_cell", 4), ("gru_cell", 3)):
        p.output(p.emit(op, p.random(3, gates * 11), p.random(3, gates * 11), p.random(3, 11)))


@case("add", "sub", "mul", "div")
def arithmetic(p: Program) -> None:
    a, b = p.random(2, 3, 4, 5), p.input(torch.rand(3, 1, 5) + 0.5)
    n, m = p.input(WIDE.reshape(2, 5)), p.input(WIDE[:5].flip(0))
    i = p.input(torch.tensor([[2**31 - 1, -(2**31), 5]], dtype=torch.int32))
    p.output(*(p.emit(op, a, b) for op in ("add", "sub", "mul", "div")))
    p.output(*(p.emit(op, n, m) for op in ("add", "sub", "mul")), *(p.emit(op, i, i) for op in ("add", "sub", "mul")))
    p.output(p.emit("div", p.input(ODD), p.input(ODD.flip(0))))


# ----------------------------------------------------------------------------------------------------------- movement


@case("reshape", "permute", "view", "cont", "broadcast", "concat", "pad_ext")
def views(p: Program) -> None:
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.uint8, torch.bool):
        x = p.input((torch.randn(2, 3, 4, 5) * 10).to(dtype))
        y = turned(p, x)
        window = p.build.view(y, (1, 0, 1, 0), (2, 2, 2, 2), (2, 2, 1, 1))
        p.output(y, window, p.build.reshape(p.build.cont(window), (4, 4)), p.emit("cont", x))
        p.output(p.emit("concat", x, x, dim=3), p.emit("concat", x, y, dim=1) if y.ne == x.ne else x)
        p.output(p.build.broadcast(p.build.view(x, (0, 0, 0, 1), (5, 1, 3, 1)), (5, 7, 3, 2)))
    p.output(p.emit("pad_ext", p.random(2, 3, 4), lead=(1, 0, 2, 0), trail=(0, 3, 0, 1)))


@case("view", "concat", "reshape", "broadcast", "cont")
def empty(p: Program) -> None:
    x = p.input(torch.zeros(2, 0, 3))
    p.output(p.emit("concat", x, p.random(2, 4, 3), dim=1), p.build.reshape(x, (0, 5)), p.emit("neg", x))
    p.output(p.build.broadcast(x, (3, 0, 2, 2)), p.build.cont(p.build.view(p.random(3, 4), (1, 0, 0, 0), (0, 3))))
    kinds = (ReduceKind.SUM, ReduceKind.MAX, ReduceKind.MEAN, ReduceKind.PROD, ReduceKind.ALL, ReduceKind.ANY)
    p.output(*(p.emit("reduce", x, kind=kind, axes=(1,)) for kind in kinds))
    p.output(
        p.emit("pad_ext", x, lead=(0, 1, 0, 0), trail=(0, 1, 0, 0)), p.emit("mul_mat", p.random(5, 0), p.random(2, 0))
    )
    p.output(p.emit("sum_rows", p.random(2, 0)), p.emit("mean", p.random(2, 0)))


@case("get_rows", "to_index", "take_rows")
def rows(p: Program) -> None:
    index = p.emit("to_index", p.input(torch.tensor([0, 6, -1, 3, 6])), size=7, wrap=True)
    narrow = p.emit("to_index", p.input(torch.tensor([[2, 0]], dtype=torch.int32)), size=7, wrap=False)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        p.output(*(p.emit("get_rows", p.constant(torch.randn(7, 6).to(dtype)), at) for at in (index, narrow)))
    table, across = p.input(torch.randint(-(2**62), 2**62, (7, 3))), p.build.reshape(index, (1, 5))
    p.output(index, p.emit("take_rows", table, index), p.emit("take_rows", p.random(7, 2), across))


@case("get_rows", "mul_mat")
def quantized(p: Program) -> None:
    rows = p.emit("to_index", p.input(torch.tensor([3, 0, -1, 3])), size=5, wrap=True)
    for dtype in (d for d in DType if d.is_quantized and d not in _IMPORTANCE):
        weight = p.quantized(dtype, 5, 512)
        p.output(p.emit("mul_mat", weight, p.random(2, 3, 512)), p.emit("get_rows", weight, rows))


_IMPORTANCE = (DType.IQ2_XXS, DType.IQ2_XS, DType.IQ1_S, DType.IQ1_M)


@case("write_state", "update_state")
def state(p: Program) -> None:
    total = p.build.state("total", DType.F32, (8, 2, 1, 1), lambda: torch.ones(2, 8))
    grown = p.emit("add", total, p.random(2, 8))
    p.emit("write_state", grown, total)
    cache = p.build.state("cache", DType.F16, (4, 6, 2, 1), lambda: torch.ones(2, 6, 4).half())
    at = p.build.reshape(p.input(torch.tensor([5, 1])), (1, 2))
    made = p.emit("update_state", cache, at, p.random(2, 2, 4), ne=(4, 2, 2, 1), axis=1, wrap=False)
    p.output(grown, made)


# --------------------------------------------------------------------------------------------------- rows and products


@case("norm", "rms_norm", "sum_rows", "mean", "cumsum")
def row_functions(p: Program) -> None:
    for x in (p.random(2, 3, 4, 17), p.random(5, 1), p.build.permute(p.random(2, 3, 8), (0, 2, 1, 3))):
        p.output(p.emit("norm", x, eps=1e-5), p.emit("rms_norm", x, eps=1e-6), p.emit("sum_rows", x), p.emit("mean", x))
    p.output(p.emit("cumsum", p.random(3, 40)), p.emit("cumsum", p.input(WIDE.reshape(2, 5))))
    p.output(p.emit("sum_rows", p.input(ODD.reshape(1, -1))), p.emit("rms_norm", p.input(torch.zeros(2, 4)), eps=1e-6))


@case("norm", "rms_norm")
def weighted_norms(p: Program) -> None:
    """What follows a normalization becomes part of it only where it is a row and nothing else reads between."""
    x, row, bias, rows = p.random(2, 3, 17), p.random(17), p.random(17), p.random(3, 17)
    for op in ("norm", "rms_norm"):

        def normal(value: Value = x, op: str = op) -> Value:
            return p.emit(op, value, eps=1e-5)

        p.output(p.emit("mul", normal(), row), p.emit("mul", normal(), rows))
        p.output(p.emit("add", p.emit("mul", normal(), row), bias), p.emit("add", p.emit("mul", normal(), row), rows))
        p.output(p.emit("add", normal(), bias), p.emit(op, x, row, eps=1e-5), p.emit("norm", x, row, bias, eps=0.5))
        kept = normal(p.random(4, 17))
        p.output(kept, p.emit("mul", kept, row))
        twice = p.emit("mul", normal(p.random(5, 17)), row)
        p.output(
            p.emit("add", twice, twice), p.emit("add", twice, bias), p.emit("add", p.emit("add", twice, bias), row)
        )
        p.output(p.emit("mul", normal(p.random(1, 1)), p.random(1)), p.emit("mul", normal(row), normal(bias)))


@case("soft_max_ext", "diag_mask_inf")
def softmax(p: Program) -> None:
    scores = p.random(2, 4, 5, 6)
    hidden = torch.zeros(1, 1, 5, 6)
    hidden[..., 3:] = -INF
    for mask in (None, p.random(1, 1, 8, 6), p.random(2, 4, 5, 6), p.input(hidden), p.random(2, 1, 5, 6)):
        p.output(p.emit("soft_max_ext", scores, mask, scale=0.5, max_bias=0.0))
    causal = p.emit("diag_mask_inf", scores, n_past=1)
    p.output(causal, p.emit("soft_max_ext", causal, None, scale=1.0, max_bias=0.0))
    p.output(p.emit("soft_max_ext", p.input(torch.full((1, 3), -INF)), None, scale=1.0, max_bias=0.0))


@case("mul_mat")
def products(p: Program) -> None:
    shapes = (((5, 8), (4, 3, 2, 8)), ((2, 3, 5, 8), (4, 6, 2, 8)), ((1, 2, 5, 8), (3, 6, 1, 8)), ((3, 1), (2, 1)))
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for first, second in shapes:
            a = torch.randn(first).to(dtype)
            p.output(*(p.emit("mul_mat", value, p.random(*second)) for value in (p.constant(a), p.input(a))))
    halves = p.input(torch.randn(4, 8).half())
    p.output(p.emit("mul_mat", halves, halves))


@case("mul_mat_id")
def chosen_products(p: Program) -> None:
    ids = p.emit("to_index", p.input(torch.tensor([0, 2, 1, 0, 2, 1, -1, 0])), size=3, wrap=True)
    ids = p.build.reshape(ids, (2, 4))
    for x in (p.random(4, 1, 64), p.random(4, 2, 64)):
        for weight in (torch.randn(3, 5, 64), torch.randn(3, 5, 64).half()):
            p.output(p.emit("mul_mat_id", p.constant(weight), x, ids))
        for dtype in (DType.Q4_0, DType.Q5_1, DType.Q8_0, DType.IQ4_NL):
            p.output(p.emit("mul_mat_id", p.quantized(dtype, 3, 5, 64), x, ids))


@case("attention")
def attention(p: Program) -> None:
    hidden = torch.zeros(1, 1, 6, 7)
    hidden[:, :, 2] = -INF
    hidden[:, :, 4, 3:] = -INF
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for kv_heads in (1, 2, 4):
            q = p.random(2, 4, 6, 8)
            k, v = (p.input(torch.randn(2, kv_heads, 7, width).to(dtype)) for width in (8, 5))
            for softcap in (0.0, 5.0):
                p.output(p.emit("attention", q, k, v, None, scale=0.3, logit_softcap=softcap))
                mask = p.input(hidden.half())
                p.output(p.emit("attention", q, k, v, mask, scale=0.3, logit_softcap=softcap))
    for rows in (1, 8):
        mask = p.input(torch.randn(2, 4, rows, 7).half())
        p.output(p.emit("attention", q, k, v, mask, scale=1.0, logit_softcap=0.0))


@case("rotary")
def rotations(p: Program) -> None:
    x, cos, sin = p.random(3, 5, 8), p.random(5, 8), p.random(1, 8)
    p.output(*(p.emit("rotary", x, cos, sin, interleaved=interleaved) for interleaved in (False, True)))


# -------------------------------------------------------------------------------------------------------------- custom


@case("unary")
def unary(p: Program) -> None:
    odd, x = p.input(ODD), p.input(torch.randn(3, 30))
    n, b = p.input(WIDE), p.input(torch.tensor([True, False]))
    for kind in UnaryKind:
        if kind in {UnaryKind.LGAMMA, UnaryKind.BITWISE_NOT}:
            continue
        small = p.input(torch.rand(3, 7) * 1.9 - 0.95)
        p.output(p.emit("unary", small, kind=kind))
        if kind not in {UnaryKind.COSH, UnaryKind.SINH, UnaryKind.TAN, UnaryKind.EXP2}:
            p.output(p.emit("unary", odd, kind=kind), p.emit("unary", x, kind=kind))
    for kind in (UnaryKind.NEG, UnaryKind.ABS, UnaryKind.SIGN, UnaryKind.BITWISE_NOT, UnaryKind.LOGICAL_NOT):
        p.output(p.emit("unary", n, kind=kind))
    p.output(*(p.emit("unary", b, kind=kind) for kind in (UnaryKind.BITWISE_NOT, UnaryKind.LOGICAL_NOT)))
    p.output(p.emit("unary", p.input(torch.linspace(-4, 9, 40)), kind=UnaryKind.ERFC))


@case("binary")
def binary_floats(p: Program) -> None:
    a, b = p.random(3, 1, 65), p.input(torch.randn(2, 65))
    first, second = (p.input(t.contiguous()) for t in torch.meshgrid(ODD[:11], ODD[:11], indexing="ij"))
    integral = {BinaryKind.BITWISE_AND, BinaryKind.BITWISE_OR, BinaryKind.BITWISE_XOR}
    integral |= {BinaryKind.SHIFT_LEFT, BinaryKind.SHIFT_RIGHT, BinaryKind.TRUNC_DIVIDE}
    for kind in BinaryKind:
        if kind not in integral:
            p.output(p.emit("binary", a, b, kind=kind), p.emit("binary", first, second, kind=kind))


@case("binary")
def binary_integers(p: Program) -> None:
    floats = {BinaryKind.DIV, BinaryKind.ATAN2, BinaryKind.HYPOT}
    traps = {BinaryKind.FLOOR_DIVIDE, BinaryKind.REMAINDER, BinaryKind.FMOD, BinaryKind.TRUNC_DIVIDE}
    for dtype in (torch.int32, torch.int64):
        least = torch.iinfo(dtype).min
        values = torch.tensor([least, least + 1, -7, -2, -1, 1, 2, 7, 40, 62, -least - 1], dtype=dtype)
        first, second = (p.input(t.contiguous()) for t in torch.meshgrid(values, values, indexing="ij"))
        low = p.input(torch.tensor([least + 1], dtype=dtype))
        for kind in BinaryKind:
            if kind not in floats:  # torch dies of the least number divided by -1
                dividend = p.emit("binary", first, low, kind=BinaryKind.MAXIMUM) if kind in traps else first
                p.output(p.emit("binary", dividend, second, kind=kind))
    bools = p.input(torch.tensor([[True], [False]])), p.input(torch.tensor([True, False]))
    for kind in (BinaryKind.BITWISE_XOR, BinaryKind.LOGICAL_AND, BinaryKind.MAXIMUM, BinaryKind.EQ, BinaryKind.LT):
        p.output(p.emit("binary", *bools, kind=kind))


@case("select")
def select(p: Program) -> None:
    condition = p.input(torch.tensor([[True], [False], [True]]))
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool):
        a, b = ((torch.randn(shape) * 100).to(dtype) for shape in ((2, 1, 9), (3, 9)))
        p.output(p.emit("select", condition, p.input(a), p.input(b)))


@case("convert")
def convert(p: Program) -> None:
    plain = [d for d in DType if not d.is_quantized and d != DType.F64]
    halves = torch.tensor([65519.0, 1.00390625, 1.01171875, 2049.0, 1e-7, -0.0, NAN, INF, 3.3895e38, 5.96e-8])
    small = torch.tensor([0.0, -0.5, 0.9, 100.7, -100.7, 1.0])
    for source in (torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.bool, torch.uint8):
        values = small.abs() if source == torch.uint8 else small
        for dtype in plain:
            if dtype != DType.U8 or not source.is_floating_point:
                p.output(p.emit("convert", p.input(values.to(source)), dtype=dtype))
    p.output(*(p.emit("convert", p.input(halves), dtype=dtype) for dtype in (DType.F16, DType.BF16, DType.BOOL)))
    p.output(*(p.emit("convert", p.input(WIDE), dtype=dtype) for dtype in (DType.I32, DType.F32, DType.I8, DType.U8)))


@case("reduce")
def reduce(p: Program) -> None:
    nan = torch.randn(3, 4, 5, 6)
    nan[1, 2, 3, 4] = nan[1, 2, 3, 5] = NAN
    ties = torch.randint(0, 3, (2, 3, 4, 5)).float()
    for x in (p.random(3, 4, 5, 6), p.input(nan), turned(p, p.input(ties))):
        for kind in ReduceKind:
            places = kind in {ReduceKind.ARGMAX, ReduceKind.ARGMIN}
            for axes in ((0,), (1,), (3,)) if places else ((0,), (0, 2), (3, 1), (0, 1, 2, 3)):
                p.output(p.emit("reduce", x, kind=kind, axes=axes))
    n = p.input(WIDE.reshape(2, 5))
    for kind in ReduceKind:
        if kind != ReduceKind.MEAN:
            p.output(p.emit("reduce", n, kind=kind, axes=(0,)), p.emit("reduce", n, kind=kind, axes=(1,)))
    p.output(p.emit("reduce", p.input(torch.tensor([[True, False]])), kind=ReduceKind.ALL, axes=(0,)))


@case("iota", "fill")
def made_up(p: Program) -> None:
    for dtype in (DType.I64, DType.I32, DType.F32):
        p.output(p.emit("iota", ne=(10, 2, 1, 1), start=3, step=-2, dtype=dtype))
    p.output(p.emit("iota", ne=(4, 1, 1, 1), start=2**60 + 1, step=3, dtype=DType.I64))
    for dtype in (DType.F32, DType.F16, DType.BF16):
        p.output(p.build.fill((5, 4), 0.1, dtype), p.build.fill((2,), -INF, dtype), p.build.fill((2,), NAN, dtype))
    for dtype in (DType.I64, DType.I32, DType.I8, DType.BOOL):
        p.output(p.build.fill((5, 4), 1, dtype))
    p.output(p.build.fill((3,), 2**62 + 1, DType.I64))


# ------------------------------------------------------------------------------------------------------------ indexing


@case("take")
def take(p: Program) -> None:
    x, n = p.random(3, 4, 5), p.input(WIDE.reshape(5, 2))
    across = p.input(torch.tensor([[0, -1, 2, 1, 0]]))
    p.output(p.emit("take", x, p.build.reshape(across, (1, 5)), axis=1, wrap=True))
    p.output(p.emit("take", x, p.input(torch.randint(0, 5, (3, 4, 7), dtype=torch.int32)), axis=0, wrap=False))
    p.output(p.emit("take", x, p.input(torch.randint(-3, 3, (2, 4, 1))), axis=2, wrap=True))
    p.output(p.emit("take", n, p.input(torch.tensor([[1, 0, 1]])), axis=0, wrap=False))


@case("scatter")
def scatter(p: Program) -> None:
    along = p.input(torch.randint(-5, 5, (3, 9)))
    single = {"ne": (9, 3, 1, 1), "axis": 0, "wrap": True}
    sources = (torch.randn(3, 9), torch.randint(-(2**61), 2**61, (3, 9)))
    for source in sources:
        a, src = p.input(source[:, :5].contiguous()), p.input(source.flip(0))
        for kind in ScatterKind:
            for include_self in (True, False):
                p.output(p.emit("scatter", a, along, src, **single, kind=kind, include_self=include_self))
    rows = p.build.reshape(p.input(torch.tensor([2, 0, -1, 2])), (1, 4))
    whole = {"ne": (6, 4, 2, 1), "axis": 1, "wrap": True, "kind": ScatterKind.ASSIGN, "include_self": True}
    for dtype in (torch.float32, torch.bfloat16, torch.bool, torch.int64):
        a, src = (p.input(torch.randn(shape).to(dtype)) for shape in ((2, 3, 6), (2, 4, 6)))
        p.output(p.emit("scatter", a, rows, src, **whole))
    p.output(p.emit("scatter", p.random(2, 3, 6), rows, p.random(1, 1), **whole))
    odd = p.input(torch.tensor([[NAN, 1.0, 5.0, 2.0, -INF]])), p.input(torch.tensor([[0, 1, 1, 3, 4]]))
    src, how = p.input(torch.tensor([[1.0, NAN, 3.0, INF, 4.0]])), {"ne": (5, 1, 1, 1), "axis": 0, "wrap": False}
    for kind in (ScatterKind.MAX, ScatterKind.MIN, ScatterKind.ADD):
        p.output(*(p.emit("scatter", *odd, src, **how, kind=kind, include_self=own) for own in (True, False)))


@case("sort")
def sort(p: Program) -> None:
    ties = torch.randint(-3, 3, (4, 30))
    odd = torch.cat([ODD, ODD])
    types = (torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int8)
    for values in (torch.randn(3, 9), ties, *(ties.to(dtype) for dtype in types)):
        x = p.input(values)
        p.output(*(p.emit("sort", x, count=count, descending=d) for count in (9, 2) for d in (True, False)))
    for values in (odd, ties.to(torch.uint8), ties > 0, WIDE, torch.tensor([-(2**31), 2**31 - 1], dtype=torch.int32)):
        x = p.input(values)
        p.output(*(p.emit("sort", x, count=values.shape[-1], descending=d) for d in (True, False)))


@case("scan")
def scan(p: Program) -> None:
    nan = torch.randint(-3, 3, (4, 20)).float()
    nan[1, 7] = nan[1, 9] = NAN
    nan[2, 0] = -INF
    for x in (p.random(3, 9), p.input(nan)):
        p.output(*(p.emit("scan", x, kind=kind, axis=axis) for kind in ScanKind for axis in (0, 1)))
    n = p.input(torch.randint(-3, 3, (4, 20)))
    kinds = (ScanKind.PROD, ScanKind.ARGMAX, ScanKind.ARGMIN)
    p.output(*(p.emit("scan", n, kind=kind, axis=axis) for kind in kinds for axis in (0, 1)))
    p.output(p.emit("scan", p.input(torch.tensor([[-INF, -INF, 1.0, 2.0]])), kind=ScanKind.LOGSUMEXP, axis=0))


# ------------------------------------------------------------------------------------------------------------- spatial


def _window(width: int, height: int, **numbers: tuple[int, int]) -> Window2d:
    """Each number as a pair: of the width and of the height."""
    across, down = ({name: pair[i] for name, pair in numbers.items()} for i in (0, 1))
    return Window2d(Window(width, **across), Window(height, **down))


@case("linear")
def linear(p: Program) -> None:
    x, bias = p.random(2, 3, 5, 8), p.constant(torch.randn(6))
    for activation in Activation:
        weight = p.constant(torch.randn(1, 1, 6, 8))
        p.output(p.emit("linear", x, weight, bias, epilogue=Epilogue(activation, 0.0, 6.0)))
    p.output(p.emit("linear", x, p.constant(torch.randn(1, 1, 6, 8).half()), None, epilogue=NO_EPILOGUE))
    p.output(p.emit("linear", x, p.random(1, 1, 6, 8), bias, epilogue=NO_EPILOGUE))


@case("conv_2d_nhwc")
def convolution(p: Program) -> None:
    x, bias = p.random(2, 7, 6, 4), p.constant(torch.randn(20))
    for activation in Activation:
        weight = p.constant(torch.randn(20, 4, 3, 2))
        how = {"window": _window(2, 3, stride=(1, 2), pad=(1, 0)), "epilogue": Epilogue(activation, 0.0, 6.0)}
        p.output(p.emit("conv_2d_nhwc", x, weight, bias, ne=(20, 7, 3, 2), groups=1, **how))
    weight = p.random(6, 2, 3, 3)
    holes = _window(3, 3, pad=(2, 2), dilation=(2, 2))
    p.output(p.emit("conv_2d_nhwc", x, weight, None, ne=(6, 6, 7, 2), groups=2, window=holes, epilogue=NO_EPILOGUE))
    half = p.constant(torch.randn(6, 4, 3, 3).half())
    for pad, ne in (((1, 1), (6, 14, 16, 2)), ((-1, 0), (6, 9, 10, 2)), ((2, -2), (6, 5, 4, 2))):
        wide = _window(3, 3, pad=pad, up=(2, 2))
        p.output(p.emit("conv_2d_nhwc", x, half, None, ne=ne, groups=1, window=wide, epilogue=NO_EPILOGUE))


@case("conv_2d_nhwc")
def depthwise(p: Program) -> None:
    x, weight, bias = p.random(2, 7, 6, 5), p.constant(torch.randn(5, 1, 3, 2)), p.constant(torch.randn(5))
    clamped = Epilogue(Activation.CLAMP, 0.0, 6.0)
    for pad, stride, dilation, ne in (
        ((1, 1), (1, 1), (1, 1), (5, 7, 7, 2)),
        ((1, 0), (2, 1), (1, 2), (5, 3, 3, 2)),
        ((-1, 1), (1, 1), (1, 1), (5, 3, 5, 2)),
    ):
        window = _window(2, 3, stride=stride, pad=pad, dilation=dilation)
        for each, epilogue in ((bias, clamped), (None, NO_EPILOGUE)):
            p.output(p.emit("conv_2d_nhwc", x, weight, each, ne=ne, window=window, groups=5, epilogue=epilogue))


@case("pool_2d_nhwc")
def pooling(p: Program) -> None:
    nan = torch.randn(2, 7, 6, 3)
    nan[1, 3, 2, 1] = NAN
    for x in (p.random(2, 7, 6, 3), p.input(nan)):
        for kind in PoolKind:
            for divisor in (0, 5):
                window = _window(2, 3, stride=(2, 2), pad=(1, 1))
                p.output(p.emit("pool_2d_nhwc", x, ne=(3, 4, 4, 2), kind=kind, divisor=divisor, window=window))
            dilated = _window(2, 2, dilation=(2, 3))
            p.output(p.emit("pool_2d_nhwc", x, ne=(3, 4, 4, 2), kind=kind, divisor=0, window=dilated))
            whole = _window(0, 0)
            p.output(p.emit("pool_2d_nhwc", x, ne=(3, 4, 5, 2), kind=kind, divisor=0, window=whole))
            p.output(p.emit("pool_2d_nhwc", x, ne=(3, 1, 1, 2), kind=kind, divisor=0, window=whole))


@case("max_pool_index_nhwc")
def places_of_maxima(p: Program) -> None:
    ties = torch.randint(0, 3, (4, 6, 5, 2)).float()
    ties[1, 2, 3, 1] = ties[1, 3, 3, 1] = NAN
    deep = Window3d(Window(2, 2, 1), Window(3, 2, 1), Window(2))
    p.output(p.emit("max_pool_index_nhwc", p.input(ties), ne=(2, 3, 3, 2), depth=2, out_depth=1, window=deep))
    flat = Window3d(Window(2, 2), Window(2, 2, dilation=2), Window())
    p.output(p.emit("max_pool_index_nhwc", p.input(ties), ne=(2, 2, 2, 4), depth=1, out_depth=1, window=flat))


@case("interpolate_nhwc")
def resizing(p: Program) -> None:
    x = p.random(2, 5, 7, 3)
    for mode in ScaleMode:
        for ne in ((3, 14, 10, 2), (3, 3, 9, 2), (3, 7, 5, 2), (3, 1, 1, 2), (3, 11, 2, 2)):
            p.output(p.emit("interpolate_nhwc", x, ne=ne, mode=mode))


@case("grid_sample_nhwc")
def sampling(p: Program) -> None:
    x = p.random(2, 5, 7, 3)
    grid = p.input(torch.empty(2, 4, 6, 2).uniform_(-1.6, 1.6))
    edges = p.input(torch.tensor([-1.0, 1.0, 0.0, -0.2, 3.0, -9.5]).reshape(1, 1, 3, 2).expand(2, 1, 3, 2).contiguous())
    for kind in SampleKind:
        for border in SampleBorder:
            for align in (True, False):
                how = {"kind": kind, "border": border, "align_corners": align}
                p.output(p.emit("grid_sample_nhwc", x, grid, **how), p.emit("grid_sample_nhwc", x, edges, **how))


# --------------------------------------------------------------------------------------------------------------- tests


@pytest.mark.parametrize("make", all_cases())
def test_op(make: Make) -> None:
    graph, inputs = built(make)
    check_graph(graph, inputs)


@pytest.mark.parametrize("name", make_corpus.PROGRAMS)
def test_corpus(name: str) -> None:
    graph, inputs = built(make_corpus.PROGRAMS[name])
    device = MlxDevice()
    if graph.symbols or not all(device.supports(node) for node in graph.nodes):
        with pytest.raises(ValueError, match="mlx: "):
            device.plan(graph)
    else:
        check_graph(graph, inputs)


@pytest.mark.parametrize("op", ["soft_max_ext", "attention"])
def test_masks_repeat_over_batches_and_heads(op: str) -> None:
    """As ggml repeats them, which torch's broadcasting does not: 2 x 2 masks for 4 x 6."""
    masks = torch.randn(2, 2, 5, 7).half()
    every = masks.repeat(2, 3, 1, 1)
    q, k = torch.randn(4, 6, 5, 8), torch.randn(4, 6, 7, 8)

    def attend(p: Program, mask: torch.Tensor) -> None:
        if op == "attention":
            value = p.input(k)
            p.output(p.emit(op, p.input(q), value, value, p.input(mask), scale=0.3, logit_softcap=0.0))
        else:
            p.output(p.emit(op, p.input(q @ k.mT), p.input(mask.float()), scale=0.3, max_bias=0.0))

    graph, inputs = built(lambda p: attend(p, masks))
    whole, given = built(lambda p: attend(p, every))
    check_graph(graph, inputs, expected=run_interpreter(whole, tuple(given)))


def test_every_op_has_a_case() -> None:
    assert set(TABLE) == set(CASES)
    assert set(TABLE) <= set(OPS)
    assert len(TABLE) >= 60


def test_refusals() -> None:
    device, build = MlxDevice(), Builder()
    x = build.input("x", DType.F32, (3,), (3, 1, 1, 1))
    assert build.emit("unary", x, kind=UnaryKind.LGAMMA).producer is not None
    reasons = {
        "MLX has no lgamma": build.emit("unary", x, kind=UnaryKind.LGAMMA),
        "f64 is no type of MLX's": build.emit("convert", x, dtype=DType.F64),
    }
    for reason, value in reasons.items():
        assert value.producer is not None
        assert device.refusal(value.producer) == reason
        assert not device.supports(value.producer)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_the_least_number_divided_by_minus_one(dtype: torch.dtype) -> None:
    least = torch.tensor([torch.iinfo(dtype).min], dtype=dtype)

    def divide(p: Program) -> None:
        a, b = p.input(least), p.input(-torch.ones(1, dtype=dtype))
        p.output(*(p.emit("binary", a, b, kind=kind) for kind in (BinaryKind.FLOOR_DIVIDE, BinaryKind.TRUNC_DIVIDE)))
        p.output(*(p.emit("binary", a, b, kind=kind) for kind in (BinaryKind.REMAINDER, BinaryKind.FMOD)))

    quotient, whole, rest, other = computed(*built(divide))
    assert quotient.item() == whole.item() == least.item()
    assert rest.item() == other.item() == 0


def test_quantized_input() -> None:
    """A weight that is an input is read anew in each run."""
    program = Program()
    x = program.random(3, 64)
    weight = torch.randn(5, 64)
    program.inputs.append(quantize(weight, DType.Q4_0))
    given = program.build.input("w", DType.Q4_0, (5, 64), (64, 5, 1, 1))
    program.output(program.emit("mul_mat", given, x))
    graph = program.build.finish()
    from executorch_ggml.ir.codec import dequantize

    expected = (program.inputs[0] @ dequantize(program.inputs[1], DType.Q4_0, (5, 64)).T).reshape(1, 1, 3, 5)
    check_graph(graph, program.inputs, expected=[expected])
