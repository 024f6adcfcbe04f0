from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.batches import check_case
from tests.helpers import (
    DYNAMIC,
    Case,
    Const,
    bools,
    check_delegate,
    check_program,
    having,
    index,
    inf,
    lowered,
    nan,
    op,
    rand,
    run_session,
    session,
)
from torch import Tensor

aten = torch.ops.aten

DTYPES = (
    torch.float16,
    torch.bfloat16,
    torch.int8,
    torch.uint8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.bool,
)
PUT, SRC, VALUE, ADD, REDUCE = (
    aten.index_put.default,
    aten.scatter.src,
    aten.scatter.value,
    aten.scatter_add.default,
    aten.scatter_reduce.two,
)


def distinct(size: int, *shape: int) -> Tensor:
    """Indices of which no two are equal."""
    order = torch.randperm(size, generator=torch.Generator().manual_seed(size))
    return order[: torch.Size(shape).numel()].reshape(shape)


def _puts() -> list[Case]:
    x = rand(4, 5, 6)
    given: list[tuple[list[Tensor | None], Tensor]] = [
        ([index(4, 3)], rand(3, 5, 6)),
        ([index(4, 7)], rand(7, 5, 6)),
        ([index(4, 3)], rand(5, 6)),
        ([index(4, 3)], rand(3, 1, 6)),
        ([index(4, 3)], rand(1)),
        ([index(4, 3)], rand()),
        ([None, index(5, 7)], rand(4, 7, 6)),
        ([None, index(5, 7, negative=True)], rand(7, 1)),
        ([None, None, index(6, 9)], rand(4, 5, 9)),
        ([None, None, index(6, 2, 3)], rand(4, 5, 2, 3)),
        ([index(4, 7, negative=True), index(5, 7)], rand(7, 6)),
        ([index(4, 3, 1), index(5, 1, 2)], rand(3, 2, 6)),
        ([None, index(5, 2), index(6, 3, 1)], rand(4, 3, 2)),
        ([None, index(5, 2), index(6, 3, 1)], rand(3, 1)),
        ([index(4, 2, 1), index(5, 1, 3), index(6, 2, 3)], rand(2, 3)),
        ([index(4, 9), None, index(6, 9)], rand(9, 5)),
        ([index(4)], rand(5, 6)),
        ([index(4, 0)], rand(0, 5, 6)),
        ([None, index(5, 0)], rand(1)),
        ([index(4, 3).int()], rand(3, 5, 6)),
    ]
    cases = [
        having(
            op(PUT, x, g, v, a),
            name="/".join("none" if i is None else str(tuple(i.shape)) for i in g) + f"={tuple(v.shape)}{a}",
        )
        for g, v in given
        for a in (False, True)
    ]
    for d in DTYPES:
        v = rand(7, 3, dtype=d)
        cases += [having(op(PUT, rand(4, 3, dtype=d), [index(4, 7)], v, a), name=f"{d}{a}") for a in (False, True)]
    cases += [
        having(op(PUT, rand(2, 2, 3, 2, 4), [None, None, index(3, 5)], rand(2, 2, 5, 2, 4)), name="5-D"),
        having(op(PUT, rand(2, 1, 3, 2, 2, 2), [None, None, index(3, 2)], rand(2, 1, 1)), name="6-D"),
        having(op(PUT, rand(9), [index(9, 20)], rand(20), True), name="line"),
        having(op(PUT, torch.full((2,), 2**62), [index(2, 5)], torch.full((5,), 2**62), True), name="wraps"),
        having(op(PUT, x, [bools(4, 5, 6)], rand()), name="mask"),
        having(op(PUT, x, [bools(4, 5)], rand(6)), name="mask-rows"),
        having(op(PUT, x, [bools(4)], rand(1, 1)), name="mask-few"),
        having(op(PUT, x, [None, bools(5)], rand(4, 1, 6)), name="mask-middle"),
        having(op(PUT, x, [torch.tensor([True, False, True, True])], rand(3, 5, 6)), name="mask-values"),
        having(
            op(PUT, x, [None, Const(torch.tensor([True, True, False, False, True]))], rand(4, 3, 6)), name="mask-at-1"
        ),
        having(op(PUT, x, [torch.zeros(4).bool()], rand(0, 5, 6)), name="mask-none"),
        having(op(PUT, x, [bools(4)], rand(), True), refused="mask"),
        having(op(PUT, x, [bools(4), index(5, 4)], rand(4, 6)), refused="mask"),
    ]
    return cases


def _scatters() -> list[Case]:
    x = rand(4, 5, 6)
    cases: list[Case] = []
    for d, size in ((0, 4), (1, 5), (-1, 6)):
        i = index(size, 4, 5, 6)
        cases += [op(SRC, x, d, i, rand(4, 5, 6) + 3), op(ADD, x, d, i, rand(4, 5, 6)), op(VALUE, x, d, i, 2.5)]
        cases += [op(REDUCE, x, d, i, rand(4, 5, 6), r, include_self=s) for r in REDUCTIONS for s in (True, False)]
        cases += [op(aten.scatter.reduce, x, d, i, rand(4, 5, 6), reduce=r) for r in ("add", "multiply")]
        cases += [op(aten.scatter.value_reduce, x, d, i, 1.5, reduce=r) for r in ("add", "multiply")]
    parts = (((2, 3, 4), 1), ((4, 5, 2), -1), ((7, 1, 6), 0), ((4, 9, 5), 1), ((0, 5, 6), 1), ((4, 0, 6), 1))
    for shape, d in parts:
        i = index(x.shape[d], *shape)
        cases += [op(SRC, x, d, i, rand(8, 9, 7)), op(ADD, x, d, i, rand(*shape)), op(VALUE, x, d, i, -1.0)]
        cases += [op(REDUCE, x, d, i, rand(*shape), r, include_self=False) for r in ("mean", "amax")]
    for dtype in DTYPES:
        i, y, src = index(4, 6, 3), rand(4, 3, dtype=dtype), rand(6, 3, dtype=dtype)
        cases += [having(op(o, y, 0, i, src), name=str(dtype)) for o in (SRC, ADD)]
        cases += [having(op(VALUE, y, 0, i, 1), name=str(dtype))]
        kinds = ("amax", "amin") if dtype == torch.bool else REDUCTIONS
        cases += [
            having(op(REDUCE, y, 0, i, src, r, include_self=s), name=f"{dtype}{r}{s}")
            for r in kinds
            for s in (True, False)
        ]
    specials = torch.tensor([1.0, nan, -inf, inf, 2.0, nan])
    places = torch.tensor([0, 1, 2, 3, 1, 0])
    cases += [having(op(REDUCE, rand(4), 0, places, specials, r), name=f"special-{r}") for r in REDUCTIONS]
    cases += [
        op(SRC, rand(2, 3, 2, 4, 2), 3, index(4, 2, 3, 2, 5, 2), rand(2, 3, 2, 5, 2)),
        op(ADD, rand(2, 3, 2, 4, 2), 1, index(3, 1, 2, 2, 3, 2), rand(2, 3, 2, 4, 2)),
        op(ADD, rand(2, 1, 2, 3, 4, 2), -1, index(2, 2, 1, 2, 3, 4, 7), rand(2, 1, 2, 3, 4, 7)),
        op(SRC, rand(), 0, torch.tensor(0), rand()),
        op(ADD, rand(), 0, index(1, 3), rand(3)),
        op(ADD, rand(2000), 0, index(2000, 5000), rand(5000)),
        op(SRC, rand(3, 700), 0, index(3, 5, 700), rand(5, 700)),
        having(
            op(ADD, rand(4, 5), 1, index(5, 4, 3), rand(4, 3)),
            name="symbolic",
            dynamic=({0: DYNAMIC, 1: DYNAMIC}, {0: DYNAMIC, 1: DYNAMIC}, {0: DYNAMIC, 1: DYNAMIC}),
            others=((rand(9, 7), index(7, 9, 2), rand(9, 2)), (rand(9, 7), index(7, 3, 2), rand(3, 2))),
        ),
        having(
            op(PUT, rand(4, 5), [None, index(5, 3)], rand(4, 3)),
            name="symbolic",
            dynamic=({0: DYNAMIC, 1: DYNAMIC}, {0: DYNAMIC}, {0: DYNAMIC, 1: DYNAMIC}),
            others=((rand(9, 7), index(7, 2), rand(9, 2)),),
        ),
    ]
    for r in ("prod", "amax", "amin"):
        cases += [
            op(aten.index_reduce.default, x, 1, index(5, 3), rand(4, 3, 6), r, include_self=s) for s in (True, False)
        ]
    cases.append(having(op(aten.index_reduce.default, x, 1, index(5, 3), rand(4, 3, 6), "mean"), refused="mean"))
    return cases


REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


def _windows() -> list[Case]:
    x = rand(4, 5, 6)
    cut, pick, diagonal = aten.slice_scatter.default, aten.select_scatter.default, aten.diagonal_scatter.default
    return [
        op(cut, x, rand(4, 3, 6), 1, 1, 4),
        op(cut, x, rand(2, 5, 6), 0, 1, 4, 2),
        op(cut, x, rand(4, 5, 2), -1, -2),
        op(cut, x, rand(4, 5, 6)),
        op(cut, x, rand(0, 5, 6), 0, 2, 2),
        op(cut, x, rand(4, 1, 6), 1, -1, 100),
        op(cut, rand(2, 3, 2, 3, 4), rand(2, 3, 2, 2, 4), 3, 1, 3),
        *(having(op(cut, rand(4, 3, dtype=d), rand(2, 3, dtype=d), 0, 1, 3), name=str(d)) for d in DTYPES),
        having(
            op(cut, x, rand(4, 3, 6), 1, 1, 4),
            name="symbolic",
            dynamic=({0: DYNAMIC, 2: DYNAMIC}, {0: DYNAMIC, 2: DYNAMIC}),
            others=((rand(2, 5, 3), rand(2, 3, 3)),),
        ),
        *(
            op(pick, x, rand(*(n for i, n in enumerate(x.shape) if i != d % 3)), d, at)
            for d, at in ((0, 2), (1, -1), (-1, 0))
        ),
        op(pick, rand(2, 3, 2, 3, 4), rand(2, 3, 2, 4), 3, -2),
        op(pick, rand(5), rand(), 0, 3),
        op(diagonal, rand(4, 6), rand(4)),
        op(diagonal, rand(6, 4), rand(4), 0, 1, 0),
        *(op(diagonal, rand(4, 6), torch.diagonal(rand(4, 6), o).contiguous() * 3, o) for o in (1, -2, 4)),
        *(
            having(op(diagonal, x, torch.diagonal(x, o, a, b).contiguous() * 3, o, a, b), name=f"{o},{a},{b}")
            for o in (0, 2, -1)
            for a, b in ((0, 1), (0, 2), (2, 1), (-1, 0))
        ),
        having(op(diagonal, rand(2, 2, 2, 2, 2), rand(2, 2, 2, 2)), refused="four dims"),
    ]


def _masked() -> list[Case]:
    masked = aten.masked_scatter.default
    return [
        op(masked, rand(4, 5), bools(4, 5), rand(20)),
        op(masked, rand(4, 5), bools(5), rand(4, 5)),
        op(masked, rand(5), bools(4, 1), rand(50)),
        op(masked, rand(2, 3, 2, 3, 2), bools(3, 1), rand(100)),
        *(having(op(masked, rand(4, 5, dtype=d), bools(4, 5), rand(20, dtype=d)), name=str(d)) for d in DTYPES),
    ]


CASES = _puts() + _scatters() + _windows() + _masked()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case) -> None:
    check_case(case)


def test_the_last_of_equal_indices_stays() -> None:
    """As eager has it, which writes one after the other."""
    places = torch.tensor([3, 1, 3, 3, 1])
    check_program(lambda x, i, v: torch.index_put(x, [i], v), rand(5, 40), places, rand(5, 40))
    check_program(lambda x, i, v: x.scatter(1, i.expand(5, 5), v), rand(5, 5), places, rand(5, 5))


@pytest.mark.parametrize("bad", [10, -11, 2**40, -(2**62)])
def test_an_index_out_of_range_is_an_error(bad: int) -> None:
    """Of the run, not of the process; the next run is right again."""
    calls: list[Any] = [
        lambda x, i, v: torch.index_put(x, [i], v),
        lambda x, i, v: torch.index_put(x, [i], v, True),
        lambda x, i, v: x.index_add(0, i, v),
        lambda x, i, v: x.scatter(0, i[:, None].expand(-1, 3), v),
        lambda x, i, v: x.scatter_reduce(0, i[:, None].expand(-1, 3), v, "amax", include_self=False),
    ]
    x, v, good = rand(10, 3), rand(4, 3), distinct(10, 4)
    for call in calls:
        ready = session(lowered(call, (x, good, v)))
        with pytest.raises(RuntimeError, match="out of range for size 10"):
            run_session(ready, (x, torch.tensor([0, 1, bad, 2]), v))
        torch.testing.assert_close(run_session(ready, (x, good, v))[0], call(x, good, v))


def test_assignments(tmp_path: Path) -> None:
    """Python's own spelling, all the way through."""

    def program(x: Tensor, i: Tensor, v: Tensor, m: Tensor) -> Tensor:
        x = x.clone()
        x[:, i] = v
        x[i, :, i] = 1.0
        x[1] = x[2] * 2
        x[..., 1:4:2] = -1.0
        x[m] = 0.5
        x.index_fill_(2, i, 3.0)
        x.index_add_(1, i, v, alpha=-2)
        return x.index_copy(1, i, v) + x

    x, i, v = rand(4, 4, 6), torch.tensor([2, 0]), rand(4, 2, 6)
    check_delegate(program, x, i, v, x > 0.5, path=tmp_path)
