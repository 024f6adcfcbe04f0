from __future__ import annotations

import pytest
import torch
from tests.batches import check_case
from tests.helpers import DYNAMIC, Case, having, op, rand

aten = torch.ops.aten

DTYPES = (torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool)
SYMBOLIC = ({0: DYNAMIC, 1: DYNAMIC},)


def _each_type(overload: torch._ops.OpOverload, *args: object) -> list[Case]:
    return [having(op(overload, rand(4, 6, dtype=d), *args), name=str(d)) for d in DTYPES]


def _orders() -> list[Case]:
    x = rand(4, 5, 6)
    flip, roll = aten.flip.default, aten.roll.default
    return [
        *(op(flip, x, dims) for dims in ([0], [1], [-1], [0, 2], [0, 1, 2], [])),
        op(flip, rand(), []),
        op(flip, rand(3, 0), [0, 1]),
        op(flip, rand(2, 3, 2, 3, 2), [1, 4]),
        op(flip, rand(2, 3, 1, 3, 2, 2), [3]),
        *_each_type(flip, [0, 1]),
        having(op(flip, rand(4, 6), [0, 1]), name="symbolic", dynamic=SYMBOLIC, others=((rand(3, 9),), (rand(1, 2),))),
        *(op(roll, x, s, d) for s, d in (([2], [1]), ([-1], [0]), ([7], [-1]), ([1, 2], [0, 1]), ([0], [1]))),
        op(roll, x, [7]),
        op(roll, rand(3, 0), [1], [1]),
        op(roll, rand(2, 3, 2, 3, 2), [1, 1], [1, 3]),
        *_each_type(roll, [1], [1]),
        having(op(roll, rand(4, 6), [1], [1]), name="symbolic", dynamic=({0: DYNAMIC},), others=((rand(3, 6),),)),
        having(op(roll, rand(4, 6), [1], [1]), dynamic=SYMBOLIC, refused="symbolic"),
    ]


def _repeats() -> list[Case]:
    repeat = aten.repeat.default
    x = rand(4, 5, 6)
    return [
        *(
            op(repeat, x, times)
            for times in ([2, 1, 3], [1, 1, 1], [3, 2, 2], [2, 1, 1, 1], [2, 1, 3, 1, 2], [1, 0, 2])
        ),
        op(repeat, rand(), [3]),
        op(repeat, rand(3), [2, 2]),
        op(repeat, rand(2, 3, 2, 1, 2), [1, 2, 1, 3, 2]),
        *_each_type(repeat, [2, 3]),
        having(
            op(repeat, rand(4, 6), [2, 3]), name="symbolic", dynamic=SYMBOLIC, others=((rand(3, 9),), (rand(1, 2),))
        ),
    ]


def _views() -> list[Case]:
    x = rand(4, 5, 6)
    cases: list[Case] = []
    for diagonal in (aten.diagonal_copy.default, aten.diagonal.default):
        cases += [op(diagonal, x, o, a, b) for o in (0, 1, -2) for a, b in ((0, 1), (0, 2), (2, 1), (-1, 0))]
        cases += [op(diagonal, rand(3, 4), 4), op(diagonal, rand(2, 3, 4, 5), 1, 1, 3), *_each_type(diagonal)]
        cases += [having(op(diagonal, rand(2, 2, 2, 2, 2)), refused="four dims")]
    for unfold in (aten.unfold_copy.default, aten.unfold.default):
        cases += [op(unfold, x, d, size, step) for d in (0, 1, -1) for size, step in ((3, 1), (2, 2), (1, 3), (4, 5))]
        cases += [op(unfold, rand(9), 0, 4, 3), op(unfold, rand(2, 3, 4, 5), 2, 2, 1), *_each_type(unfold, 1, 3, 2)]
        cases += [
            having(op(unfold, rand(4, 6), 1, 3, 2), name="symbolic", dynamic=SYMBOLIC, others=((rand(3, 9),),)),
            having(op(unfold, rand(), 0, 1, 1), refused="scalar"),
        ]
    for strided in (aten.as_strided_copy.default, aten.as_strided.default):
        given = (((3, 2), (2, 1), 1), ((4, 2, 3), (30, 0, 2), None), ((), (), 7), ((5,), (6,), 0), ((2, 0), (1, 1), 0))
        cases += [having(op(strided, x, s, t, o), layouts=False, name=f"{s}{t}{o}") for s, t, o in given]
        cases += [having(c, layouts=False) for c in _each_type(strided, (3, 2), (5, 3), 2)]
    return cases


CASES = _orders() + _repeats() + _views()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case) -> None:
    check_case(case)
