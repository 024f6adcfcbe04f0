"""What ggml programs ask of a device: a small graph for each op, in the types, shapes and modes that it has."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np

from .ggml import BF16, F16, F32, I32, I64, Q4_0, Q4_K, Q8_0, Build, Graph, Tensor, call, data_address

EXACT, ROUNDED = 1e-5, 2e-3  # in f32; and where ggml's CPU rounds to a half type, or looks a function up in a table
HALF_SUMS = 1e-2  # where it adds up in f16
QUANTIZED = 3e-2  # where it rounds activations to 8-bit integers


@dataclass(frozen=True)
class Case:
    """A graph, and how far a device's answer may be from the CPU's, relative to the largest number in it."""

    name: str
    build: Build
    tolerance: float = EXACT
    supported: bool = True


def _unary(name: str, tolerance: float = EXACT) -> list[Case]:
    def whole(g: Graph) -> Tensor:
        return g.op(name, g.leaf(F32, 33, 5, 2))

    def strided(g: Graph) -> Tensor:
        a = g.leaf(F32, 8, 6, 2)
        return g.op(name, g.op("view_3d", a, 5, 6, 2, 32, 192, 4))

    return [Case(name, whole, tolerance), Case(f"{name} strided", strided, tolerance)]


def _binary(name: str, type: int, shape: tuple[int, ...], other: tuple[int, ...]) -> Case:
    def build(g: Graph) -> Tensor:
        b = g.leaf(F32, *other)
        if name == "div":
            b = g.op("scale_bias", g.op("abs", b), 1.0, 0.5)
        return g.op(name, g.leaf(type, *shape), b)

    return Case(f"{name} {type} {shape} {other}", build, EXACT if type == F32 else ROUNDED)


def _mul_mat(a: int, b: int, m: int, n: int, k: int, batch: tuple[int, int], repeat: tuple[int, int]) -> Case:
    def build(g: Graph) -> Tensor:
        weights = g.leaf(a, k, m, *batch, weight=a not in (F32, F16, BF16))
        return g.op("mul_mat", weights, g.leaf(b, k, n, batch[0] * repeat[0], batch[1] * repeat[1]))

    tolerance = {F32: EXACT, F16: ROUNDED, BF16: ROUNDED}.get(a, QUANTIZED)
    return Case(f"mul_mat {a} {b} {m}x{n}x{k} {batch} {repeat}", build, tolerance)


def _rope(mode: int, type: int = F32, width: int = 32, dims: int = 32, factors: bool = False, ext: float = 0.0) -> Case:
    def build(g: Graph) -> Tensor:
        tokens = 7
        sections = (ctypes.c_int * 4)(4, 4, 4, 4) if mode >= 8 else None
        places = np.arange(tokens * (4 if mode >= 8 else 1)) % 11
        x, position = g.leaf(type, width, 3, tokens, 1), g.leaf(I32, places.size, data=places)
        table = g.leaf(F32, dims // 2, data=1 + np.arange(dims // 2) / 8) if factors else None
        tail = (4096, 10000.0, 1.0 if ext == 0.0 else 0.5, ext, 1.0, 32.0, 1.0)
        if sections is None:
            return g.op("rope_ext", x, position, table, dims, mode, *tail)
        return g.op("rope_multi", x, position, table, dims, sections, mode, *tail)

    return Case(f"rope {mode} {type} {width}/{dims} {factors} {ext}", build, EXACT if type == F32 else ROUNDED)


def _soft_max(mask: int | None, heads: int, bias: float, sinks: bool = False) -> Case:
    def build(g: Graph) -> Tensor:
        a = g.leaf(F32, 19, 5, heads, 2)
        m = None if mask is None else g.leaf(mask, 19, 5, 1, 1)
        made = g.op("soft_max_ext", a, m, 0.3, bias)
        if sinks:
            call("ggml_soft_max_add_sinks", made, g.leaf(F32, heads), result=None)
        return made

    return Case(f"soft_max {mask} {heads} {bias} {sinks}", build)


def _flash(heads: int, kv_heads: int, mask: bool, kv: int, bias: float = 0.0, cap: float = 0.0, seen: int = 40) -> Case:
    def build(g: Graph) -> Tensor:
        q = g.op("permute", g.leaf(F32, 32, heads, 6, 1), 0, 2, 1, 3)
        k, v = (g.leaf(kv, 32, 64, kv_heads, 1) for _ in range(2))
        hidden = np.where(np.arange(64)[None] > np.arange(64)[:, None] + seen, -np.inf, 0.0)
        m = g.leaf(F16, 64, 64, 1, 1, data=hidden) if mask else None
        return g.op("flash_attn_ext", q, k, v, m, 0.2, bias, cap)

    return Case(f"flash_attn {heads}/{kv_heads} {mask} {kv} {bias} {cap} {seen}", build, HALF_SUMS)


def _get_rows(type: int, batch: int = 1, weight: bool = False) -> Case:
    def build(g: Graph) -> Tensor:
        rows = np.array([[4, 0, 8, 4], [1, 2, 3, 0]])[:batch]
        return g.op("get_rows", g.leaf(type, 64, 9, batch, weight=weight), g.leaf(I32, 4, batch, data=rows))

    return Case(f"get_rows {type} {batch}", build, EXACT)


def _set_rows(type: int, index: int, supported: bool = True) -> Case:
    def build(g: Graph) -> list[Tensor]:
        table = g.leaf(type, 32, 9, 2)
        rows = g.leaf(F32, 32, 3, 2)
        made = g.op("set_rows", table, rows, g.leaf(index, 3, 1, data=[7, 0, 4]))
        if type == Q8_0:
            return [g.op("get_rows", made, g.leaf(I32, 3, 2, data=[7, 0, 4] * 2))]
        read = g.op("scale", g.op("cast", g.op("view_2d", made, 32, 4, 32 * (2 if type == F16 else 4), 0), F32), 2.0)
        return [made, read]

    return Case(f"set_rows {type} {index}", build, EXACT, supported)


def _copies() -> list[Case]:
    def into_window(g: Graph) -> list[Tensor]:
        cache = g.leaf(F16, 16, 10)
        window = g.op("view_2d", cache, 16, 3, 32, 4 * 32)
        written = g.op("cpy", g.leaf(F32, 16, 3), window)
        return [written, g.op("scale", g.op("cast", cache, F32), 1.5)]

    def transposed_cache(g: Graph) -> list[Tensor]:
        cache = g.leaf(F32, 10, 16)
        window = g.op("view_2d", cache, 3, 16, 40, 8)
        written = g.op("cpy", g.op("transpose", g.leaf(F32, 16, 3)), window)
        return [written, g.op("mul_mat", g.op("view_2d", cache, 5, 16, 40, 0), g.leaf(F32, 5, 2))]

    def in_place(g: Graph) -> list[Tensor]:
        a = g.leaf(F32, 8, 4)
        b = g.op("relu_inplace", g.op("add_inplace", g.op("mul", a, a), g.leaf(F32, 8, 4)))
        return [b, g.op("add", b, a)]

    def in_place_on_leaf(g: Graph) -> list[Tensor]:
        a = g.leaf(F32, 8, 4)
        part = g.op("view_2d", a, 8, 2, 32, 32)
        before = g.op("scale", a, 3.0)
        return [before, g.op("scale_inplace", part, 2.0), a]

    def accumulate(g: Graph) -> Tensor:
        return g.op("acc", g.leaf(F32, 12, 5, 2), g.leaf(F32, 4, 3, 1), 48, 240, 240, 52)

    def replace(g: Graph) -> Tensor:
        return g.op("set", g.leaf(F32, 12, 5, 2), g.leaf(F32, 4, 3, 1), 48, 240, 240, 52)

    def permuted(g: Graph) -> Tensor:
        return g.op("cont", g.op("permute", g.leaf(F32, 6, 5, 4, 3), 2, 0, 3, 1))

    def overlapping(g: Graph) -> Tensor:
        return g.op("cont", g.op("view_2d", g.leaf(F32, 20), 5, 3, 8, 4))

    return [
        Case("cpy into a window", into_window, ROUNDED),
        Case("cpy into columns", transposed_cache),
        Case("in place", in_place),
        Case("in place on a leaf", in_place_on_leaf),
        Case("acc", accumulate),
        Case("set", replace),
        Case("cont permuted", permuted),
        Case("cont overlapping", overlapping),
        Case("cast f16", lambda g: g.op("cast", g.leaf(F32, 9, 3), F16)),
        Case("cast bf16", lambda g: g.op("cast", g.leaf(F32, 9, 3), BF16)),
        Case("dup", lambda g: g.op("dup", g.leaf(F16, 9, 3))),
    ]


def _parts_of_a_weight(type: int) -> Case:
    def build(g: Graph) -> list[Tensor]:
        weight, x = g.leaf(type, 64, 16, weight=True), g.leaf(F32, 64, 3)
        row = 64 // 32 * 34 if type == Q8_0 else 64 * 4
        part = g.op("view_2d", weight, 64, 8, row, 4 * row)
        return [g.op("mul_mat", weight, x), g.op("mul_mat", part, x)]

    return Case(f"a weight and a part of it {type}", build, QUANTIZED if type == Q8_0 else EXACT)


def _mul_mat_id(type: int, rows: int) -> Case:
    def build(g: Graph) -> Tensor:
        experts = g.leaf(type, 32, 8, 4, weight=type not in (F32, F16))
        ids = g.leaf(I32, 2, 5, data=np.array([[0, 3], [1, 2], [3, 3], [2, 0], [1, 0]]))
        return g.op("mul_mat_id", experts, g.leaf(F32, 32, rows, 5), ids)

    tolerance = {F32: EXACT, F16: ROUNDED}.get(type, QUANTIZED)
    return Case(f"mul_mat_id {type} {rows}", build, tolerance)


def _concat(dim: int) -> Case:
    return Case(f"concat {dim}", lambda g: g.op("concat", g.leaf(F32, 3, 4, 2, 2), g.leaf(F32, 3, 4, 2, 2), dim))


def _triangle(kind: int) -> Case:
    return Case(f"tri {kind}", lambda g: g.op("tri", g.leaf(F32, 6, 6, 2), kind))


def _glu(name: str, split: bool, tolerance: float) -> Case:
    def build(g: Graph) -> Tensor:
        if split:
            return g.op(f"{name}_split", g.leaf(F32, 10, 3), g.leaf(F32, 10, 3))
        return g.op(name, g.leaf(F32, 20, 3))

    return Case(f"{name} {split}", build, tolerance)


def _spatial() -> list[Case]:
    def conv(groups: bool) -> Build:
        def build(g: Graph) -> Tensor:
            kernel, image = g.leaf(F16, 3, 3, 1 if groups else 4, 4 if groups else 6), g.leaf(F32, 10, 9, 4, 2)
            return g.op("conv_2d_dw" if groups else "conv_2d", kernel, image, 2, 1, 1, 1, 1, 2)

        return build

    def direct(name: str, channels: int, filters: int, type: int = F32, weight: bool = False) -> Build:
        def build(g: Graph) -> Tensor:
            kernel = g.leaf(type, 3, 3, channels, filters, weight=weight)
            return g.op(name, kernel, g.leaf(F32, 10, 9, 4, 2), 1, 2, 1, 0, 1, 1)

        return build

    def channels_inside(g: Graph) -> Tensor:
        image = g.op("permute", g.leaf(F32, 4, 10, 9, 2), 2, 0, 1, 3)
        kernel = g.op("permute", g.leaf(F32, 4, 1, 3, 3), 3, 2, 0, 1)
        return g.op("conv_2d_dw_direct", kernel, image, 1, 2, 1, 0, 1, 1)

    def pool(kind: int) -> Build:
        return lambda g: g.op("pool_2d", g.leaf(F32, 10, 8, 3, 2), kind, 3, 2, 2, 2, 1.0, 1.0)

    def upscale(mode: int) -> Build:
        return lambda g: g.op("interpolate", g.leaf(F32, 5, 4, 3, 2), 10, 12, 3, 2, mode)

    return [
        Case("conv_2d", conv(groups=False), ROUNDED),
        Case("conv_2d depthwise by columns", conv(groups=True), ROUNDED),
        Case("conv_2d direct", direct("conv_2d_direct", 4, 6)),
        Case("conv_2d direct, a weight", direct("conv_2d_direct", 4, 18, weight=True)),
        Case("conv_2d direct, a weight in f16", direct("conv_2d_direct", 4, 16, F16, weight=True), ROUNDED),
        Case("conv_2d_dw direct", direct("conv_2d_dw_direct", 1, 4)),
        Case("conv_2d_dw direct, channels inside", channels_inside),
        Case("conv_1d", lambda g: g.op("conv_1d", g.leaf(F16, 3, 4, 6), g.leaf(F32, 12, 4, 1), 2, 1, 1), ROUNDED),
        Case("pool_2d max", lambda g: g.op("pool_2d", g.leaf(F32, 10, 8, 3, 2), 0, 2, 2, 2, 2, 0.0, 0.0)),
        Case("pool_2d avg", lambda g: g.op("pool_2d", g.leaf(F32, 10, 8, 3, 2), 1, 2, 2, 2, 2, 0.0, 0.0)),
        Case("pool_2d max padded", pool(0)),
        Case("pool_2d avg padded", pool(1)),
        Case("pool_1d", lambda g: g.op("pool_1d", g.leaf(F32, 12, 3), 1, 3, 3, 0)),
        Case("upscale nearest", upscale(0)),
        Case("nearest of rounded places", lambda g: g.op("interpolate", g.leaf(F32, 14, 3, 2), 2, 3, 2, 1, 0)),
        Case("upscale bilinear", upscale(1)),
        Case("upscale bilinear corners", upscale(1 | 256)),
        Case("pad", lambda g: g.op("pad", g.leaf(F32, 5, 4, 3, 2), 2, 1, 0, 3)),
        Case("pad_ext", lambda g: g.op("pad_ext", g.leaf(F32, 5, 4, 3, 2), 1, 2, 3, 0, 0, 1, 2, 0)),
        Case("pad_reflect_1d", lambda g: g.op("pad_reflect_1d", g.leaf(F32, 7, 4, 2), 3, 2)),
        Case("roll", lambda g: g.op("roll", g.leaf(F32, 7, 4, 2), 2, -1, 1, 0)),
    ]


def _attention_block() -> Case:
    """A layer of a Llama with a key-value cache, in one graph."""

    def build(g: Graph) -> list[Tensor]:
        width, heads, kv_heads, dim, tokens, context = 32, 4, 2, 8, 3, 16
        x = g.leaf(F32, width, tokens)
        normed = g.op("mul", g.op("rms_norm", x, 1e-5), g.leaf(F32, width, weight=True))
        q = g.op("mul_mat", g.leaf(F16, width, heads * dim, weight=True), normed)
        k = g.op("mul_mat", g.leaf(F16, width, kv_heads * dim, weight=True), normed)
        v = g.op("mul_mat", g.leaf(F16, width, kv_heads * dim, weight=True), normed)
        position = g.leaf(I32, tokens, data=[4, 5, 6])
        rope = (None, dim, 0, 4096, 10000.0, 1.0, 0.0, 1.0, 32.0, 1.0)
        q = g.op("rope_ext", g.op("reshape_3d", q, dim, heads, tokens), position, *rope)
        k = g.op("rope_ext", g.op("reshape_3d", k, dim, kv_heads, tokens), position, *rope)
        rows = g.leaf(I64, tokens, data=[4, 5, 6])
        keys, values = (g.leaf(F16, kv_heads * dim, context) for _ in range(2))
        stored = [
            g.op("set_rows", keys, g.op("reshape_2d", k, kv_heads * dim, tokens), rows),
            g.op("set_rows", values, v, rows),
        ]
        seen = [g.op("permute", g.op("view_3d", cache, dim, kv_heads, 8, 16, 32, 0), 0, 2, 1, 3) for cache in stored]
        hidden = np.where(np.arange(8)[None] > 4 + np.arange(tokens)[:, None], -np.inf, 0.0)
        mask = g.leaf(F16, 8, tokens, data=hidden)
        made = g.op("flash_attn_ext", g.op("permute", q, 0, 2, 1, 3), *seen, mask, dim**-0.5, 0.0, 0.0)
        made = g.op("mul_mat", g.leaf(F16, heads * dim, width, weight=True), g.op("reshape_2d", made, width, tokens))
        return [*stored, g.op("add", made, x)]

    return Case("a layer with a cache", build, ROUNDED)


UNARY = """
    sqr sin cos abs sgn neg step tanh elu relu sigmoid silu hardswish hardsigmoid exp expm1 softplus gelu_erf floor ceil
    round trunc
"""


def _double(dst: int, a: int, ith: int, nth: int, data: int) -> None:
    """A custom node's function: twice its four numbers."""
    del nth, data
    if ith == 0:
        numbers = [(ctypes.c_float * 4).from_address(data_address(tensor)) for tensor in (dst, a)]
        numbers[0][:] = [2 * number for number in numbers[1]]


_CUSTOM = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_void_p)(_double)

CASES: list[Case] = [
    *(case for name in UNARY.split() for case in _unary(name)),
    *(case for name in ("gelu", "gelu_quick") for case in _unary(name, ROUNDED)),
    Case("sqrt", lambda g: g.op("sqrt", g.op("sqr", g.leaf(F32, 9, 3)))),
    Case("log", lambda g: g.op("log", g.op("scale_bias", g.op("sqr", g.leaf(F32, 9, 3)), 1.0, 0.1))),
    *(
        _binary(name, type, (12, 6, 4, 2), other)
        for name in ("add", "sub", "mul", "div")
        for type, other in ((F32, (12, 6, 4, 2)), (F32, (1, 6, 1, 2)), (F32, (4, 3, 2, 1)), (F16, (12, 6, 4, 2)))
    ),
    Case("add1", lambda g: g.op("add1", g.leaf(F32, 9, 3), g.leaf(F32, 1))),
    Case(
        "add_id",
        lambda g: g.op(
            "add_id", g.leaf(F32, 8, 2, 3), g.leaf(F32, 8, 5), g.leaf(I32, 2, 3, data=[[0, 4], [2, 1], [3, 3]])
        ),
    ),
    Case("scale", lambda g: g.op("scale", g.leaf(F32, 9, 3), -2.5)),
    Case("scale_bias", lambda g: g.op("scale_bias", g.leaf(F32, 9, 3), -2.5, 0.5)),
    Case("clamp", lambda g: g.op("clamp", g.leaf(F32, 9, 3), -0.25, 0.5)),
    Case("leaky_relu", lambda g: g.op("leaky_relu", g.leaf(F32, 9, 3), 0.1, False)),
    Case("fill", lambda g: g.op("fill", g.leaf(F32, 9, 3), 0.75)),
    *(
        _glu(name, split, tolerance)
        for name, tolerance in (
            ("reglu", EXACT),
            ("swiglu", EXACT),
            ("geglu_erf", EXACT),
            ("geglu", ROUNDED),
            ("geglu_quick", ROUNDED),
        )
        for split in (False, True)
    ),
    Case("swiglu_oai", lambda g: g.op("swiglu_oai", g.leaf(F32, 10, 3), g.leaf(F32, 10, 3), 1.7, 0.5)),
    Case("norm", lambda g: g.op("norm", g.leaf(F32, 33, 4, 2), 1e-5)),
    Case("rms_norm", lambda g: g.op("rms_norm", g.leaf(F32, 33, 4, 2), 1e-5)),
    Case("group_norm", lambda g: g.op("group_norm", g.leaf(F32, 5, 4, 6, 2), 3, 1e-5)),
    Case("l2_norm", lambda g: g.op("l2_norm", g.leaf(F32, 33, 4, 2), 1e-5)),
    Case("sum", lambda g: g.op("sum", g.leaf(F32, 9, 3, 2))),
    Case("sum_rows", lambda g: g.op("sum_rows", g.leaf(F32, 9, 3, 2))),
    Case("mean", lambda g: g.op("mean", g.leaf(F32, 9, 3, 2))),
    Case("cumsum", lambda g: g.op("cumsum", g.leaf(F32, 9, 3, 2))),
    Case("argmax", lambda g: g.op("argmax", g.leaf(F32, 9, 3))),
    Case(
        "argmax of equals",
        lambda g: g.op("argmax", g.leaf(F32, 5, 2, data=[[0] * 5, [1, 3, 3, 1, 0]])),
    ),
    Case("argsort", lambda g: g.op("argsort", g.leaf(F32, 9, 3), 0)),
    Case("argsort descending", lambda g: g.op("argsort", g.leaf(F32, 9, 3), 1)),
    Case("count_equal", lambda g: g.op("count_equal", *(g.leaf(I32, 9, data=d) for d in (range(9), [0, 2] * 4 + [8])))),
    *(
        _mul_mat(a, b, 16, n, 64, (1, 1), (1, 1))
        for a, b in ((F32, F32), (F16, F32), (F16, F16), (BF16, F32), (Q4_0, F32), (Q8_0, F32))
        for n in (1, 5)
    ),
    _mul_mat(Q4_K, F32, 16, 5, 256, (1, 1), (1, 1)),
    _mul_mat(F32, F32, 16, 5, 64, (2, 3), (2, 1)),
    _mul_mat(F16, F32, 16, 5, 64, (2, 1), (3, 2)),
    *(_parts_of_a_weight(type) for type in (F32, Q8_0)),
    *(_mul_mat_id(type, rows) for type in (F32, F16, Q8_0) for rows in (1, 2)),
    Case("out_prod", lambda g: g.op("out_prod", g.leaf(F32, 6, 5), g.leaf(F32, 7, 5))),
    *(_get_rows(type) for type in (F32, F16, I32)),
    _get_rows(Q8_0, weight=True),
    _get_rows(F32, batch=2),
    *(_set_rows(type, index) for type in (F32, F16) for index in (I32, I64)),
    _set_rows(Q8_0, I64, supported=False),
    *_copies(),
    Case("repeat", lambda g: g.op("repeat", g.leaf(F32, 3, 2, 1, 2), g.leaf(F32, 9, 4, 5, 2))),
    *(_concat(dim) for dim in range(4)),
    Case("arange", lambda g: g.op("arange", 1.0, 9.0, 0.75)),
    Case("timestep_embedding", lambda g: g.op("timestep_embedding", g.leaf(F32, 3, data=[1, 7, 12]), 16, 10000)),
    Case("diag_mask_inf", lambda g: g.op("soft_max", g.op("diag_mask_inf", g.leaf(F32, 8, 6, 2), 2))),
    Case("diag_mask_zero", lambda g: g.op("diag_mask_zero", g.leaf(F32, 8, 6, 2), 2)),
    *(_triangle(kind) for kind in range(4)),
    Case("diag", lambda g: g.op("diag", g.leaf(F32, 6, 1, 2))),
    *(_soft_max(*arguments) for arguments in ((None, 3, 0.0), (F32, 3, 0.0), (F16, 4, 0.0), (F16, 6, 8.0))),
    _soft_max(F16, 4, 0.0, sinks=True),
    *(_flash(*arguments) for arguments in ((4, 4, False, F16), (4, 2, True, F16), (4, 4, True, F32))),
    _flash(4, 2, True, F16, bias=8.0),
    _flash(4, 2, True, F16, cap=5.0),
    _flash(4, 2, True, F16, bias=8.0, seen=-3),
    _flash(4, 2, True, F16, seen=-3),
    *(_rope(mode) for mode in (0, 2, 8, 40)),
    _rope(24, dims=16),
    _rope(0, width=48),
    _rope(2, width=48, factors=True),
    _rope(0, type=F16),
    _rope(2, ext=1.0),
    _rope(24, dims=16, ext=1.0),
    *_spatial(),
    _attention_block(),
    Case("custom", lambda g: g.op("map_custom1", g.leaf(F32, 4), _CUSTOM, 1, None), supported=False),
]
