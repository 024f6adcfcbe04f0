"""Softmax, attention, rotary embeddings."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from ..cases import EXACT, HALF_SUMS, QUANTIZED, Case
from ..ggml import BF16, F16, F32, I32, I64, Graph, Tensor, call
from .family import NAMES, QUANTIZED_TYPES, given, label, operators, tensor, within

NORMAL, NEOX, MROPE, VISION, IMROPE = 0, 2, 8, 24, 40


@operators("SOFT_MAX")
def soft_max() -> Iterator[Case]:
    def case(
        ne: Sequence[int],
        mask: int | None,
        repeat: tuple[int, int],
        sinks: bool,
        scale: float,
        bias: float,
        name: str = "",
    ) -> Case:
        def build(g: Graph) -> Tensor:
            a = tensor(g, F32, (*ne[:2], ne[2] * repeat[0], ne[3] * repeat[1]))
            m = None if mask is None else tensor(g, mask, (ne[0], ne[1], ne[2], ne[3]))
            made = g.op(f"soft_max_ext{name}", a, m, scale, bias)
            if sinks:
                call("ggml_soft_max_add_sinks", made, tensor(g, F32, (a.ne[2],)), result=None)
            return made

        what = ("" if mask is None else NAMES[mask], repeat, "sinks" if sinks else "", scale, bias, name)
        return Case(label(ne, *what), build)

    for mask, sinks, bias, scale, ne in product(
        (None, F32, F16), (False, True), (0.0, 8.0), (1.0, 0.1), ((16, 16, 1, 1), (15, 15, 1, 1), (130, 17, 1, 1))
    ):
        if mask is None and bias > 0:
            continue
        yield case(ne, mask, (1, 1), sinks, scale, bias)
        if mask is not None and ne[0] < 100 and scale != 1.0:
            yield case((*ne[:2], 1, 3), mask, (3, 1), sinks, scale, bias)
            yield case(ne, mask, (2, 3), sinks, scale, bias)
    for mask in (None, F16):
        yield case((16, 2, 32, 1), mask, (1, 1), False, 0.1, 0.0)
    yield Case("in place", lambda g: g.op("soft_max_inplace", tensor(g, F32, (16, 2, 32, 1))))


@operators("FLASH_ATTN_EXT")
def flash_attention() -> Iterator[Case]:
    def case(
        dims: tuple[int, int],
        heads: int,
        repeat: tuple[int, int],
        kv: int,
        rows: int,
        mask: bool,
        sinks: bool,
        bias: float,
        cap: float,
        types: tuple[int, int],
        permuted: bool = False,
    ) -> Case:
        def table(g: Graph, type: int, dim: int) -> Tensor:
            if permuted:
                return g.op("permute", tensor(g, type, (dim, heads, kv, repeat[1])), 0, 2, 1, 3)
            return tensor(g, type, (dim, kv, heads, repeat[1]))

        def build(g: Graph) -> Tensor:
            q = tensor(g, F32, (dims[0], rows, heads * repeat[0], repeat[1]))
            k, v = (table(g, type, dim) for type, dim in zip(types, dims, strict=True))
            hidden = np.where(np.arange(kv)[None] > np.arange(rows)[:, None] + kv - rows, -np.inf, 0.0)
            m = tensor(g, F16, (kv, rows, 1, 1), data=hidden) if mask else None
            made = g.op("flash_attn_ext", q, k, v, m, dims[0] ** -0.5, bias, cap)
            if sinks:
                call("ggml_flash_attn_ext_add_sinks", made, tensor(g, F32, (heads * repeat[0],)), result=None)
            call("ggml_flash_attn_ext_set_prec", made, 10, result=None)
            return made

        flags = [name for name, there in (("mask", mask), ("sinks", sinks), ("permuted", permuted)) if there]
        what = (dims, heads, repeat, kv, rows, *flags, bias or "", cap or "", *dict.fromkeys(NAMES[t] for t in types))
        rounded = any(type in QUANTIZED_TYPES.values() for type in types)
        return Case(label(*what), build, QUANTIZED if rounded else HALF_SUMS)

    for (dim, value), mask, sinks, rows in product(
        ((40, 40), (64, 64), (80, 80), (128, 128), (192, 128), (320, 256)), (True, False), (True, False), (1, 3, 35)
    ):
        yield case((dim, value), 2, (1, 1), 113, rows, mask, sinks, 0.0, 0.0, (F16, F16))
    for repeat, bias, cap in product(((1, 1), (4, 1), (4, 3), (1, 3)), (0.0, 8.0), (0.0, 10.0)):
        yield case((64, 64), 2, repeat, 128, 3, True, False, bias, cap, (F16, F16))
    for type, mask, permuted in product((F32, F16, BF16, 8, 7, 6, 3, 2, 20), (True, False), (False, True)):
        yield case((64, 64), 2, (2, 1), 128, 3, mask, False, 0.0, 0.0, (type, type), permuted)
    for types in ((8, 2), (2, F16), (F16, F32), (F16, 2)):
        yield case((64, 64), 2, (1, 1), 128, 2, True, False, 0.0, 0.0, types)


def _turn(
    g: Graph,
    x: Tensor,
    dims: int,
    mode: int,
    scale: float = 1.0,
    ext: float = 0.0,
    attention: float = 1.0,
    factors: bool = False,
    name: str = "",
) -> Tensor:
    tokens = x.ne[2]
    places = np.arange(tokens * (4 if mode >= MROPE else 1)) * 3 % 512
    position = tensor(g, I32, (places.size,), data=places)
    table = tensor(g, F32, (dims // 2,), data=1 + np.arange(dims // 2) / 8) if factors else None
    tail = (512, 10000.0, scale, ext, attention, 1.0, 1.0)
    if mode < MROPE:
        return g.op(f"rope_ext{name}", x, position, table, dims, mode, *tail)
    turned = dims // 2 if mode == VISION else dims
    sections = (ctypes.c_int * 4)(turned // 4, turned // 4, *((0, 0) if mode == VISION else (turned // 4, 0)))
    return g.op(f"rope_multi{name}", x, position, table, turned, sections, mode, *tail)


@operators("ROPE")
def rope() -> Iterator[Case]:
    def case(type: int, ne: Sequence[int], dims: int, mode: int, view: bool, **how: float) -> Case:
        def build(g: Graph) -> Tensor:
            return _turn(g, tensor(g, type, ne, view=view), dims, mode, **how)  # type: ignore[arg-type] # numbers and a flag

        settings = [f"{key} {value}" for key, value in how.items()]
        return Case(
            label(NAMES[type], ne, dims, mode, "view" if view else "", *settings), build, max(within(type), 4e-5)
        )

    shapes = [
        ((128, 32, 2, 1), 128, NORMAL), ((16, 16, 64, 1), 16, NORMAL), ((64, 8, 2, 1), 64, NEOX),
        ((80, 16, 2, 1), 20, NORMAL), ((80, 16, 2, 1), 32, NORMAL), ((80, 16, 4, 1), 32, NEOX),
        ((80, 16, 2, 1), 20, NEOX),
        ((128, 12, 2, 1), 128, MROPE), ((128, 12, 2, 1), 128, IMROPE), ((128, 12, 2, 1), 32, MROPE),
        ((128, 12, 2, 1), 32, IMROPE), ((80, 16, 2, 1), 80, VISION),
    ]  # fmt: skip
    for (ne, dims, mode), type, view in product(shapes, (F32, F16), (False, True)):
        yield case(type, ne, dims, mode, view)
    for (ne, dims, mode), (scale, ext, attention) in product(
        [shapes[0], shapes[2], shapes[7], shapes[8], shapes[11]],
        ((1.4245, 0.0, 1.0), (1.0, 0.7465, 1.0), (1.0, 0.0, 1.4245), (1.4245, 0.7465, 1.4245)),
    ):
        for factors in (False, True):
            yield case(F32, ne, dims, mode, False, scale=scale, ext=ext, attention=attention, factors=factors)
    for mode, type in product((NORMAL, NEOX, MROPE, IMROPE, VISION), (F32, F16)):
        yield Case(
            label("in place", mode, NAMES[type]),
            given(
                lambda g, mode, type: _turn(g, tensor(g, type, (64, 4, 2, 1)), 64, mode, name="_inplace"), mode, type
            ),
            max(within(type), EXACT),
        )
    for mode, type in product((NORMAL, NEOX, MROPE, VISION), (F32, F16)):

        def stored(g: Graph, mode: int = mode, type: int = type) -> Tensor:
            x = _turn(g, tensor(g, F32, (64, 4, 8, 1)), 64, mode)
            table = tensor(g, type, (256, 16))
            rows = tensor(g, I64, (8,), data=[15, 0, 3, 4, 9, 1, 2, 7])
            return g.op("set_rows", table, g.op("reshape_2d", x, 256, 8), rows)

        yield Case(label("rows stored", mode, NAMES[type]), stored, within(type))


@operators("ROPE_BACK")
def rope_back() -> Iterator[Case]:
    for mode in (NORMAL, NEOX):
        yield Case(
            label(mode), given(lambda g, mode: _turn(g, tensor(g, F32, (64, 4, 2, 1)), 64, mode, name="_back"), mode)
        )
