from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given as with_examples
from hypothesis import strategies as st
from tests.batches import check_case
from tests.helpers import (
    DYNAMIC,
    Case,
    bools,
    check_program,
    const,
    having,
    index,
    lowered,
    op,
    rand,
    run_session,
    session,
)
from torch import Tensor

aten = torch.ops.aten

F16, BF16, I32, I64 = torch.float16, torch.bfloat16, torch.int32, torch.int64
EMBEDDING, INDEX, SELECT, GATHER = (
    aten.embedding.default,
    aten.index.Tensor,
    aten.index_select.default,
    aten.gather.default,
)


def _embeddings() -> list[Case]:
    return [
        *(
            op(EMBEDDING, const(10, 6), index(10, *shape))
            for shape in ((5,), (2, 3), (), (2, 3, 4), (2, 1, 2, 1, 2), (0,), (2, 0))
        ),
        op(EMBEDDING, rand(10, 6), index(10, 4)),
        op(EMBEDDING, const(10, 6), index(10, 4).int()),
        op(EMBEDDING, const(10, 6), index(10, 4), 3, True, False),
        op(EMBEDDING, const(10, 1), index(10, 4)),
        *(
            having(op(EMBEDDING, rand(10, 6, dtype=d), index(10, 4)), name=str(d))
            for d in (F16, BF16, I32, I64, torch.bool)
        ),
        having(op(EMBEDDING, rand(10, 6).double(), index(10, 4)), name="f64"),
    ]


def _selections() -> list[Case]:
    x = rand(4, 5, 6)
    cases = [op(SELECT, x, d, index(4, 7)) for d in (0, 1, -1)]
    cases += [
        op(SELECT, x, 0, index(4, 1)),
        op(SELECT, x, 1, index(5, 0)),
        op(SELECT, rand(7), 0, index(7, 3)),
        op(SELECT, x, 2, index(6, 3).int()),
        op(SELECT, rand(2, 2, 3, 2, 4), 2, index(3, 5)),
        *(
            having(op(SELECT, rand(4, 3, dtype=d), 0, index(4, 5)), name=str(d))
            for d in (F16, BF16, I32, I64, torch.bool)
        ),
        op(SELECT, rand(), 0, index(1, 1)),
    ]
    return cases


def _indices() -> list[Case]:
    x = rand(4, 5, 6)
    given: list[list[Tensor | None]] = [
        [index(4, 7)],
        [index(4, 2, 3)],
        [None, index(5, 7)],
        [None, None, index(6, 7, negative=True)],
        [index(4, 7, negative=True), index(5, 7)],
        [index(4, 3, 1), index(5, 1, 2)],
        [None, index(5, 2), index(6, 3, 1)],
        [index(4, 2, 1), index(5, 1, 3), index(6, 2, 3)],
        [index(4)],
        [index(4), index(5, 3)],
        [index(4, 0)],
        [index(4, 2, 2, 2, 2)],
    ]
    cases = [
        having(op(INDEX, x, g), name="/".join("none" if i is None else str(tuple(i.shape)) for i in g)) for g in given
    ]
    cases += [
        having(op(INDEX, rand(4, 3, dtype=d), [index(4, 5)]), name=str(d)) for d in (F16, BF16, I32, I64, torch.bool)
    ]
    cases += [
        having(op(INDEX, rand(2, 2, 3, 2, 4), [None, None, index(3, 5)]), name="5-D"),
        having(op(INDEX, rand(4, 3), [index(4, 5).int()]), name="i32-indices"),
        having(op(INDEX, x, [index(4, 2), None, index(6, 2)]), name="apart"),
        having(op(INDEX, x, [index(4, 3, 1), None, index(6, 2, negative=True)]), name="apart-2d"),
        having(op(INDEX, rand(2, 3, 2, 3, 4), [None, index(3, 3, 1), None, index(3, 2)]), name="apart-twice"),
        having(op(INDEX, rand(2, 3, 2, 3, 4), [index(2, 3, 1), None, None, index(3, 2)]), name="apart-5d"),
        having(op(INDEX, rand(2, 3, 2, 3, 2, 2), [None, index(3, 4), index(2, 4)]), name="6-D"),
        having(op(INDEX, x, [index(4, 2, 1, 1, 1, 2), index(5, 1, 2, 1, 2, 1)]), name="5-D-indices"),
        having(op(INDEX, x, [bools(4)]), refused="mask", dynamic=None),
    ]
    return cases


def _gathers() -> list[Case]:
    x = rand(3, 4, 5)
    cases = [op(GATHER, x, d, index(3, 3, 4, 5)) for d in (0, 1, -1)]
    cases += [
        op(GATHER, x, 0, index(3, 7, 2, 1)),
        op(GATHER, x, 2, index(5, 3, 4, 9)),
        op(GATHER, rand(6), 0, index(6, 4)),
        op(GATHER, rand(6), 0, torch.zeros(2, 0, dtype=torch.int64)),
        op(GATHER, rand(2, 3), 1, torch.zeros(4, 5, 0, dtype=torch.int64)),
        op(GATHER, rand(2, 3, 4), 1, torch.zeros(5, 0, 7, dtype=torch.int32)),
        op(GATHER, rand(2, 3, 4, 5), 2, index(4, 2, 3, 1, 5)),
        op(GATHER, x, 1, index(4, 0, 4, 5)),
        *(
            having(op(GATHER, rand(4, 3, dtype=d), 1, index(3, 4, 2)), name=str(d))
            for d in (F16, BF16, I32, I64, torch.bool)
        ),
        op(GATHER, rand(), 0, index(1)),
        op(GATHER, rand(), 0, index(1, 3)),
        op(GATHER, rand(2, 3, 2, 4, 2), 3, index(4, 2, 3, 2, 5, 2)),
        op(GATHER, rand(2, 3, 2, 4, 2), 1, index(3, 1, 2, 2, 3, 2)),
        op(GATHER, rand(2, 1, 2, 3, 4, 2), -1, index(2, 2, 1, 2, 3, 4, 7)),
    ]
    return cases


def _symbolic() -> list[Case]:
    table = const(10, 6)
    return [
        having(
            op(GATHER, rand(6, 3, 4), 2, torch.zeros(5, 0, 5, dtype=torch.int64)),
            name="symbolic-nothing",
            dynamic=({0: DYNAMIC}, None),
            others=((rand(3, 3, 4), torch.zeros(5, 0, 5, dtype=torch.int64)),),
        ),
        having(
            op(EMBEDDING, table, index(10, 2, 5)),
            name="symbolic",
            dynamic=({0: DYNAMIC, 1: DYNAMIC},),
            others=((index(10, 7, 3),), (index(10, 1, 1),)),
        ),
        having(
            op(SELECT, rand(4, 5), 1, index(5, 3)),
            name="symbolic",
            dynamic=({0: DYNAMIC}, {0: DYNAMIC}),
            others=((rand(9, 5), index(5, 7)),),
        ),
        having(
            op(INDEX, rand(4, 5), [index(4, 3)]),
            name="symbolic",
            dynamic=({0: DYNAMIC, 1: DYNAMIC}, {0: DYNAMIC}),
            others=((rand(9, 2), index(9, 7)),),
        ),
        having(
            op(INDEX, rand(4, 5, 2), [index(4, 3, 1), index(5, 2)]),
            name="symbolic-two",
            dynamic=({0: DYNAMIC, 1: DYNAMIC}, {0: DYNAMIC}, {0: DYNAMIC}),
            others=((rand(9, 3, 2), index(9, 7, 1), index(3, 4)),),
        ),
        having(
            op(GATHER, rand(4, 5), 1, index(5, 4, 3)),
            name="symbolic",
            dynamic=({0: DYNAMIC, 1: DYNAMIC}, {0: DYNAMIC, 1: DYNAMIC}),
            others=((rand(9, 7), index(7, 9, 2)),),
        ),
    ]


CASES = _embeddings() + _selections() + _indices() + _gathers() + _symbolic()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case) -> None:
    check_case(case)


@pytest.mark.parametrize("bad", [10, -11, 2**40, -(2**62)])
def test_an_index_out_of_range_is_an_error(bad: int) -> None:
    """Of the run, not of the process; the next run is right again."""
    calls: list[Any] = [
        lambda x, i: torch.nn.functional.embedding(i, x),
        lambda x, i: x[i],
        lambda x, i: x.index_select(0, i),
        lambda x, i: x.gather(0, i[:, None].expand(-1, 3)),
    ]
    x = rand(10, 3)
    for call in calls:
        ready = session(lowered(call, (x, index(10, 4))))
        with pytest.raises(RuntimeError, match=r"out of range|range"):
            run_session(ready, (x, torch.tensor([0, 1, bad, 2])))
        good = index(10, 4)
        torch.testing.assert_close(run_session(ready, (x, good))[0], call(x, good))


def test_positions_of_the_last_token() -> None:
    """Pooling as language models do it: the place of the last token of each text, then the state there."""

    def program(states: Tensor, mask: Tensor) -> Tensor:
        last = mask.sum(1) - 1
        return states[torch.arange(states.shape[0]), last]

    mask = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1], [1, 0, 0, 0]])
    check_program(
        program,
        rand(3, 4, 5),
        mask,
        dynamic=({0: DYNAMIC, 1: DYNAMIC}, {0: DYNAMIC, 1: DYNAMIC}),
        others=((rand(1, 7, 5), torch.ones(1, 7, dtype=I64)),),
    )


def test_negative_indices_are_those_of_eager() -> None:
    """Indexing counts them from the end; gather and index_select refuse them."""
    x, back = rand(4, 3), torch.tensor([0, -1, -4])
    check_program(lambda x, i: x[i], x, back)
    check_program(torch.take, x, back)
    calls: list[Any] = [lambda x, i: x.index_select(0, i), lambda x, i: x.gather(0, i[:, None])]
    for call in calls:
        with pytest.raises((RuntimeError, IndexError), match=r"out of (range|bounds)"):
            call(x, back)
        with pytest.raises(RuntimeError, match="-1 is out of range for size 4"):
            run_session(session(lowered(call, (x, index(4, 3)))), (x, back))


@with_examples(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 3), st.integers(1, 5), st.booleans())
def test_selection_property(shape: list[int], dim: int, count: int, permute: bool) -> None:
    dim %= len(shape)

    def program(x: Tensor, i: Tensor) -> Tensor:
        return (x.transpose(0, -1) if permute else x).index_select(dim, i)

    x = rand(*shape)
    check_program(program, x, index((x.transpose(0, -1) if permute else x).shape[dim], count))
