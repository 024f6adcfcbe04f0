from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given as with_examples
from hypothesis import strategies as st
from tests.batches import check_case
from tests.helpers import DYNAMIC, Case, bools, check_program, having, inf, ints, op, rand
from torch import Tensor
from torch.export import Dim

aten = torch.ops.aten

F16, BF16, I32, I64 = torch.float16, torch.bfloat16, torch.int32, torch.int64


def _reshapes() -> list[Case]:
    x = rand(2, 3, 4)
    cases = [
        having(op(f, x, s), layouts=False) for f in (aten.view.default, aten.view_copy.default) for s in ([6, 4], [-1])
    ]
    cases += [having(op(aten._unsafe_view.default, x, [4, 6]), layouts=False)]
    cases += [op(aten.reshape.default, x, s) for s in ([6, 4], [-1], [2, 3, 2, 2], [1, 2, 3, 1, 4, 1], [24, 1])]
    cases += [
        op(aten.reshape.default, rand(*a), b)
        for a, b in [
            ((), [1, 1]),
            ((1,), []),
            ((2, 3, 2, 2, 2, 3), [4, -1]),
            ((0, 3), [0, 5]),
            ((2, 3, 2, 2, 3), [3, 2, 2, 2, 3]),
        ]
    ]
    cases += [having(op(aten.reshape.default, ints(2, 6, dtype=d), [3, 4]), name=str(d)) for d in (F16, BF16, I32, I64)]
    cases.append(having(op(aten.reshape.default, bools(2, 6), [3, 4]), name="bool"))
    for f in (aten.unsqueeze.default, aten.unsqueeze_copy.default):
        cases += [op(f, x, d) for d in (0, 1, -1, -2)] + [op(f, rand(), 0), op(f, rand(2, 3, 4, 5), 2)]
    y = rand(1, 3, 1, 4)
    for f in (aten.squeeze.default, aten.squeeze_copy.default):
        cases += [op(f, y), op(f, rand(1, 1)), op(f, rand())]
    for f in (aten.squeeze.dim, aten.squeeze_copy.dim):
        cases += [op(f, y, d) for d in (0, 1, -2)]
    for f in (aten.squeeze.dims, aten.squeeze_copy.dims):
        cases += [op(f, y, [0, 2]), op(f, y, [-2, 1])]
    cases += [op(aten.flatten.using_ints, rand(2, 3, 4, 5), a, b) for a, b in ((0, -1), (1, 2), (-2, -1))]
    return cases


def _permutations() -> list[Case]:
    x = rand(2, 3, 4, 5)
    orders = [[3, 2, 1, 0], [0, 2, 1, 3], [1, 0, 3, 2], [0, 1, 2, 3], [-1, 0, 1, 2], [2, 3, 0, 1]]
    cases = [op(f, x, o) for f in (aten.permute.default, aten.permute_copy.default) for o in orders]
    cases += [op(aten.permute.default, rand(2, 3, 4), o) for o in ([2, 0, 1], [1, 2, 0])]
    cases += [
        op(aten.permute.default, rand(2, 3, 2, 2, 3, 2), o)
        for o in ([4, 5, 0, 1, 2, 3], [0, 3, 4, 1, 2, 5], [0, 1, 2, 3, 5, 4])
    ]
    cases += [
        op(aten.permute.default, rand(2, 1, 3, 1, 4, 5), [5, 1, 4, 3, 2, 0]),
        op(aten.permute.default, rand(), []),
    ]
    cases += [
        op(aten.permute.default, rand(2, 3, 2, 3, 2), o) for o in ([4, 3, 2, 1, 0], [3, 1, 4, 2, 0], [1, 3, 0, 2, 4])
    ]
    cases += [op(aten.permute.default, rand(2, 3, 2, 2, 3, 2), o) for o in ([5, 4, 3, 2, 1, 0], [1, 3, 5, 0, 2, 4])]
    cases.append(op(aten.permute.default, rand(2, 3, 2, 2, 1, 3, 2, 2), [7, 3, 5, 1, 6, 2, 4, 0]))
    for f in (aten.transpose.int, aten.transpose_copy.int):
        cases += [op(f, x, a, b) for a, b in ((0, 1), (-1, -2), (1, 3), (2, 2))] + [op(f, rand(), 0, -1)]
    cases += [op(aten.transpose.int, rand(2, 3, 4, 2, 3), 1, 2)]
    for f in (aten.t.default, aten.t_copy.default):
        cases += [op(f, rand(3, 4)), op(f, rand(5)), op(f, rand())]
    cases += [having(op(aten.permute.default, ints(2, 3, 4, dtype=d), [2, 0, 1]), name=str(d)) for d in (F16, I32, I64)]
    return cases


def _expansions() -> list[Case]:
    pairs = [
        ((3, 1), [3, 4]),
        ((1, 4), [3, -1]),
        ((4,), [2, 3, 4]),
        ((), [2, 2]),
        ((2, 1, 3), [2, 4, 3]),
        ((1,), [1]),
        ((2, 1, 3, 1, 2), [2, 4, 3, 1, 2]),
        ((3, 1, 2), [2, 2, 3, 4, 2]),
        ((1, 1), [0, 3]),
        ((2, 1, 1, 2), [3, 2, 2, 2, 2]),
    ]
    cases = [op(f, rand(*a), b) for f in (aten.expand.default, aten.expand_copy.default) for a, b in pairs]
    cases += [
        having(op(aten.expand.default, ints(3, 1, dtype=d), [2, 3, 4]), name=str(d)) for d in (F16, BF16, I32, I64)
    ]
    cases.append(having(op(aten.expand.default, bools(3, 1), [3, 4]), name="bool"))
    cases.append(op(aten.expand.default, rand(2, 1, 3, 1, 2), [2, 4, 3, 5, 2]))
    cases.append(op(aten.expand.default, rand(1, 3, 1, 2, 1, 2), [2, 3, 4, 2, 3, 2]))
    cases.append(op(aten.expand.default, rand(3, 1, 2, 1), [2, 2, 3, 4, 2, 3]))
    return cases


def _windows() -> list[Case]:
    x = rand(4, 5, 6)
    ranges: list[tuple[Any, ...]] = [
        (0, 1, 3),
        (1, -3, -1),
        (-1, 0, 100),
        (2, None, None, 2),
        (1, 1, 5, 3),
        (0, 3, 2),
        (-2, -100, 2),
        (0, 7, 9),
    ]
    cases = [op(f, x, *r) for f in (aten.slice.Tensor, aten.slice_copy.Tensor) for r in ranges]
    cases += [op(aten.slice.Tensor, rand(2, 3, 2, 4, 2, 3), d, 1, 9, s) for d in (0, 1, 3, 5, -2) for s in (1, 2)]
    cases += [
        having(op(aten.slice.Tensor, ints(6, 4, dtype=d), 0, 1, 6, 2), name=str(d)) for d in (F16, BF16, I32, I64)
    ]
    cases += [op(aten.narrow_copy.default, x, *r) for r in ((0, 1, 2), (-1, 2, 4), (1, -2, 2), (1, 0, 0))]
    for f in (aten.select.int, aten.select_copy.int):
        cases += [op(f, x, d, i) for d, i in ((0, 0), (1, -1), (-1, 3), (-2, -5))] + [op(f, rand(7), 0, 4)]
    cases += [op(aten.select.int, rand(2, 3, 2, 4, 3), d, 1) for d in (0, 2, 4)]
    for f in (aten.split_with_sizes.default, aten.split_with_sizes_copy.default):
        cases += [
            op(f, x, [1, 3], 0),
            op(f, x, [2, 2, 2], -1),
            op(f, x, [0, 5], 1),
            op(f, rand(2, 2, 6, 2, 2), [4, 2], 2),
        ]
    for f in (aten.split.Tensor, aten.split_copy.Tensor):
        cases += [op(f, x, 2, 0), op(f, x, 4, -1), op(f, x, 9, 1)]
    for f in (aten.unbind.int, aten.unbind_copy.int):
        cases += [op(f, x), op(f, x, -1), op(f, rand(3)), op(f, rand(2, 2, 2, 2, 3), 1)]
    return cases


def _joins() -> list[Case]:
    x, y, z = rand(2, 3), rand(2, 3) + 1, rand(2, 3) - 1
    cases = [op(aten.cat.default, [x, y, z], d) for d in (0, 1, -1)]
    cases += [
        op(aten.cat.default, [rand(1, 3, 4, 5), rand(2, 3, 4, 5)]),
        op(aten.cat.default, [rand(2, 3, 4, 5), rand(2, 3, 1, 5), rand(2, 3, 2, 5)], 2),
        op(aten.cat.default, [rand(3), rand(0), rand(2)]),
        op(aten.cat.default, [rand(0), rand(2, 3)], 1),
        op(aten.cat.default, [rand(0), rand(0)]),
        op(aten.cat.default, [rand(2, 0), rand(2, 3)], 1),
        op(aten.cat.default, [rand(0, 3), rand(2, 3)]),
        op(aten.cat.default, [x]),
        op(aten.cat.default, [rand(1)] * 7),
        op(aten.cat.default, [rand(2, 2, 3, 2, 2), rand(2, 2, 1, 2, 2)], 2),
        having(op(aten.cat.default, [ints(2, 3), rand(2, 3)], 1), name="promotes"),
        having(op(aten.cat.default, [bools(2), ints(3, dtype=I32)]), name="bool-i32"),
        *(
            having(op(aten.cat.default, [ints(2, 3, dtype=d), ints(1, 3, dtype=d)]), name=str(d))
            for d in (F16, BF16, I32, I64)
        ),
        having(op(aten.cat.default, [bools(2, 3), bools(2, 4)], -1), name="bool"),
        having(op(aten.cat.default, [rand(2).double(), rand(3).double()]), name="f64"),
    ]
    return cases


def _pads() -> list[Case]:
    return [
        op(aten.constant_pad_nd.default, rand(2, 3), [1, 2]),
        op(aten.constant_pad_nd.default, rand(2, 3), [1, 2], 5.0),
        op(aten.constant_pad_nd.default, rand(2, 3), [0, 0, 3, 0], -inf),
        op(aten.constant_pad_nd.default, rand(2, 3, 4, 5), [1, 0, 0, 2, 1, 1, 2, 0], 0.5),
        op(aten.constant_pad_nd.default, rand(3, 4), [-1, -1]),
        op(aten.constant_pad_nd.default, rand(3, 4), [-1, 2, 1, -2], 3.0),
        op(aten.constant_pad_nd.default, rand(3, 4), [0, 0]),
        op(aten.constant_pad_nd.default, rand(0, 4), [0, 0, 1, 1], 2.0),
        having(op(aten.constant_pad_nd.default, ints(2, 3), [1, 1], -7), name="i64"),
        having(op(aten.constant_pad_nd.default, ints(2, 3, dtype=I32), [1, 1], 7), name="i32"),
        having(op(aten.constant_pad_nd.default, bools(2, 3), [1, 1], True), name="bool"),
        having(op(aten.constant_pad_nd.default, rand(2, 3, dtype=F16), [1, 1], 0.1), name="f16"),
        op(aten.constant_pad_nd.default, rand(2, 3, 2, 2, 2), [1, 1]),
        op(aten.constant_pad_nd.default, rand(2, 3, 2, 2, 2, 2), [1, 0, 0, 2, -1, 1, 0, 0, 2, -1], 0.5),
    ]


def _symbolic() -> list[Case]:
    dynamic = ({0: DYNAMIC, 1: DYNAMIC},)
    others = ((rand(6, 3, 4),), (rand(9, 12, 4),))
    calls = [
        op(aten.slice.Tensor, rand(4, 5, 4), 0, 1),
        op(aten.slice.Tensor, rand(4, 5, 4), 1, -3, -1),
        op(aten.slice.Tensor, rand(4, 5, 4), 1, 0, -1, 2),
        op(aten.select.int, rand(4, 5, 4), 1, -1),
        op(aten.select.int, rand(4, 5, 4), 0, 1),
        op(aten.permute.default, rand(4, 5, 4), [1, 2, 0]),
        op(aten.flatten.using_ints, rand(4, 5, 4), 0, 1),
        op(aten.reshape.default, rand(4, 5, 4), [-1, 2]),
        op(aten.unsqueeze.default, rand(4, 5, 4), 1),
        op(aten.cat.default, [rand(4, 5, 4)] * 2, 1),
        op(aten.constant_pad_nd.default, rand(4, 5, 4), [0, 0, 1, 2], 1.0),
        op(aten.constant_pad_nd.default, rand(4, 5, 4), [0, 0, -1, -1]),
        op(aten.expand.default, rand(4, 5, 4), [2, -1, -1, -1]),
        op(aten.split_with_sizes.default, rand(4, 5, 4), [1, 3], 2),
    ]
    cases = []
    for case in calls:
        count = len(case.inputs)
        cases.append(having(case, name="symbolic", dynamic=dynamic * count, others=tuple(o * count for o in others)))
    return cases


CASES = _reshapes() + _permutations() + _expansions() + _windows() + _joins() + _pads()
CASES += [case for case in _symbolic() if case.overload != aten.cat.default]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case) -> None:
    check_case(case)


def test_concatenation_of_symbolic_sizes() -> None:
    dims = ({0: DYNAMIC, 1: DYNAMIC}, {0: DYNAMIC, 1: DYNAMIC})
    others = ((rand(6, 1), rand(6, 8)), (rand(2, 3), rand(2, 3)))
    check_program(lambda a, b: torch.cat([a, b, a], 1).relu(), rand(3, 2), rand(3, 4), dynamic=dims, others=others)


def test_views_of_views() -> None:
    def program(x: Tensor) -> tuple[Tensor, ...]:
        y = x.transpose(1, 2)[:, 1:, ::2]
        z = y.reshape(2, -1).unflatten(1, (3, -1))
        return y, z, y.permute(2, 0, 1) + 1, z[..., -1], y[:, :1].expand(2, 3, -1)

    check_program(program, rand(2, 5, 4))


def test_halves_of_a_symbolic_length() -> None:
    """RoPE's rotation: sizes that are half of others."""
    half = Dim("half", min=1, max=64)

    def program(x: Tensor) -> Tensor:
        middle = x.shape[1] // 2
        return torch.cat([-x[:, middle:], x[:, :middle]], 1)

    check_program(program, rand(3, 8), dynamic=({1: 2 * half},), others=((rand(3, 2),), (rand(3, 20),)))


def test_derived_sizes() -> None:
    def program(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        return a[1:] + b, torch.cat([a, b]).reshape(-1, 2)[: a.shape[0]]

    batch = Dim("batch", min=2, max=32)
    dims = ({0: batch + 1}, {0: batch})
    others = ((rand(9, 2), rand(8, 2)), (rand(3, 2), rand(2, 2)))
    check_program(program, rand(5, 2), rand(4, 2), dynamic=dims, others=others)


def test_chunks_of_a_symbolic_size() -> None:
    def program(x: Tensor) -> tuple[Tensor, ...]:
        a, b = x.chunk(2, -1)
        return a * b, x.unflatten(0, (2, -1)).sum(0)

    dim = Dim("pairs", min=1, max=50)
    check_program(program, rand(6, 4), dynamic=({0: 2 * dim},), others=((rand(2, 4),), (rand(10, 4),)))


def test_a_slice_beyond_a_symbolic_size_is_cut() -> None:
    program = lambda x: (x[:, 2:], x[:, :3], x[:, -3:])
    check_program(program, rand(2, 8), dynamic=({1: Dim("n", min=4, max=99)},), others=((rand(2, 4),), (rand(2, 20),)))


def test_seven_dims() -> None:
    check_program(lambda x: x.reshape(2, 1, 2, 1, 3, 1, 2).transpose(2, 4) * 2, rand(2, 2, 3, 2))
    check_program(lambda x: x.permute(6, 5, 4, 3, 2, 1, 0), rand(2, 2, 2, 2, 2, 2, 2))


@with_examples(st.permutations(range(6)))
def test_any_permutation_of_six_dims(order: list[int]) -> None:
    graph = check_program(lambda x: x.permute(order), rand(2, 3, 2, 3, 2, 4))
    views = [node.op for node in graph.nodes if node.op == "permute"]
    assert len(views) <= 2, "one copy between two views at most"


@st.composite
def view_chains(draw: st.DrawFn) -> tuple[tuple[int, ...], list[tuple[str, Any]]]:
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    rank = len(shape)
    chain: list[tuple[str, Any]] = []
    for _ in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(["permute", "slice", "select", "flatten", "unsqueeze", "tanh", "cat"]))
        seed = draw(st.integers(0, 10**6))
        chain.append((kind, seed))
    return (*shape[:rank],), chain


def _apply(x: Tensor, kind: str, seed: int) -> Tensor:
    """A step of a chain: the seed chooses dims and ranges that fit the shape at hand."""
    rank = x.dim()
    if kind == "tanh" or rank == 0:
        return x.tanh()
    dim = seed % rank
    if kind == "permute":
        order = sorted(range(rank), key=lambda d: (seed // (d + 1) ** 2) % 7)
        return x.permute(*order)
    if kind == "slice":
        start = seed % x.shape[dim]
        return x.narrow(dim, start, x.shape[dim] - start)[(slice(None),) * dim + (slice(None, None, 1 + seed % 2),)]
    if kind == "select":
        return x.select(dim, seed % x.shape[dim] - (x.shape[dim] if seed % 2 else 0))
    if kind == "flatten":
        return x.flatten(min(dim, rank - 1))
    if kind == "cat":
        return torch.cat([x, x.tanh()], dim) if x.numel() < 500 else x
    return x.unsqueeze(seed % (rank + 1)) if rank < 4 else x


@with_examples(view_chains())
def test_chains_of_views_property(drawn: Any) -> None:
    shape, chain = drawn

    def program(x: Tensor) -> Tensor:
        for kind, seed in chain:
            x = _apply(x, kind, seed)
        return x * 2

    check_program(program, rand(*shape))
