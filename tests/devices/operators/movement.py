"""Copies, repetition, concatenation, padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations, product

import numpy as np

from ..cases import EXACT, ROUNDED, Case
from ..ggml import BF16, F16, F32, I8, I16, I32, I64, Graph, Tensor, element_size
from .family import ALL, FLOATS, NAMES, QUANTIZED_TYPES, given, label, operators, part, tensor

INTEGERS = (I8, I16, I32, I64)


def numbers(type: int, count: int) -> np.ndarray | None:
    """What integers are made of; floats have their own."""
    return np.arange(count) * 7 % 101 if type in INTEGERS else None


def _leaf(g: Graph, type: int, ne: Sequence[int]) -> Tensor:
    return tensor(g, type, ne, data=numbers(type, int(np.prod(ne))))


def _permuted(g: Graph, type: int, ne: Sequence[int], axes: Sequence[int] | None) -> Tensor:
    made = _leaf(g, type, ne)
    return made if axes is None else g.op("permute", made, *axes)


@operators("DUP")
def dup() -> Iterator[Case]:
    for type in (F32, F16, I32, I16):
        yield Case(NAMES[type], given(lambda g, type: g.op("dup", _leaf(g, type, (10, 10, 20, 1))), type))
    for type, axes in product((F32, F16, I16), ((0, 2, 1, 3), (1, 0, 2, 3), (1, 2, 0, 3))):
        yield Case(
            label(NAMES[type], axes),
            given(lambda g, type, axes: g.op("dup", _permuted(g, type, (10, 8, 5, 1), axes)), type, axes),
        )


@operators("CONT")
def cont() -> Iterator[Case]:
    shapes = ((2, 1, 1, 1), (2, 1, 3, 5), (2, 3, 5, 7), (1, 4, 4, 1), (1, 8, 17, 1), (10, 10, 10, 1))
    for type, ne, sliced in product((F32, I32, F16, BF16), shapes, (False, True)):

        def build(g: Graph, type: int = type, ne: tuple[int, ...] = ne, sliced: bool = sliced) -> Tensor:
            if sliced:
                whole = _leaf(g, type, (ne[0] + 1, 2 * ne[1], *ne[2:]))
                return g.op("cont", part(g, whole, ne, 1))
            return g.op("cont", g.op("transpose", _leaf(g, type, ne)))

        yield Case(label(NAMES[type], ne, "slice" if sliced else ""), build)


def _cpy(
    source: int,
    target: int,
    ne: Sequence[int],
    axes: Sequence[int] | None = None,
    shape: Sequence[int] | None = None,
    rows: int | None = None,
) -> Case:
    def build(g: Graph) -> Tensor:
        if target == I32 and source != I32:  # some that rounding would change
            a = tensor(g, source, ne, data=np.linspace(-50, 50, int(np.prod(ne))))
            a = a if axes is None else g.op("permute", a, *axes)
        else:
            a = _permuted(g, source, ne, axes)
        into = list(shape or a.ne)
        if rows is None:
            return g.op("cpy", a, _leaf(g, target, into))
        return g.op("cpy", a, part(g, _leaf(g, target, (into[0], rows, *into[2:])), into))

    tolerance = EXACT if {source, target} <= {F32, *INTEGERS} else ROUNDED
    return Case(label(NAMES[source], NAMES[target], ne, axes or "", shape or "", rows or ""), build, tolerance)


@operators("CPY")
def cpy() -> Iterator[Case]:
    for type, axes in product((*FLOATS, I32), (None, (0, 2, 1, 3), (0, 3, 1, 2), (1, 2, 0, 3))):
        yield _cpy(type, type, (3, 2, 3, 4), axes)
    for source, target, axes in product(FLOATS, (*ALL, I32), (None, (0, 2, 1, 3))):
        if target not in (16, 17, 18, 19, 21, 22, 29) and (source, target) not in ((F16, I32), (BF16, I32)):
            yield _cpy(source, target, (256, 2, 3, 4), axes)
    for source in (*QUANTIZED_TYPES.values(), I32):
        yield _cpy(source, F32, (256, 2, 3, 4))
    for source, target in product((F16, F32), (F16, F32)):
        yield _cpy(source, target, (32, 2, 3, 4), (1, 0, 2, 3))
    for type in (F32, F16):
        yield _cpy(type, type, (32, 2, 3, 1), rows=4)
        for shape in list(permutations((3, 5, 7, 8)))[1::3]:
            yield _cpy(type, type, shape, shape=(3, 5, 7, 8))
            yield _cpy(type, type, shape, shape=(8, 7, 5, 3))


@operators("REPEAT")
def repeat() -> Iterator[Case]:
    times = ((1, 1, 1, 1), (2, 1, 1, 1), (1, 2, 1, 1), (1, 1, 2, 1), (1, 1, 1, 2))
    cases = [(F32, each, outer) for each in times for outer in (1, 3)]
    for type, each, outer in [*cases, (I32, times[1], 3), (I16, times[4], 3), (BF16, times[1], 3)]:

        def build(g: Graph, type: int = type, each: tuple[int, ...] = each, outer: int = outer) -> Tensor:
            ne = (10, 5, 4, outer)
            size = [n * t for n, t in zip(ne, each, strict=True)]
            return g.op("repeat_4d", _leaf(g, type, ne), *size)

        yield Case(label(NAMES[type], each, outer), build)


@operators("REPEAT_BACK")
def repeat_back() -> Iterator[Case]:
    for times in ((1, 1, 1, 1), (2, 1, 1, 1), (1, 2, 1, 1), (1, 1, 2, 1), (1, 1, 1, 2)):

        def build(g: Graph, times: tuple[int, ...] = times) -> Tensor:
            ne = (8, 6, 4, 2)
            size = [n * t for n, t in zip(ne, times, strict=True)]
            return g.op("repeat_back", tensor(g, F32, size), tensor(g, F32, ne))

        yield Case(label(times), build)


@operators("CONCAT")
def concat() -> Iterator[Case]:
    def case(type: int, dim: int, views: tuple[bool, bool]) -> Case:
        def build(g: Graph) -> Tensor:
            sizes = [[11, 12, 3, 4] if type not in QUANTIZED_TYPES.values() else [64, 12, 3, 4] for _ in range(2)]
            sizes[1][dim] = 7 if sizes[0][0] == 11 or dim else 128
            data = [numbers(type, int(np.prod(size))) for size in sizes]
            made = [
                tensor(g, type, *each[:1], view=each[1], data=each[2]) for each in zip(sizes, views, data, strict=True)
            ]
            return g.op("concat", *made, dim)

        return Case(label(NAMES[type], dim, views), build)

    for dim, first, second in product(range(4), (False, True), (False, True)):
        yield case(F32, dim, (first, second))
    for type, dim in product((F16, BF16, I8, I16, I32, I64, 2, 8), range(4)):
        yield case(type, dim, (False, False))


@operators("ACC", "SET")
def window(name: str) -> Iterator[Case]:
    types = (F32, I32) if name == "SET" else (F32,)
    for type, dim, in_place in product(types, (1, 2, 3), (False, True)):

        def build(g: Graph, type: int = type, dim: int = dim, in_place: bool = in_place) -> Tensor:
            ne, size = [6, 5, 4, 3], [6, 5, 4, 3]
            for axis in range(dim):
                size[axis] -= 2
            a, b = _leaf(g, type, ne), _leaf(g, type, size)
            strides = [element_size(type)]
            for n in ne[:3]:
                strides.append(strides[-1] * n)
            offset = sum(strides[:dim])
            return g.op(f"{name.lower()}_inplace" if in_place else name.lower(), a, b, *strides[1:], offset)

        yield Case(label(NAMES[type], dim, "in place" if in_place else ""), build)


@operators("PAD")
def pad() -> Iterator[Case]:
    for ne, width, height, round in (
        ((64, 32, 3, 1), 1, 1, False), ((33, 17, 2, 1), 4, 3, False), ((33, 17, 2, 1), 4, 3, True),
        ((100, 1, 1, 1), 100, 0, False), ((100, 1, 1, 1), 0, 10, False), ((128, 16, 1, 1), 0, 1, False),
    ):  # fmt: skip
        yield Case(
            label(ne, width, height, "around" if round else ""),
            given(
                lambda g, ne, width, height, round: g.op(
                    "pad_circular" if round else "pad", tensor(g, F32, ne), width, height, 0, 0
                ),
                ne,
                width,
                height,
                round,
            ),
        )
    for round, permuted, sizes in product(
        (False, True), (False, True), ((0, 1, 0, 1, 0, 0, 0, 0), (1, 2, 3, 4, 5, 6, 2, 1))
    ):

        def build(g: Graph, round: bool = round, permuted: bool = permuted, sizes: tuple[int, ...] = sizes) -> Tensor:
            a = tensor(g, F32, (7, 6, 9, 4))
            a = g.op("permute", a, 0, 2, 1, 3) if permuted else a
            return g.op("pad_ext_circular" if round else "pad_ext", a, *sizes)

        yield Case(label(sizes, "permuted" if permuted else "", "around" if round else ""), build)


@operators("PAD_REFLECT_1D")
def pad_reflect() -> Iterator[Case]:
    for ne in ((64, 34, 2, 1), (300, 38, 4, 1)):
        yield Case(label(ne), given(lambda g, ne: g.op("pad_reflect_1d", tensor(g, F32, ne), 10, 9), ne))


@operators("ROLL")
def roll() -> Iterator[Case]:
    yield Case("f32", lambda g: g.op("roll", tensor(g, F32, (10, 5, 4, 3)), 3, -2, 0, 1))


@operators("ARANGE")
def arange() -> Iterator[Case]:
    for stop, step in ((10.0, 1.0), (1000.0, 1.0), (3.0, 0.25)):
        yield Case(label(stop, step), given(lambda g, stop, step: g.op("arange", 0.0, stop, step), stop, step))


@operators("TIMESTEP_EMBEDDING")
def timestep_embedding() -> Iterator[Case]:
    for dim in (320, 15):
        yield Case(
            label(dim),
            given(lambda g, dim: g.op("timestep_embedding", tensor(g, F32, (2,), data=[3, 17]), dim, 10000), dim),
        )


@operators("DIAG_MASK_INF", "DIAG_MASK_ZERO")
def masked(name: str) -> Iterator[Case]:
    for ne in ((10, 10, 1, 1), (10, 10, 3, 1), (10, 10, 3, 2)):
        yield Case(label(ne), given(lambda g, ne: g.op(name.lower(), tensor(g, F32, ne), 5), ne))


@operators("TRI")
def triangle() -> Iterator[Case]:
    for kind in range(4):
        yield Case(label(kind), given(lambda g, kind: g.op("tri", tensor(g, F32, (10, 10, 4, 3)), kind), kind))


@operators("DIAG")
def diag() -> Iterator[Case]:
    for ne in ((10, 1, 4, 3), (79, 1, 9, 3), (64, 1, 8, 2)):
        yield Case(label(ne), given(lambda g, ne: g.op("diag", tensor(g, F32, ne)), ne))
