"""Writes small IR programs that cover every op, with their data: what hostile_test.cpp reads, and damages.

python -m tests.native.make_corpus FOLDER
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import sympy
import torch
from tests.native.corpus_program import Program, container
from torch import Tensor

from executorch_ggml.ir.dims import floor_div, maximum, minimum
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.ir.graph import Value
from executorch_ggml.ir.ops import OPS
from executorch_ggml.ir.ops.custom import BinaryKind, ReduceKind, UnaryKind
from executorch_ggml.ir.ops.indexing import ScanKind, ScatterKind
from executorch_ggml.ir.ops.quantized import Requantize
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
from executorch_ggml.ir.storage import Storage

PROGRAMS: dict[str, Callable[[Program], None]] = {}
ONE_TAP = Window2d(Window(1), Window(1))


def program(function: Callable[[Program], None]) -> Callable[[Program], None]:
    """Register what makes a program."""
    PROGRAMS[function.__name__] = function
    return function


# ------------------------------------------------------------------------------------------------------- elementwise


def _each_of(p: Program, ops: Sequence[str]) -> None:
    x = p.input(torch.rand(2, 3, 21) + 0.1)
    p.output(*(p.emit(op, x) for op in ops))


@program
def unary_powers(p: Program) -> None:
    _each_of(p, ("sqr", "sqrt", "log", "exp", "expm1", "softplus"))


@program
def unary_signs(p: Program) -> None:
    _each_of(p, ("abs", "sgn", "neg", "floor", "ceil", "trunc", "sin", "cos"))


@program
def unary_activations(p: Program) -> None:
    _each_of(p, ("tanh", "elu", "relu", "sigmoid", "gelu", "gelu_erf", "silu", "hardswish", "hardsigmoid"))


@program
def scaled(p: Program) -> None:
    x = p.random(4, 33)
    y = p.emit("leaky_relu", x, negative_slope=0.1)
    y = p.emit("scale_bias", y, s=2.0, b=-1.0)
    y = p.emit("clamp", y, min=-1.0, max=2.0)
    p.output(*(p.emit(op, y, x) for op in ("swiglu_split", "geglu_split", "geglu_erf_split")))


@program
def recurrent_steps(p: Program) -> None:
    for op, gates in (("lstm_cell", 4), ("gru_cell", 3)):
        for batch, width in ((1, 70), (3, 130), (200, 65)):
            given, size = p.random(2, batch, gates * width), (gates * width, batch, 1, 1)
            recurrent, projected = (p.build.view(given, (0, 0, plane, 0), size) for plane in range(2))
            p.output(p.emit(op, recurrent, projected, p.random(batch, width)))


@program
def arithmetic(p: Program) -> None:
    a = p.random(2, 3, 4, 5)
    b = p.input(torch.rand(4, 1) + 0.5)
    y = p.emit("add", p.emit("mul", a, b), b)
    p.output(p.emit("div", p.emit("sub", y, a), b))


@program
def custom_unary(p: Program) -> None:
    x = p.input(torch.rand(3, 70) + 0.1)
    n = p.input(torch.arange(-20, 20).reshape(4, 10))
    floats = (UnaryKind.RSQRT, UnaryKind.ERF, UnaryKind.LOG1P, UnaryKind.ROUND, UnaryKind.TAN, UnaryKind.ATAN)
    integers = (UnaryKind.NEG, UnaryKind.ABS, UnaryKind.BITWISE_NOT, UnaryKind.SIGN, UnaryKind.LOGICAL_NOT)
    halves = (UnaryKind.ROUND_F16, UnaryKind.ROUND_BF16)
    p.output(*(p.emit("unary", x, kind=kind) for kind in (*floats, UnaryKind.RECIPROCAL, UnaryKind.ISNAN)))
    p.output(*(p.emit("unary", n, kind=kind) for kind in integers))
    p.output(*(p.emit("unary", x, kind=kind) for kind in halves))


@program
def libm_unary(p: Program) -> None:
    x = p.input(torch.rand(3, 70) * 0.8 + 0.1)
    inverse = (UnaryKind.ACOS, UnaryKind.ASIN, UnaryKind.ATANH, UnaryKind.ASINH)
    powers = (UnaryKind.COSH, UnaryKind.SINH, UnaryKind.LOG2, UnaryKind.LOG10, UnaryKind.EXP2, UnaryKind.SIGNBIT)
    p.output(*(p.emit("unary", x, kind=kind) for kind in (*inverse, *powers, UnaryKind.ERFC, UnaryKind.LGAMMA)))
    p.output(p.emit("unary", p.emit("exp", x), kind=UnaryKind.ACOSH))


@program
def custom_binary(p: Program) -> None:
    a = p.input(torch.rand(3, 1, 65) + 0.5)
    b = p.input(torch.rand(2, 65) + 0.5)
    kinds = (BinaryKind.MAXIMUM, BinaryKind.POW, BinaryKind.FMOD, BinaryKind.REMAINDER, BinaryKind.LT, BinaryKind.DIV)
    more = (BinaryKind.ATAN2, BinaryKind.FLOOR_DIVIDE, BinaryKind.HYPOT)
    p.output(*(p.emit("binary", a, b, kind=kind) for kind in (*kinds, *more)))


@program
def integer_binary(p: Program) -> None:
    a = p.input(torch.arange(-12, 12, dtype=torch.int32).reshape(4, 6))
    b = p.input(torch.tensor([[3], [-2], [1], [7]], dtype=torch.int32))
    kinds = (BinaryKind.FLOOR_DIVIDE, BinaryKind.REMAINDER, BinaryKind.FMOD, BinaryKind.BITWISE_XOR, BinaryKind.ADD)
    more = (BinaryKind.GE, BinaryKind.POW, BinaryKind.SHIFT_LEFT, BinaryKind.SHIFT_RIGHT, BinaryKind.TRUNC_DIVIDE)
    p.output(*(p.emit("binary", a, b, kind=kind) for kind in (*kinds, *more)))


@program
def selection(p: Program) -> None:
    a = p.random(2, 1, 9)
    b = p.random(3, 9)
    condition = p.emit("binary", a, b, kind=BinaryKind.GT)
    other = p.emit("binary", condition, condition, kind=BinaryKind.LOGICAL_XOR)
    p.output(p.emit("select", condition, a, b), condition, other)


@program
def conversions(p: Program) -> None:
    x = p.input(torch.randn(5, 40) * 100)
    made = [p.emit("convert", x, dtype=dtype) for dtype in (DType.F16, DType.BF16, DType.F64, DType.I64, DType.BOOL)]
    p.output(*made, *(p.emit("convert", value, dtype=DType.F32) for value in made))


# ---------------------------------------------------------------------------------------------------------- movement


@program
def views(p: Program) -> None:
    x = p.random(3, 4, 5)
    turned = p.build.permute(x, (1, 2, 0, 3))
    window = p.build.view(turned, (1, 0, 1, 0), (2, 5, 2, 1), (1, 1, 1, 1))
    strided = p.build.view(x, (0, 1, 0, 0), (3, 2, 3, 1), (2, 2, 1, 1))
    p.output(p.emit("cont", turned), p.build.cont(window), p.build.reshape(p.build.cont(strided), (9, 2)))


@program
def shapes(p: Program) -> None:
    x = p.random(2, 3, 4)
    y = p.emit("concat", x, p.random(2, 5, 4), dim=1)
    padded = p.emit("pad_ext", y, lead=(1, 0, 2, 0), trail=(0, 1, 0, 1))
    p.output(y, padded, p.build.broadcast(p.random(3, 1), (4, 3, 2, 1)))


@program
def bytes_and_halves(p: Program) -> None:
    a = p.input(torch.randint(-9, 9, (2, 6), dtype=torch.int8))
    b = p.input(torch.randn(2, 6).half())
    p.output(p.emit("concat", a, a, dim=0), p.emit("concat", b, b, dim=1), p.build.cont(p.build.transpose(b)))


@program
def gathering(p: Program) -> None:
    table = p.constant(torch.randn(7, 6))
    halves = p.constant(torch.randn(9, 4).half())
    index = p.input(torch.tensor([0, 6, -1, 3]))
    rows = p.emit("to_index", index, size=7, wrap=True)
    p.output(p.emit("get_rows", table, p.build.reshape(rows, (4,))), p.emit("take_rows", halves, rows))


@program
def indexing(p: Program) -> None:
    x = p.random(3, 4, 5)
    across = p.input(torch.tensor([[0, -1, 2, 1, 0]]))
    along = p.input(torch.randint(0, 5, (3, 4, 7), dtype=torch.int32))
    p.output(p.emit("take", x, p.build.reshape(across, (1, 5)), axis=1, wrap=True))
    p.output(p.emit("take", x, along, axis=0, wrap=False))


@program
def scattering(p: Program) -> None:
    rows = p.input(torch.tensor([2, 0, -1, 2]))
    wide = p.input(torch.randint(0, 5, (3, 4), dtype=torch.int32))
    whole = {"ne": (6, 4, 1, 1), "axis": 1, "wrap": True}
    single = {"ne": (4, 3, 1, 1), "axis": 0, "wrap": False}
    place = p.build.reshape(rows, (1, 4))
    assign = {"kind": ScatterKind.ASSIGN, "include_self": True}
    p.output(p.emit("scatter", p.random(3, 6), place, p.random(4, 6), **whole, **assign))
    for kind in (ScatterKind.ADD, ScatterKind.MUL, ScatterKind.MAX):
        p.output(p.emit("scatter", p.random(3, 5), wide, p.random(3, 4), **single, kind=kind, include_self=False))
    counts, more = p.input(torch.arange(15).reshape(3, 5)), p.input(torch.arange(12).reshape(3, 4) - 6)
    p.output(p.emit("scatter", counts, wide, more, **single, kind=ScatterKind.MIN, include_self=True))


@program
def updating(p: Program) -> None:
    cache = p.build.state("cache", DType.F16, (4, 6, 2, 1), lambda: torch.ones(2, 6, 4).half())
    rows = p.build.reshape(p.input(torch.tensor([5, 1])), (1, 2))
    new = p.emit("convert", p.random(2, 2, 4), dtype=DType.F16)
    p.output(p.emit("update_state", cache, rows, new, ne=(4, 2, 2, 1), axis=1, wrap=False))


@program
def writing_rows(p: Program) -> None:
    new = p.random(2, 2, 32)
    for dtype in (DType.F32, DType.F16):
        cache = p.build.state(f"cache of {dtype.name}", dtype, (32, 2, 6, 1))
        rows = p.emit("to_index", p.input(torch.tensor([5, 1])), size=6, wrap=True)
        seen = p.build.permute(cache, (0, 2, 1, 3))
        p.output(p.emit("convert", p.emit("set_rows", seen, rows, new), dtype=DType.F32))
    quantized = p.build.state("quantized cache", DType.Q8_0, (32, 6, 2, 1))
    ones = p.emit("fill", ne=(32, 2, 2, 1), value=1.0, integer=0, dtype=DType.F32)
    kept = p.emit("set_rows", quantized, rows, ones)
    mask = p.input(torch.where(torch.arange(6) % 4 == 1, 0.0, -torch.inf).half().reshape(1, 1, 1, 6))
    p.output(p.emit("attention", p.random(1, 4, 1, 32), kept, kept, mask, scale=0.3, logit_softcap=0.0))


@program
def quantized_cache(p: Program) -> None:
    cache = p.build.state("cache", DType.Q8_0, (32, 2, 6, 1))
    rows = p.build.reshape(p.input(torch.tensor([5, 1])), (1, 1, 2))
    shape = {"ne": (32, 2, 2, 1), "axis": 2, "wrap": False}
    # Ones alone are the same in q8_0, and attention over equal rows gives them.
    filled = p.emit(
        "update_state", cache, rows, p.emit("fill", ne=(1, 1, 1, 1), value=1.0, integer=0, dtype=DType.F32), **shape
    )
    seen = p.build.permute(p.build.view(filled, (0, 0, 0, 0), (32, 2, 6)), (0, 2, 1, 3))
    mask = p.input(torch.where(torch.arange(6) % 4 == 1, 0.0, -torch.inf).half().reshape(1, 1, 1, 6))
    p.output(p.emit("attention", p.random(1, 4, 1, 32), seen, seen, mask, scale=0.3, logit_softcap=0.0))


@program
def sorting(p: Program) -> None:
    x = p.random(3, 9)
    n = p.input(torch.randperm(24).reshape(4, 6))
    p.output(p.emit("sort", x, count=9, descending=True), p.emit("sort", n, count=2, descending=False))
    p.output(p.emit("sort", p.build.transpose(x), count=2, descending=False))
    largest = p.emit("top_k", x, count=3, largest=True, in_order=False)
    p.output(p.emit("reduce", largest, kind=ReduceKind.SUM, axes=(0,)))  # their order is the C++ library's
    p.output(p.emit("top_k", n, count=2, largest=False, in_order=True))


@program
def scanning(p: Program) -> None:
    x = p.random(3, 9)
    n = p.input(torch.arange(-12, 12).reshape(4, 6))
    p.output(*(p.emit("scan", x, kind=kind, axis=0) for kind in ScanKind))
    p.output(*(p.emit("scan", n, kind=kind, axis=1) for kind in (ScanKind.PROD, ScanKind.ARGMIN)))


@program
def state(p: Program) -> None:
    x = p.random(2, 8)
    total = p.build.state("total", DType.F32, (8, 2, 1, 1), lambda: torch.ones(2, 8))
    steps = p.build.state("steps", DType.I64, (1, 1, 1, 1))
    grown = p.emit("add", total, x)
    counted = p.emit("add", steps, p.build.scalar(1, DType.I64))
    p.emit("write_state", grown, total)
    p.emit("write_state", counted, steps)
    p.output(grown, counted)


@program
def made_up(p: Program) -> None:
    counted = p.emit("iota", ne=(10, 2, 1, 1), start=3, step=-2, dtype=DType.I64)
    filled = p.build.fill((5, 4), 0.5, DType.F32)
    p.output(counted, filled, p.emit("iota", ne=(6, 1, 1, 1), start=0, step=1, dtype=DType.F32))


# ------------------------------------------------------------------------------------------------- rows and matrices


@program
def rows(p: Program) -> None:
    x = p.random(2, 3, 4, 17)
    y = p.emit("norm", x, eps=1e-5)
    z = p.emit("rms_norm", p.build.permute(x, (0, 2, 1, 3)), eps=1e-6)
    p.output(y, p.emit("sum_rows", z), p.emit("mean", z), p.emit("cumsum", x))


@program
def weighted_norms(p: Program) -> None:
    x, weight, bias = p.random(2, 3, 4, 37), p.random(37), p.constant(torch.randn(37))
    wide, one = p.random(5, 1029), p.random(4, 1)
    p.output(p.emit("norm", x, weight, bias, eps=1e-5), p.emit("norm", x, bias, weight, eps=1.0))
    p.output(p.emit("rms_norm", p.build.permute(x, (0, 2, 1, 3)), weight, eps=1e-6), p.emit("norm", one, eps=0.5))
    p.output(p.emit("norm", wide, p.random(1029), eps=0.0), p.emit("rms_norm", wide, eps=0.0))


@program
def rotations(p: Program) -> None:
    x, cos, sin = p.random(3, 5, 8), p.random(5, 8), p.random(1, 8)
    p.output(*(p.emit("rotary", x, cos, sin, interleaved=interleaved) for interleaved in (False, True)))


@program
def softmax(p: Program) -> None:
    scores = p.random(2, 4, 5, 6)
    mask = p.input(torch.randn(1, 1, 8, 6))
    y = p.emit("soft_max_ext", scores, mask, scale=0.5, max_bias=0.0)
    hidden = p.emit("diag_mask_inf", scores, n_past=1)
    p.output(y, p.emit("soft_max_ext", hidden, None, scale=1.0, max_bias=0.0))


@program
def reductions(p: Program) -> None:
    x = p.random(3, 4, 5, 6)
    n = p.input(torch.arange(24).reshape(2, 3, 4))
    whole = (ReduceKind.SUM, ReduceKind.MEAN, ReduceKind.MAX, ReduceKind.PROD)
    p.output(*(p.emit("reduce", x, kind=kind, axes=(0, 2)) for kind in whole))
    p.output(
        p.emit("reduce", x, kind=ReduceKind.ARGMAX, axes=(1,)), p.emit("reduce", n, kind=ReduceKind.MIN, axes=(0,))
    )
    p.output(p.emit("reduce", n, kind=ReduceKind.ANY, axes=(0, 1, 2)))
    wide = p.emit("convert", x, dtype=DType.F64)
    p.output(*(p.emit("reduce", wide, kind=kind, axes=(1,)) for kind in (*whole, ReduceKind.ARGMIN, ReduceKind.ANY)))


@program
def products(p: Program) -> None:
    a = p.constant(torch.randn(5, 8))
    halves = p.constant(torch.randn(2, 4, 5).half())
    y = p.emit("mul_mat", a, p.random(4, 3, 8))
    heads = p.emit("permute", p.random(6, 3, 8), axes=(0, 2, 1, 3))  # strided rows, which the own kernel takes
    p.output(y, p.emit("mul_mat", halves, y), p.emit("mul_mat", p.random(3, 5, 8), heads))


@program
def parallel(p: Program) -> None:
    """Work for several threads, in kernels of ours and of ggml's; a state that is the same after every run."""
    x = p.random(64, 96)
    y = p.emit("add", p.emit("mul_mat", p.constant(torch.randn(96, 96)), x), x)
    turned = p.emit("cont", p.build.transpose(p.emit("unary", y, kind=UnaryKind.ERF)))
    state = p.build.state("last", DType.F32, (64, 96, 1, 1))
    p.emit("write_state", turned, state)
    p.output(y, turned, p.emit("reduce", y, kind=ReduceKind.SUM, axes=(0,)), p.emit("cumsum", turned))


@program
def attention(p: Program) -> None:
    q = p.random(2, 4, 6, 8)
    k = p.random(2, 2, 7, 8)
    v = p.random(2, 2, 7, 8)
    for rows in (1, 6):
        mask = p.input(torch.randn(1, 1, rows, 7).half())
        p.output(p.emit("attention", q, k, v, mask, scale=0.3, logit_softcap=0.0))
    p.output(p.emit("attention", q, k, v, None, scale=0.3, logit_softcap=5.0))
    halves = (p.build.convert(t, DType.BF16) for t in (k, v))
    p.output(p.emit("attention", q, *halves, None, scale=0.3, logit_softcap=0.0))


@program
def quantized_products(p: Program) -> None:
    x = p.integers(3, 256)
    for dtype in (DType.Q4_0, DType.Q8_0, DType.Q4_K, DType.Q6_K, DType.IQ4_NL):
        p.output(p.emit("mul_mat", p.quantized(dtype, 16, 256), x))
    p.output(p.emit("mul_mat", p.quantized(DType.Q6_K, 16, 256), p.integers(33, 256)))  # rows for the own kernel


@program
def chosen_products(p: Program) -> None:
    x, ids = p.integers(4, 1, 64), p.input(torch.tensor([0, 2, 1, 0, 2, 1, -1, 0]))
    rows = p.build.reshape(p.emit("to_index", ids, size=3, wrap=True), (2, 4))
    for weight in (p.quantized(DType.Q4_0, 3, 5, 64), p.constant(torch.randn(3, 5, 64))):
        p.output(p.emit("mul_mat_id", weight, x, rows))


@program
def quantized_rows(p: Program) -> None:
    rows = p.emit("to_index", p.input(torch.tensor([3, 0, -1, 3])), size=5, wrap=True)
    for dtype in (DType.Q5_1, DType.Q3_K, DType.MXFP4, DType.TQ2_0):
        p.output(p.emit("get_rows", p.quantized(dtype, 5, 256), rows))


@program
def panels(p: Program) -> None:
    rows = p.emit("to_index", p.input(torch.tensor([3, 0, -1, 18])), size=19, wrap=True)
    for dtype in (DType.Q4_0, DType.Q4_K, DType.Q6_K):
        matrix = p.quantized(dtype, 19, 512, kind=Storage.PANELS)
        p.output(p.emit("get_rows", matrix, rows))
        p.output(*(p.emit("mul_mat", matrix, p.integers(count, 512)) for count in (1, 9)))
    read_otherwise = p.quantized(DType.Q4_0, 19, 64, kind=Storage.PANELS)
    p.output(p.emit("mul_mat", p.build.view(read_otherwise, (0, 0, 0, 0), (64, 7, 1, 1)), p.integers(3, 64)))


# ------------------------------------------------------------------------------------------------------------ images


def _pixels(p: Program, n: int, c: int, h: int, w: int) -> Value:
    return p.random(n, h, w, c)


_THREE = Window2d(Window(3, pad=1), Window(3, pad=1))


@program
def convolution(p: Program) -> None:
    x = _pixels(p, 2, 4, 7, 6)
    bias = p.constant(torch.randn(20))
    relu = Epilogue(Activation.CLAMP, 0.0, 6.0)
    for kind in (Storage.KERNEL_BLOCKS, Storage.PLAIN):
        weight = p.constant(torch.randn(20, 4, 3, 3), kind)
        p.output(p.emit("conv_2d_nhwc", x, weight, bias, ne=(20, 6, 7, 2), window=_THREE, groups=1, epilogue=relu))


@program
def grouped_transposed(p: Program) -> None:
    x = _pixels(p, 1, 6, 5, 5)
    weight = p.constant(torch.randn(4, 3, 2, 2), Storage.KERNEL_BLOCKS, 2)
    spread = Window2d(Window(2, pad=1, up=2), Window(2, pad=1, up=2))
    p.output(p.emit("conv_2d_nhwc", x, weight, None, ne=(4, 10, 10, 1), window=spread, groups=2, epilogue=NO_EPILOGUE))


@program
def linear(p: Program) -> None:
    x, bias = p.random(3, 5, 16), p.constant(torch.randn(33))
    for kind, dtype in (
        (Storage.MATRIX_BLOCKS, torch.float32),
        (Storage.MATRIX_BLOCKS, torch.bfloat16),
        (Storage.PLAIN, torch.float16),
    ):
        weight = p.constant(torch.randn(33, 16).to(dtype), kind)
        p.output(p.emit("linear", x, weight, bias, epilogue=Epilogue(Activation.SILU)))


@program
def bfloat_layers(p: Program) -> None:
    """Layers that round their inputs, of even and odd numbers of channels."""

    def blocks(*shape: int, groups: int = 1) -> Value:
        return p.constant(torch.randn(shape).bfloat16(), Storage.KERNEL_BLOCKS, groups)

    x = _pixels(p, 2, 3, 14, 18)
    rounded = p.emit("unary", x, kind=UnaryKind.ROUND_BF16)
    wide = Window2d(Window(3, stride=2, pad=2, dilation=2), Window(3, stride=3, pad=1))
    first = {"ne": (66, 9, 5, 2), "window": wide, "groups": 1, "epilogue": NO_EPILOGUE}
    y = p.emit("conv_2d_nhwc", rounded, blocks(66, 3, 3, 3), p.constant(torch.randn(66)), **first)
    rounded = p.emit("unary", y, kind=UnaryKind.ROUND_BF16)
    second = {"ne": (16, 9, 5, 2), "window": _THREE, "groups": 1, "epilogue": Epilogue(Activation.HARDSWISH)}
    z = p.emit("conv_2d_nhwc", rounded, blocks(16, 66, 3, 3), None, **second)
    grouped = {**second, "ne": (12, 9, 5, 2), "groups": 3}
    p.output(z, p.emit("conv_2d_nhwc", rounded, blocks(12, 22, 3, 3, groups=3), None, **grouped))
    spread = Window2d(Window(2, pad=1, up=2), Window(2, pad=1, up=2))
    last = {"ne": (7, 18, 10, 2), "window": spread, "groups": 1, "epilogue": NO_EPILOGUE}
    p.output(p.emit("conv_2d_nhwc", rounded, blocks(7, 66, 2, 2), None, **last))
    odd = p.emit("unary", p.random(3, 5, 17), kind=UnaryKind.ROUND_BF16)
    weight = p.constant(torch.randn(33, 17).bfloat16(), Storage.MATRIX_BLOCKS)
    p.output(p.emit("linear", odd, weight, None, epilogue=NO_EPILOGUE))


@program
def depthwise(p: Program) -> None:
    x = _pixels(p, 1, 19, 8, 9)
    bias = p.constant(torch.randn(19))
    weight = p.constant(torch.randn(19, 1, 3, 3), Storage.DEPTHWISE, 19)
    y = p.emit("conv_2d_nhwc", x, weight, bias, ne=(19, 9, 8, 1), window=_THREE, groups=19, epilogue=NO_EPILOGUE)
    wide = Window2d(Window(3, stride=2, pad=2, dilation=2), Window(3, stride=3))
    halves = p.constant(torch.randn(19, 1, 3, 3).bfloat16(), Storage.DEPTHWISE, 19)
    for other in (p.constant(torch.randn(19, 1, 3, 3)), p.constant(torch.randn(19, 1, 3, 3).half()), halves):
        p.output(p.emit("conv_2d_nhwc", y, other, None, ne=(19, 5, 2, 1), window=wide, groups=19, epilogue=NO_EPILOGUE))


def _int8(*shape: int) -> Tensor:
    return torch.randint(-127, 128, shape, dtype=torch.int8)


@program
def integers(p: Program) -> None:
    """To bytes and back, functions of them, and what is between."""
    x = p.random(2, 3, 37)
    signed = p.emit("quantize", x, inverse=20.0, zero=-5, low=-128, high=127, dtype=DType.I8)
    unsigned = p.emit("quantize", x, inverse=30.0, zero=120, low=0, high=255, dtype=DType.U8)
    wide = p.emit("quantize", x, inverse=999.0, zero=3, low=-32768, high=32767, dtype=DType.I16)
    tables = [p.constant(table) for table in (_int8(256), torch.randn(256))]
    both = {"a_scale": 0.05, "a_zero": -5, "b_scale": 0.03, "b_zero": 120, "inverse": 25.0}
    outputs = (Requantize(DType.U8, 7, 0.0, 200.0), Requantize(DType.I8, 0, -9.0, 99.0))
    for kind, output in zip((BinaryKind.ADD, BinaryKind.MUL), outputs, strict=True):
        p.output(p.emit("quantized_binary", signed, unsigned, kind=kind, **both, output=output))
    p.output(signed, unsigned, wide, *(p.emit("lookup", unsigned, table) for table in tables))
    p.output(*(p.emit("dequantize", value, None, scale=0.05, zero=2) for value in (signed, unsigned, wide)))
    p.output(p.emit("dequantize", signed, p.constant(torch.rand(37)), scale=1.0, zero=0))


@program
def integer_convolution(p: Program) -> None:
    x, scale, bias = p.input(_int8(2, 7, 6, 5)), p.constant(torch.rand(20) * 0.01), p.constant(torch.randn(20))
    output = Requantize(DType.I8, 3, -100.0, 100.0)
    layer = {"ne": (20, 6, 7, 2), "window": _THREE, "groups": 1, "zero": -7, "output": output}
    for kind in (Storage.KERNEL_BLOCKS, Storage.PLAIN):
        p.output(p.emit("quantized_conv_2d_nhwc", x, p.constant(_int8(20, 5, 3, 3), kind), scale, bias, **layer))
    spread = Window2d(Window(2, pad=1, up=2), Window(2, pad=1, up=2))
    weight, floats = p.constant(_int8(20, 1, 2, 2), Storage.KERNEL_BLOCKS, 5), Requantize(DType.F32, 0, -9.0, 9.0)
    layer = {"ne": (20, 12, 14, 2), "window": spread, "groups": 5, "zero": 125, "output": floats}
    p.output(p.emit("quantized_conv_2d_nhwc", x, weight, scale, None, **layer))


@program
def integer_pooling(p: Program) -> None:
    window = Window2d(Window(3, stride=2, pad=1), Window(2, stride=1))
    for x in (p.input(_int8(2, 7, 6, 70)), p.input(torch.randint(0, 256, (2, 7, 6, 5), dtype=torch.uint8))):
        p.output(p.emit("pool_2d_nhwc", x, ne=(x.ne[0], 3, 6, 2), kind=PoolKind.MAX, window=window, divisor=0))


@program
def integer_averages(p: Program) -> None:
    window = Window2d(Window(3, stride=2, pad=1), Window(2, stride=1, dilation=2))
    adaptive = Window2d(Window(kernel=0), Window(kernel=0))
    outputs = (Requantize(DType.U8, 7, 0.0, 200.0), Requantize(DType.I8, 0, -9.0, 99.0))
    images = (p.input(_int8(2, 7, 6, 70)), p.input(torch.randint(0, 256, (2, 7, 6, 5), dtype=torch.uint8)))
    for x, output in zip(images, outputs, strict=True):
        grids = {"zero": 20, "factor": 0.7, "output": output}
        of = {"kind": PoolKind.AVG_PAD, "window": window, "divisor": 0}
        p.output(p.emit("quantized_pool_2d_nhwc", x, ne=(x.ne[0], 3, 5, 2), **of, **grids))
        of = {"kind": PoolKind.AVG, "window": adaptive, "divisor": 0}
        p.output(p.emit("quantized_pool_2d_nhwc", x, ne=(x.ne[0], 4, 1, 2), **of, **grids))


@program
def integer_linear(p: Program) -> None:
    x, scale = p.input(_int8(3, 5, 18)), p.constant(torch.rand(33) * 0.01)
    for kind in (Storage.MATRIX_BLOCKS, Storage.PLAIN):
        weight, output = p.constant(_int8(33, 18), kind), Requantize(DType.U8, 100, 0.0, 255.0)
        p.output(p.emit("quantized_linear", x, weight, scale, p.constant(torch.randn(33)), zero=4, output=output))


@program
def integer_depthwise(p: Program) -> None:
    x, scale, bias = p.input(_int8(1, 8, 9, 19)), p.constant(torch.rand(19) * 0.05), p.constant(torch.randn(19))
    output = Requantize(DType.I8, 3, -128.0, 127.0)
    layer = {"ne": (19, 9, 8, 1), "window": _THREE, "groups": 19, "zero": -7, "output": output}
    weight = p.constant(_int8(19, 1, 3, 3), Storage.DEPTHWISE, 19)
    y = p.emit("quantized_conv_2d_nhwc", x, weight, scale, bias, **layer)
    wide = Window2d(Window(3, stride=2, pad=2, dilation=2), Window(3, stride=3))
    layer = {"ne": (19, 5, 2, 1), "window": wide, "groups": 19, "zero": 3, "output": output}
    p.output(y, p.emit("quantized_conv_2d_nhwc", y, p.constant(_int8(19, 1, 3, 3)), scale, None, **layer))
    cropped = Window2d(Window(3, pad=-1), Window(3, pad=-2))  # windows that begin inside the image
    layer = {"ne": (19, 5, 3, 1), "window": cropped, "groups": 19, "zero": 3, "output": output}
    p.output(p.emit("quantized_conv_2d_nhwc", y, p.constant(_int8(19, 1, 3, 3)), scale, None, **layer))
    far = Window2d(*[Window(3, pad=300, dilation=300)] * 2)  # one tap sees the image
    layer = {"ne": (19, 9, 8, 1), "window": far, "groups": 19, "zero": 3, "output": output}
    for kernel in (p.constant(_int8(19, 1, 3, 3), Storage.DEPTHWISE, 19), p.constant(_int8(19, 1, 3, 3))):
        p.output(p.emit("quantized_conv_2d_nhwc", y, kernel, scale, None, **layer))
    image = p.input(_int8(1, 8, 9, 8))
    layer = {"ne": (5, 5, 3, 1), "window": cropped, "groups": 1, "zero": 3, "output": output}
    five = p.constant(torch.rand(5) * 0.05)
    p.output(p.emit("quantized_conv_2d_nhwc", image, p.constant(_int8(5, 8, 3, 3)), five, None, **layer))


@program
def planes(p: Program) -> None:
    """Convolutions and pooling that ggml has."""
    image, window = p.random(2, 6, 7, 9), Window2d(Window(3, stride=2, pad=1), Window(2, dilation=2))
    full, single = p.constant(torch.randn(5, 6, 2, 3)), p.constant(torch.randn(6, 1, 2, 3))
    plain = {"window": window, "groups": 1, "epilogue": NO_EPILOGUE}
    p.output(p.emit("conv_2d", image, full, None, ne=(5, 5, 5, 2), **plain))
    one_tap = p.constant(torch.randn(4, 6, 1, 1))
    p.output(p.emit("conv_2d", image, one_tap, None, ne=(9, 7, 4, 2), **{**plain, "window": ONE_TAP}))
    for weight in (single, p.emit("mul", single, single)):
        p.output(p.emit("conv_2d", image, weight, None, ne=(5, 5, 6, 2), **{**plain, "groups": 6}))
    pooled = Window2d(Window(3, stride=2, pad=1), Window(2))
    for kind in (PoolKind.MAX, PoolKind.AVG_PAD):
        p.output(p.emit("pool_2d", image, ne=(5, 6, 6, 2), kind=kind, window=pooled, divisor=0))


@program
def pooling(p: Program) -> None:
    x = _pixels(p, 2, 5, 6, 7)
    window = Window2d(Window(3, stride=2, pad=1), Window(2, pad=1))
    kinds = (PoolKind.MAX, PoolKind.AVG, PoolKind.AVG_PAD)
    p.output(*(p.emit("pool_2d_nhwc", x, ne=(5, 4, 7, 2), kind=kind, window=window, divisor=0) for kind in kinds))


@program
def adaptive_pooling(p: Program) -> None:
    x = _pixels(p, 6, 5, 6, 7)
    even = Window(kernel=0)
    how = {"ne": (5, 3, 4, 6), "window": Window2d(even, even), "divisor": 0}
    p.output(*(p.emit("pool_2d_nhwc", x, kind=kind, **how) for kind in (PoolKind.MAX, PoolKind.AVG)))
    window = Window3d(Window(3, 2, 1), Window(3, dilation=2), Window(2, 2, 1))
    p.output(p.emit("max_pool_index_nhwc", x, ne=(5, 4, 2, 4), depth=3, out_depth=2, window=window))
    p.output(p.emit("max_pool_index_nhwc", x, ne=(5, 3, 4, 4), depth=3, out_depth=2, window=Window3d(even, even, even)))


@program
def sampling(p: Program) -> None:
    x = _pixels(p, 2, 5, 4, 6)
    grid = p.input(torch.randn(2, 3, 7, 2))
    for kind, border in zip(SampleKind, SampleBorder, strict=True):
        p.output(
            p.emit("grid_sample_nhwc", x, grid, kind=kind, border=border, align_corners=kind == SampleKind.NEAREST)
        )


@program
def resizing(p: Program) -> None:
    x = p.random(1, 2, 4, 5)
    p.output(*(p.emit("interpolate", x, ne=(9, 7, 2, 1), mode=mode) for mode in ScaleMode))
    p.output(*(p.emit("interpolate_nhwc", x, ne=(5, 9, 3, 1), mode=mode) for mode in ScaleMode))


# ----------------------------------------------------------------------------------------------- what graphs can be


@program
def symbolic(p: Program) -> None:
    n = sympy.Symbol("n", integer=True, positive=True)
    m = sympy.Symbol("m", integer=True, positive=True)
    x = p.input(torch.randn(6, 4), (2 * n, 4))
    k = p.input(torch.tensor(2), ())
    p.build.symbol(n, 0, 0, scale=2, min=1, max=64)
    p.build.symbol(m, 1, -1, min=0, max=8)
    rows = p.build.view(x, (0, m, 0, 0), (4, 2 * n - m, 1, 1))
    y = p.emit("concat", rows, x, dim=1)
    size = 3 * n + floor_div(m, 2) + sympy.Mod(n, 2) + minimum(n, m) + maximum(n, m)
    filled = p.build.fill((), size, DType.I64)
    p.output(y, filled, p.build.broadcast(k, (n, 1, 1, 1)))


@program
def samples(p: Program) -> None:
    """A batch with work enough that it is computed by parts; one input is the same for all samples."""
    n = sympy.Symbol("n", integer=True, positive=True)
    x = p.input(torch.randn(8, 64, 96), (n, 64, 96))
    shift = p.random(64, 96)
    p.build.symbol(n, 0, 0, min=1, max=64, batch=True)
    y = p.emit("add", p.emit("mul_mat", p.constant(torch.randn(96, 96)), x), shift)
    p.output(y, p.emit("reduce", y, kind=ReduceKind.MAX, axes=(0,)))


@program
def deep(p: Program) -> None:
    y = p.random(2, 3)
    for _ in range(150):
        y = p.emit("add", p.emit("neg", y), p.build.scalar(1.0, DType.F32))
    p.output(y)


@program
def shared_leaves(p: Program) -> None:
    leaves = [p.constant(torch.full((2, 2), float(i))) for i in range(40)]
    for leaf in leaves:
        p.output(leaf, leaf)
    p.output(p.random(2, 2))


@program
def long_lived(p: Program) -> None:
    """Short-lived and long-lived values by turns: no gap in memory can be joined with its neighbour."""
    x = p.random(16)
    halves = [
        (p.emit("scale_bias", x, s=float(i), b=0.0), p.emit("scale_bias", x, s=float(i), b=1.0)) for i in range(300)
    ]
    first, second = halves[0]
    for a, _ in halves[1:]:
        first = p.emit("add", first, a)
    for _, b in halves[1:]:
        second = p.emit("add", second, b)
    p.output(first, second)


@program
def nothing(p: Program) -> None:
    x = p.input(torch.empty(0, 4))
    y = p.emit("concat", p.emit("sqr", x), p.random(2, 4), dim=1)
    p.output(y, p.emit("reduce", x, kind=ReduceKind.SUM, axes=(1,)), p.emit("neg", x))


# ----------------------------------------------------------------------------------------------------------- writing


def programs() -> dict[str, Program]:
    """All programs, built. Raises AssertionError where none has an op that the runtime computes."""
    torch.manual_seed(0)
    built = {}
    for name, make in PROGRAMS.items():
        built[name] = Program()
        make(built[name])
    used = {node.op for p in built.values() for node in p.build.graph.nodes}
    missing = {name for name, spec in OPS.items() if spec.call != "replaced"} - used
    assert not missing, f"no program has {sorted(missing)}: add them to make_corpus.py"
    return built


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Write the programs that the native tests read, and damage.")
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    built = programs()
    for old in folder.glob("*.eggc"):
        if old.stem not in built:
            old.unlink()
    for name, p in built.items():
        (folder / f"{name}.eggc").write_bytes(container(p))


if __name__ == "__main__":
    main()
