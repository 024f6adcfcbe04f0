"""Norms, sums, extremes, order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from ..cases import Case
from ..ggml import F32, I32, Graph, Tensor
from .family import given, label, operators, part, tensor


@operators("NORM", "RMS_NORM", "L2_NORM")
def norm(name: str) -> Iterator[Case]:
    for eps, width, view in product((0.0, 1e-6, 1e-4, 1e-1, 10.0), (64, 1025), (False, True)):

        def build(g: Graph, eps: float = eps, width: int = width, view: bool = view) -> Tensor:
            whole = tensor(g, F32, (width + 3, 5, 4, 3) if view else (width, 5, 4, 3))
            return g.op(name.lower(), part(g, whole, (width, 5, 4, 3)) if view else whole, eps)

        yield Case(label(eps, width, "view" if view else ""), build)
    for width, adds in product((64, 511), (False, True)):
        if name == "L2_NORM":
            continue

        def scaled(g: Graph, width: int = width, adds: bool = adds) -> Tensor:
            a, weight, bias = (tensor(g, F32, ne) for ne in ((width, 5, 4, 3), (width,), (width,)))
            made = g.op("mul", g.op(name.lower(), g.op("add", a, a), 1e-6), weight)
            return g.op("add", made, bias) if adds else made

        yield Case(label("scaled", width, "added to" if adds else ""), scaled)
    if name != "L2_NORM":
        yield Case("in place", lambda g: g.op(f"{name.lower()}_inplace", tensor(g, F32, (64, 5, 4, 3)), 1e-6))


@operators("GROUP_NORM")
def group_norm() -> Iterator[Case]:
    for ne in ((16, 16, 320, 1), (9, 9, 128, 1), (5, 4, 64, 2)):
        yield Case(label(ne), given(lambda g, ne: g.op("group_norm", tensor(g, F32, ne), 32, 1e-6), ne))
    yield Case(
        "scaled",
        lambda g: g.op(
            "add",
            g.op("mul", g.op("group_norm", tensor(g, F32, (9, 9, 64, 1)), 32, 1e-6), tensor(g, F32, (1, 1, 64, 1))),
            tensor(g, F32, (1, 1, 64, 1)),
        ),
    )


@operators("SUM")
def total() -> Iterator[Case]:
    for axes in (None, (0, 2, 1, 3), (0, 3, 2, 1), (0, 1, 3, 2)):

        def build(g: Graph, axes: tuple[int, ...] | None = axes) -> Tensor:
            a = tensor(g, F32, (11, 5, 6, 3), data=1 + np.arange(990) % 17)
            return g.op("sum", a if axes is None else g.op("permute", a, *axes))

        yield Case(label(axes or ""), build)
    for ne in ((33,), (33, 256)):
        yield Case(
            label(ne), given(lambda g, ne: g.op("sum", tensor(g, F32, ne, data=np.arange(np.prod(ne)) % 17)), ne)
        )


@operators("MEAN", "SUM_ROWS")
def of_rows(name: str) -> Iterator[Case]:
    for ne in ((10, 5, 4, 3), (33, 1), (33, 256), (32, 256), (4097, 1)):
        data = 1 + np.arange(int(np.prod(ne))) % 17
        yield Case(label(ne), given(lambda g, ne, data: g.op(name.lower(), tensor(g, F32, ne, data=data)), ne, data))
    for permuted, sliced in ((True, False), (False, True), (True, True)):

        def build(g: Graph, permuted: bool = permuted, sliced: bool = sliced) -> Tensor:
            a = tensor(g, F32, (11, 5, 6, 3), data=1 + np.arange(990) % 17)
            a = part(g, a, (9, 4, 6, 3)) if sliced else a
            return g.op(name.lower(), g.op("permute", a, 0, 2, 3, 1) if permuted else a)

        if name == "SUM_ROWS":
            yield Case(label("permuted" if permuted else "", "slice" if sliced else ""), build)


@operators("CUMSUM")
def cumsum() -> Iterator[Case]:
    for ne in ((10, 5, 4, 3), (127, 5, 4, 3), (128, 16, 4, 4), (1023, 5, 1, 3), (4096, 2)):
        data = np.arange(int(np.prod(ne))) % 17 / 16
        yield Case(label(ne), given(lambda g, ne, data: g.op("cumsum", tensor(g, F32, ne, data=data)), ne, data))


@operators("ARGMAX")
def argmax() -> Iterator[Case]:
    for ne in ((32, 1), (32, 513), (100, 10), (1024, 12), (2000, 3)):
        yield Case(label(ne), given(lambda g, ne: g.op("argmax", tensor(g, F32, ne)), ne))


@operators("COUNT_EQUAL")
def count_equal() -> Iterator[Case]:
    for ne in ((4, 500), (4, 5000)):
        count = ne[0] * ne[1]

        def build(g: Graph, ne: tuple[int, int] = ne, count: int = count) -> Tensor:
            return g.op("count_equal", *(tensor(g, I32, ne, data=np.arange(count) % n) for n in (7, 5)))

        yield Case(label(ne), build)
    yield Case(
        "of maxima", lambda g: g.op("count_equal", *(g.op("argmax", tensor(g, F32, (4, 500))) for _ in range(2)))
    )


@operators("ARGSORT")
def argsort() -> Iterator[Case]:
    for order, ne in product(
        (0, 1), ((3,), (4,), (16, 10, 3, 2), (60, 10, 3, 2), (1023, 2, 1, 3), (1025, 2), (2, 8, 64))
    ):
        data = np.random.default_rng(1).permutation(int(np.prod(ne)))
        yield Case(
            label(order, ne),
            given(lambda g, order, ne, data: g.op("argsort", tensor(g, F32, ne, data=data), order), order, ne, data),
        )


@operators("TOP_K")
def top_k() -> Iterator[Case]:
    """Which numbers are largest; in which order is not said, so that it is the numbers that are compared."""
    for k, ne in product((1, 2, 3, 7, 15), ((16, 10), (60, 10), (1023, 2), (1024, 2))):

        def build(g: Graph, k: int = k, ne: tuple[int, int] = ne) -> Tensor:
            data = np.random.default_rng(1).permutation(ne[0] * ne[1])
            a = tensor(g, F32, ne, data=data)
            places = g.op("top_k", a, k)
            found = g.op("get_rows", g.op("reshape_3d", a, 1, *ne), places)
            return g.op("sum_rows", g.op("reshape_2d", g.op("cont", found), k, ne[1]))

        yield Case(label(k, ne), build)
