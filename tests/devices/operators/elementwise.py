"""Functions of each element, of two, and gates."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from ..cases import ROUNDED, Case
from ..ggml import F16, F32, I32, Graph, Tensor
from .family import NAMES, given, label, operators, part, tensor, within

HALVES = (F32, F16)
SHAPES = ((64, 2, 2, 2), (5, 7, 3, 2))
UNARY = """
    ABS SGN NEG STEP TANH ELU RELU SIGMOID GELU GELU_QUICK SILU HARDSWISH HARDSIGMOID EXP EXPM1 SOFTPLUS GELU_ERF FLOOR
    CEIL ROUND TRUNC
"""
LOOKED_UP = frozenset({"GELU", "GELU_QUICK", "GEGLU", "GEGLU_QUICK"})  # in a table of f16


@operators(*UNARY.split())
def unary(name: str) -> Iterator[Case]:
    for type, view, ne in product(HALVES, (False, True), SHAPES):

        def build(g: Graph, type: int = type, view: bool = view, ne: tuple[int, ...] = ne) -> Tensor:
            data = np.random.default_rng(1).uniform(-3, 3, int(np.prod(ne)))
            return g.op(name.lower(), tensor(g, type, ne, view=view, data=data))

        tolerance = max(within(type), ROUNDED if name in LOOKED_UP else 0.0)
        yield Case(label(NAMES[type], ne, "view" if view else ""), build, tolerance)


@operators("XIELU")
def xielu() -> Iterator[Case]:
    for type, ne in product(HALVES, ((10, 5, 4, 3), (64, 16, 1, 1))):
        yield Case(
            label(NAMES[type], ne),
            given(lambda g, type, ne: g.op("xielu", tensor(g, type, ne), 4.0, 20.0, 0.5, 1e-7), type, ne),
            within(type),
        )


@operators("SQR", "SQRT", "LOG", "SIN", "COS", "CLAMP", "LEAKY_RELU")
def function(name: str) -> Iterator[Case]:
    tail = {"CLAMP": (-0.5, 0.5), "LEAKY_RELU": (0.1, False)}.get(name, ())
    for type, ne in product(HALVES, ((10, 5, 4, 3), (7, 1, 5, 3), (256, 32, 1, 1))):

        def build(g: Graph, type: int = type, ne: tuple[int, ...] = ne) -> Tensor:
            count = int(np.prod(ne))
            data = np.linspace(0.05, 2.0, count) if name in ("SQRT", "LOG") else None
            return g.op(name.lower(), tensor(g, type, ne, data=data), *tail)

        yield Case(label(NAMES[type], ne), build, within(type))


def _rows(g: Graph, type: int, ne: tuple[int, ...], *, view: bool, large: bool = False) -> Tensor:
    """A leaf, or the first part of each of a larger one's rows."""
    whole = (3 * ne[0], *ne[1:]) if view else ne
    made = tensor(g, type, whole, data=np.linspace(-9, 9, int(np.prod(whole))) if large else None)
    return part(g, made, ne) if view else made


@operators("REGLU", "GEGLU", "SWIGLU", "GEGLU_ERF", "GEGLU_QUICK")
def gated(name: str) -> Iterator[Case]:
    tolerance = ROUNDED if name in LOOKED_UP else 0.0
    for type, view, ne in product(HALVES, (False, True), SHAPES):
        for kind in ("whole", "swapped", "split"):

            def build(
                g: Graph, type: int = type, view: bool = view, ne: tuple[int, ...] = ne, kind: str = kind
            ) -> Tensor:
                if kind == "split":
                    return g.op(f"{name.lower()}_split", *(_rows(g, type, ne, view=view) for _ in range(2)))
                both = _rows(g, type, (2 * ne[0], *ne[1:]), view=view)
                return g.op(f"{name.lower()}_swapped" if kind == "swapped" else name.lower(), both)

            yield Case(label(NAMES[type], ne, "view" if view else "", kind), build, max(within(type), tolerance))


@operators("SWIGLU_OAI")
def swiglu_oai() -> Iterator[Case]:
    for view, alpha, limit in product((False, True), (0.5, 1.702), (2.0, 7.0)):

        def build(g: Graph, view: bool = view, alpha: float = alpha, limit: float = limit) -> Tensor:
            a, b = (_rows(g, F32, SHAPES[0], view=view, large=True) for _ in range(2))
            return g.op("swiglu_oai", a, b, alpha, limit)

        yield Case(label("view" if view else "", alpha, limit), build)


@operators("ADD", "SUB", "MUL", "DIV")
def binary(name: str) -> Iterator[Case]:
    repeats = (
        (1, 1, 1, 1),
        (2, 1, 1, 1),
        (1, 2, 1, 1),
        (1, 1, 2, 1),
        (1, 1, 1, 2),
        (1, 1, 2, 2),
        (1, 2, 2, 2),
        (2, 2, 2, 2),
    )
    shapes = [((10, 5, 4, 3), each) for each in repeats]
    shapes += [((1, 1, 8, 1), (1, 1, 1, 1)), ((1, 1, 1, 1), (32, 1, 1, 1)), ((10, 5, 1, 1), (1, 1, 1, 1))]
    shapes += [((1, 1, 64, 1), (16, 16, 1, 1)), ((128, 1, 1, 1), (1, 16, 16, 1)), ((1, 1, 32, 32), (1, 1, 1, 1))]
    for type, permuted, (ne, times) in product(HALVES, (False, True), shapes):
        if permuted and ne[3] == 1:
            continue

        def build(
            g: Graph,
            type: int = type,
            permuted: bool = permuted,
            ne: tuple[int, ...] = ne,
            times: tuple[int, ...] = times,
        ) -> Tensor:
            size = [n * t for n, t in zip(ne, times, strict=True)]
            inner = (ne[1], ne[2], ne[0], ne[3]) if permuted else ne
            b = tensor(g, type, inner, data=0.5 + np.arange(int(np.prod(ne))) % 13 / 8)
            return g.op(name.lower(), tensor(g, type, size), g.op("permute", b, 1, 2, 0, 3) if permuted else b)

        yield Case(label(NAMES[type], ne, times, "permuted" if permuted else ""), build, 2 * within(type))
    for type in HALVES:

        def overlapping(g: Graph, type: int = type) -> Tensor:
            whole = g.leaf(type, 10, 5, 4, 7, data=0.5 + np.arange(1400) % 13)
            a, b = part(g, whole, (10, 5, 4, 6)), part(g, whole, (10, 5, 4, 6), 200)
            return g.op(name.lower(), a, b)

        yield Case(label(NAMES[type], "overlapping"), overlapping, within(type))

    def in_place(g: Graph) -> Tensor:
        a, b = tensor(g, F32, (16, 5, 4, 3)), tensor(g, F32, (16, 5, 4, 3), data=1 + np.arange(960) % 7)
        for _ in range(4):
            a = g.op(f"{name.lower()}_inplace", a, b)
        return a

    def chain(g: Graph) -> Tensor:
        a = tensor(g, F32, (10, 10, 8, 6))
        for count in (5, 10):
            a = g.op(name.lower(), a, tensor(g, F32, (10, count, 4, 3), data=1 + np.arange(120 * count) % 7))
        return a

    yield Case("in place", in_place)
    yield Case("one after the other", chain)


@operators("ADD1")
def add1() -> Iterator[Case]:
    yield Case("f32", lambda g: g.op("add1", tensor(g, F32, (10, 5, 4, 3)), tensor(g, F32, (1,))))


@operators("ADD_ID")
def add_id() -> Iterator[Case]:
    for matrices, used, width, tokens in product((4, 8), (1, 2, 4), (32, 129), (1, 9)):

        def build(
            g: Graph, matrices: int = matrices, used: int = used, width: int = width, tokens: int = tokens
        ) -> Tensor:
            ids = tensor(g, I32, (used, tokens), data=np.arange(used * tokens) * 3 % matrices)
            return g.op("add_id", tensor(g, F32, (width, used, tokens)), tensor(g, F32, (width, matrices)), ids)

        yield Case(label(matrices, used, width, tokens), build)


@operators("SCALE")
def scale() -> Iterator[Case]:
    yield Case("f32", lambda g: g.op("scale", tensor(g, F32, (10, 10, 10, 3)), 2.0))
    yield Case("bias", lambda g: g.op("scale_bias", tensor(g, F32, (10, 10, 10, 3)), 2.0, 1.0))
    yield Case("in place", lambda g: g.op("scale_bias_inplace", tensor(g, F32, (10, 10, 10, 3)), 2.0, 1.0))
    yield Case(
        "softcap",
        lambda g: g.op(
            "scale", g.op("tanh", g.op("scale", tensor(g, F32, (10, 10, 10, 3), data=np.arange(3000.0)), 0.02)), 50.0
        ),
    )


@operators("FILL")
def fill() -> Iterator[Case]:
    for value in (0.0, 2.0, -152.0):
        yield Case(label(value), given(lambda g, value: g.op("fill", tensor(g, F32, (30, 7, 3, 3)), value), value))
