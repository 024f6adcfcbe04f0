"""Matrix products, and rows by number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from ..cases import Case
from ..ggml import BF16, F16, F32, I32, I64, Graph, Tensor
from .family import ALL, BASE, FLOATS, NAMES, given, label, operators, tensor, within

BLOCK = {"q4_0": 32, "q4_1": 32, "q5_0": 32, "q5_1": 32, "q8_0": 32, "iq4_nl": 32, "mxfp4": 32}


def block(type: int) -> int:
    """How many elements of a row are stored together."""
    return 1 if type in (*FLOATS, I32) else BLOCK.get(NAMES[type], 256)


def _mul_mat(
    a: int,
    b: int,
    m: int,
    n: int,
    k: int,
    batch: Sequence[int] = (1, 1),
    repeat: Sequence[int] = (1, 1),
    axes: Sequence[int] | None = None,
) -> Case:
    def build(g: Graph) -> Tensor:
        sizes = [(k, m, *batch), (k, n, batch[0] * repeat[0], batch[1] * repeat[1])]
        if axes is None:
            return g.op("mul_mat", tensor(g, a, sizes[0]), tensor(g, b, sizes[1]))
        made = []
        for type, size in zip((a, b), sizes, strict=True):
            inner = [0, 0, 0, 0]
            for dim, axis in enumerate(axes):
                inner[dim] = size[axis]
            made.append(g.op("permute", tensor(g, type, inner), *axes))
        return g.op("mul_mat", *made)

    return Case(label(NAMES[a], NAMES[b], m, n, k, batch, repeat, axes or ""), build, max(within(a), within(b)))


@operators("MUL_MAT")
def mul_mat() -> Iterator[Case]:
    for a, n in product(ALL, (1, 2, 5, 9)):
        yield _mul_mat(a, F32, 16, n, 256)
    for a in ALL:
        yield _mul_mat(a, F32, 1, 64, 256)
    batches = [((1, 1), (2, 1)), ((1, 1), (1, 2)), ((3, 1), (1, 1)), ((3, 1), (2, 1)), ((3, 2), (1, 1))]
    batches += [((3, 2), (2, 1)), ((3, 2), (1, 2)), ((3, 2), (2, 2))]
    for a, b, n, (batch, repeat) in product(BASE, (F32, F16), (1, 16), batches):
        yield _mul_mat(a, b, 16, n, 256, batch, repeat)
    for a, b, n in product(FLOATS, (F32, F16), (1, 8)):
        if (a, b) == (BF16, F16):
            continue
        for axes in ((0, 2, 1, 3), (0, 1, 3, 2), (0, 3, 2, 1)):
            yield _mul_mat(a, b, 16, n, 64, (2, 3), (1, 1), axes)
        if block(a) == 1:
            yield _mul_mat(a, b, 16, n, 4, (3, 2), (2, 2))
    for a, n in product((F32, F16, BF16), (1, 45)):
        yield _mul_mat(a, F32, 83, n, 67, (4, 1), (4, 1))
        yield _mul_mat(a, F32, 129, n, 130, (2, 3), (4, 1), None)


@operators("MUL_MAT_ID")
def mul_mat_id() -> Iterator[Case]:
    def case(type: int, matrices: int, used: int, shared: bool, m: int, n: int, k: int) -> Case:
        def build(g: Graph) -> Tensor:
            weights = tensor(g, type, (k, m, matrices))
            rows = np.stack([np.roll(np.arange(matrices), token)[:used] for token in range(n)])
            ids = tensor(g, I32, (used, n), data=rows)
            return g.op("mul_mat_id", weights, tensor(g, F32, (k, 1 if shared else used, n)), ids)

        return Case(label(NAMES[type], matrices, used, "shared" if shared else "", m, n, k), build, within(type))

    for type in ALL:
        yield case(type, 4, 2, False, 64, 16, 3 * block(type) if block(type) > 1 else 48)
    for type, matrices, used, shared, n in product(BASE, (4, 8), (1, 2, 4), (False, True), (1, 5)):
        yield case(type, matrices, used, shared, 32, n, 256)
    yield case(F16, 1, 1, False, 8, 16, 1)
    yield case(F16, 16, 16, True, 32, 33, 16)


@operators("OUT_PROD")
def out_prod() -> Iterator[Case]:
    def case(type: int, n: int, k: int, batch: tuple[int, int], repeat: tuple[int, int]) -> Case:
        def build(g: Graph) -> Tensor:
            a = tensor(g, type, (64, k, *batch))
            return g.op("out_prod", a, tensor(g, F32, (n, k, batch[0] * repeat[0], batch[1] * repeat[1])))

        return Case(label(NAMES[type], n, k, batch, repeat), build, within(type))

    for n, k, two, three, wide, tall in product((1, 16), (1, 16), (1, 3), (1, 3), (1, 2), (1, 2)):
        yield case(F32, n, k, (two, three), (wide, tall))
    yield case(2, 16, 16, (1, 1), (1, 1))


@operators("GET_ROWS")
def get_rows() -> Iterator[Case]:
    for type, batch, view in product((*ALL, I32), (1, 7), (False, True)):
        if view and block(type) > 1:
            continue

        def build(g: Graph, type: int = type, batch: int = batch, view: bool = view) -> Tensor:
            data = None if type != I32 else np.arange(256 * 5 * batch) * 7 % 1001
            rows = tensor(g, I32, (4, batch), data=np.arange(4 * batch) * 3 % 5)
            if view:
                rows = g.op("view_2d", rows, 2, batch, 16, 0)
            return g.op("get_rows", tensor(g, type, (256, 5, batch), data=data), rows)

        yield Case(label(NAMES[type], batch, "view" if view else ""), build)
    yield Case(
        "one element",
        lambda g: g.op("get_rows", tensor(g, F32, (1, 8)), tensor(g, I32, (2,), data=[7, 0])),
    )
    for type in (F32, 2):
        yield Case(
            label(NAMES[type], "three dims of rows"),
            given(
                lambda g, type: g.op(
                    "get_rows", tensor(g, type, (256, 5, 3, 2)), tensor(g, I32, (4, 3, 2), data=np.arange(24) % 5)
                ),
                type,
            ),
        )


@operators("SET_ROWS")
def set_rows() -> Iterator[Case]:
    def case(type: int, index: int, ne: Sequence[int], repeat: Sequence[int], count: int, view: bool) -> Case:
        def build(g: Graph) -> Tensor:
            # A table [ne0, ne1, ne2 * r0, ne3 * r1], as many rows of which as `count` are written.
            table = tensor(g, type, (ne[0], ne[1], ne[2] * repeat[0], ne[3] * repeat[1]))
            rows = tensor(g, F32, (ne[0], count, ne[2] * repeat[0], ne[3] * repeat[1]), view=view)
            places = np.stack([np.roll(np.arange(ne[1]), at)[:count] for at in range(ne[2] * ne[3])])
            return g.op("set_rows", table, rows, tensor(g, index, (count, ne[2], ne[3]), data=places))

        return Case(label(NAMES[type], NAMES[index], ne, repeat, count, "view" if view else ""), build)

    yield case(F32, I64, (1, 8, 1, 3), (1, 1), 2, False)
    yield case(F32, I32, (1, 8, 1, 3), (1, 1), 2, False)
    for type, batch, view in product(ALL, (1, 7), (False, True)):
        if type in (16, 17, 18, 19, 21, 22, 29):  # of which ggml's CPU cannot make rows
            continue
        yield case(type, I64, (256, 5, batch, 3), (1, 1), 1, view)
        if block(type) == 1:
            yield case(type, I64, (256, 11, 1, batch), (2, 3), 7, view)
            yield case(type, I64, (31, 3, batch, 1), (2, 3), 2, view)
            yield case(type, I32, (33, 5, 1, batch), (2, 3), 1, view)


@operators("GET_ROWS_BACK")
def get_rows_back() -> Iterator[Case]:
    yield Case(
        "f32",
        lambda g: g.op(
            "get_rows_back", tensor(g, F32, (16, 4)), tensor(g, I32, (4,), data=[1, 0, 1, 3]), tensor(g, F32, (16, 5))
        ),
    )


@operators("SOLVE_TRI")
def solve_tri() -> Iterator[Case]:
    for n, k, batch in ((10, 3, (4, 3)), (11, 5, (1, 1)), (17, 9, (2, 4))):

        def build(g: Graph, n: int = n, k: int = k, batch: tuple[int, int] = batch) -> Tensor:
            lower = np.tril(np.full((n, n), 0.05)) + np.eye(n)
            a = tensor(g, F32, (n, n, *batch), data=np.broadcast_to(lower, (*batch[::-1], n, n)))
            return g.op("solve_tri", a, tensor(g, F32, (k, n, *batch)), True, True, False)

        yield Case(label(n, k, batch), build)
