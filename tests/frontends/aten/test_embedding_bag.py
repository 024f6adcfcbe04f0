from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.batches import check_case
from tests.helpers import DYNAMIC, Case, check_delegate, const, having, index, lowered, op, rand, session
from torch import nn

aten = torch.ops.aten

BAG, FORWARD = aten._embedding_bag.default, aten._embedding_bag_forward_only.default
STARTS = torch.tensor([0, 3, 3, 7])
WITH_LAST = torch.tensor([0, 3, 3, 9])


def _bags() -> list[Case]:
    table, places = const(10, 6), index(10, 9)
    cases: list[Case] = []
    for mode in range(3):
        cases += [
            op(BAG, table, places, STARTS, False, mode),
            op(FORWARD, table, places, STARTS, False, mode),
            op(FORWARD, rand(10, 6), places.int(), STARTS.int(), False, mode),
            op(FORWARD, table, places, WITH_LAST, False, mode, False, None, True),
            op(FORWARD, table, places, STARTS, False, mode, False, None, False, int(places[4])),
            op(FORWARD, table, torch.zeros(3).long(), torch.tensor([0]), False, mode),
            op(FORWARD, table, torch.zeros(0).long(), torch.tensor([0, 0]), False, mode),
            op(FORWARD, table, torch.zeros(0).long(), torch.zeros(0).long(), False, mode),
            having(op(FORWARD, rand(10, 6, dtype=torch.float16), places, STARTS, False, mode), name=f"f16-{mode}"),
            having(
                op(FORWARD, table, places, STARTS, False, mode),
                name=f"symbolic-{mode}",
                dynamic=({0: DYNAMIC}, {0: DYNAMIC}),
                others=((index(10, 12), torch.tensor([0, 2, 12])), (index(10, 3), torch.tensor([0]))),
            ),
        ]
    cases.append(op(FORWARD, table, places, STARTS, False, 0, False, rand(9)))
    cases.append(having(op(FORWARD, rand(10, 6).double(), places, STARTS), name="f64", refused="f64"))
    return [having(case, keep=(0,), layouts=False) for case in cases]


CASES = _bags()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case) -> None:
    check_case(case)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_module(mode: str, tmp_path: Path) -> None:
    check_delegate(nn.EmbeddingBag(10, 5, mode=mode), index(10, 8), torch.tensor([0, 4]), path=tmp_path)
    check_delegate(nn.EmbeddingBag(10, 5, mode=mode, padding_idx=2), index(10, 4, 3), path=tmp_path)


@pytest.mark.parametrize("offsets", [[1, 4], [0, 9], [0, -1]])
def test_offsets_out_of_range(offsets: list[int]) -> None:
    module = nn.EmbeddingBag(10, 5)
    ready = session(lowered(module, (index(10, 8), torch.tensor([0, 4]))))
    with pytest.raises(RuntimeError, match="out of range"):
        ready.run(index(10, 8), torch.tensor(offsets))
