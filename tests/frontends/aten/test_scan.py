from __future__ import annotations

import pytest
import torch
from tests.batches import check_case
from tests.helpers import DYNAMIC, Case, bools, having, inf, ints, nan, op, rand

aten = torch.ops.aten

SMALL = (torch.int8, torch.uint8, torch.int16)
HALVES = (torch.float16, torch.bfloat16)
SHAPES = (((4, 5, 6), 0), ((4, 5, 6), 1), ((4, 5, 6), -1), ((7,), 0), ((2, 3, 2, 3, 2), 1), ((3, 0), 1), ((), 0))


def _totals() -> list[Case]:
    cases = []
    for overload in (aten.cumsum.default, aten.cumprod.default):
        cases += [op(overload, rand(*shape), dim) for shape, dim in SHAPES]
        cases += [op(overload, ints(3, 4, dtype=d), 1) for d in (*SMALL, torch.int32, torch.int64)]
        cases += [having(op(overload, rand(3, 9, dtype=d), 1), name=str(d)) for d in HALVES]
        cases += [
            having(op(overload, ints(3, 70, dtype=d), 1, dtype=d), name=f"wraps-{d}") for d in (*SMALL, torch.int32)
        ]
        cases += [
            having(op(overload, bools(3, 4), 0), name="bool"),
            having(op(overload, rand(3, 4), 0, dtype=torch.int64), name="to-i64"),
            having(op(overload, ints(3, 4), 0, dtype=torch.float32), name="to-f32"),
            having(op(overload, torch.tensor([1.0, inf, -inf, 2.0, nan, 1.0]), 0), name="special"),
            having(
                op(overload, rand(4, 6), 1),
                name="symbolic",
                dynamic=({0: DYNAMIC, 1: DYNAMIC},),
                others=((rand(3, 9),),),
            ),
            having(op(overload, rand(3).double(), 0), name="f64", refused="float64"),
        ]
    return cases


def _extremes() -> list[Case]:
    cases = []
    for overload in (aten.cummax.default, aten.cummin.default):
        cases += [op(overload, ints(*shape), dim) for shape, dim in SHAPES if shape]
        cases += [having(op(overload, rand(3, 9, dtype=d), 1), name=str(d)) for d in (*SMALL, *HALVES, torch.int32)]
        cases += [
            having(op(overload, bools(3, 4), 0), name="bool"),
            having(op(overload, torch.tensor([1.0, inf, 2.0, nan, 1.0, nan, -inf]), 0), name="special"),
            having(op(overload, torch.tensor([2**40, 2**40 + 1, -(2**50)]), 0), name="large"),
            having(op(overload, rand(3).double(), 0), name="f64", refused="float64"),
        ]
    return cases


def _exponentials() -> list[Case]:
    overload = aten.logcumsumexp.default
    return [
        *(op(overload, rand(*shape), dim) for shape, dim in SHAPES if shape),
        *(having(op(overload, rand(3, 9, dtype=d), 1), name=str(d)) for d in HALVES),
        having(op(overload, torch.tensor([-inf, -inf, 1.0, 100.0, -100.0, inf, 2.0]), 0), name="special"),
        having(op(overload, torch.tensor([1.0, nan, 2.0]), 0), name="nan"),
        having(op(overload, rand(3).double(), 0), name="f64", refused="f64"),
    ]


CASES = _totals() + _extremes() + _exponentials()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case) -> None:
    check_case(case)
