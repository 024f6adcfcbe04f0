"""Padding from within: mirrored, repeated, around the ends."""

import pytest
import torch
from tests.batches import check_case
from tests.helpers import DYNAMIC, Case, having, op, rand

aten = torch.ops.aten


def _pads() -> list[Case]:
    cases = [having(op(aten.pad.default, rand(2, 3, 4, 5), [1, 2, -1, 0], "constant", 2.0), name="constant")]
    for mode in ("circular", "replicate", "reflect"):
        for x, amounts in (
            (rand(2, 3, 5), [2, 1]),
            (rand(2, 3, 5, 6), [2, 0, 1, 3]),
            (rand(2, 3, 5, 6), [-1, 2, 1, -2]),
            (rand(3, 5, 6), [4, 3, 0, 2]),
            (rand(2, 3, 4, 5, 6), [1, 2, 2, 1, 3, 0]),
            (rand(1, 2, 3, 4, 5), [1, 1, 0, 0, 1, 1]),
        ):
            label = f"{mode}-{'x'.join(map(str, x.shape))}-{amounts}"
            cases.append(having(op(aten.pad.default, x, amounts, mode), name=label))
        sizes, others = ({0: DYNAMIC, 2: DYNAMIC, 3: DYNAMIC},), ((rand(1, 4, 12, 9),), (rand(5, 4, 7, 30),))
        symbolic = op(aten.pad.default, rand(2, 4, 8, 10), [2, 1, 0, 3], mode)
        cases.append(having(symbolic, name=f"{mode}-symbolic", dynamic=sizes, others=others))
    for kind in ("reflection", "replication"):
        for rank, x in enumerate((rand(2, 3, 5), rand(3, 5, 6), rand(2, 3, 4, 5, 6)), 1):
            overload = getattr(aten, f"{kind}_pad{rank}d").default
            cases.append(having(op(overload, x, [2, 1, 1, 0, 0, 2][: 2 * rank]), name=f"{kind}-{rank}d"))
    return [*cases, having(op(aten.pad.default, rand(1, 2, 40), [20, 33], "reflect"), name="reflect-far")]


CASES = _pads()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case) -> None:
    check_case(case)
