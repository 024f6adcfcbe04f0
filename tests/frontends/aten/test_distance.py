from __future__ import annotations

import pytest
import torch
from tests.batches import check_case
from tests.helpers import DYNAMIC, Case, check_program, having, inf, op, rand

aten = torch.ops.aten

CDIST, PDIST = aten._cdist_forward.default, aten._pdist_forward.default


def _distances() -> list[Case]:
    norms = (0.0, 1.0, 2.0, 3.0, 0.5, inf)
    cases = [op(CDIST, rand(3, 5), rand(4, 5), p, None) for p in norms]
    cases += [having(op(PDIST, rand(5, 3), p), layouts=False) for p in norms]
    return [
        *cases,
        op(CDIST, rand(2, 3, 5), rand(2, 4, 5), 2.0, 1),
        op(CDIST, rand(2, 1, 3, 5), rand(3, 4, 5), 1.0, None),
        op(CDIST, rand(2, 3, 2, 3, 5), rand(2, 1, 2, 4, 5), 2.0, None),
        op(CDIST, rand(1, 5), rand(1, 5), 2.0, None),
        *(op(CDIST, rand(3, 0), rand(4, 0), p, None) for p in (2.0, inf)),
        op(CDIST, rand(0, 3), rand(4, 3), 2.0, None),
        *(having(op(PDIST, rand(n, 3)), layouts=False) for n in (0, 1, 2)),
        having(
            op(CDIST, rand(3, 5), rand(4, 5), 2.0, None),
            dynamic=({0: DYNAMIC}, {0: DYNAMIC}),
            others=((rand(7, 5), rand(2, 5)),),
            name="symbolic",
        ),
        having(op(PDIST, rand(3, 5)), dynamic=({0: DYNAMIC},), refused="symbolic"),
    ]


CASES = _distances()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case) -> None:
    check_case(case)


def test_near_rows_keep_their_digits() -> None:
    """Eager's matrix product would lose them, from 26 rows on."""
    x = rand(20, 8) + 100
    check_program(torch.cdist, x, x + rand(20, 8) * 1e-3)
