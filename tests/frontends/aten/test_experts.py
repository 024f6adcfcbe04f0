"""Tests of ``lower.experts``."""

from __future__ import annotations

import pytest
import torch
from tests.batches import check_case
from tests.frontends.aten.test_weights import STORED, Store, exact_rows
from tests.helpers import DYNAMIC, Case, having, index, lowered, op, rand, run_session, session
from torch import Tensor, nn

from executorch_ggml.frontends.aten.ops.experts import expert_linear
from executorch_ggml.ir.dtypes import DType

CASES: list[Case] = [
    op(expert_linear, rand(5, 2, 8), rand(4, 3, 8), index(4, 5, 2)),
    op(expert_linear, rand(5, 1, 8), rand(4, 3, 8), index(4, 5, 2)),
    op(expert_linear, rand(1, 1, 3), rand(1, 1, 3), index(1, 1, 1)),
    op(expert_linear, rand(0, 1, 3), rand(2, 1, 3), index(2, 0, 2)),
    having(op(expert_linear, rand(2, 3), rand(4, 3, 3), index(4, 2)), refused="experts with operands of 2, 3 and 1"),
    having(op(expert_linear, rand(2, 1, 3).half(), rand(4, 3, 3).half(), index(4, 2, 1)), refused="other than float32"),
    having(op(expert_linear, rand(5, 1, 8), rand(4, 3, 8), index(4, 5, 2)), dynamic=({0: DYNAMIC}, None, {0: DYNAMIC})),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case) -> None:
    check_case(case)


class Experts(nn.Module):
    def __init__(self, experts: int = 3, features: int = 40, inputs: int = 256) -> None:
        super().__init__()
        self.weight = nn.Parameter(rand(experts, features, inputs))

    def forward(self, x: Tensor, ids: Tensor) -> Tensor:
        out: Tensor = expert_linear(x, self.weight, ids)
        return out


@pytest.mark.parametrize("dtype", STORED, ids=lambda dtype: dtype.name)
def test_experts_are_multiplied_as_they_are_stored(dtype: DType) -> None:
    module = Experts().eval()
    store = Store(module, dtype)
    x, ids = exact_rows(6, 1, 256), torch.tensor([[0, 2], [1, 0], [2, 1], [0, 1], [0, 2], [2, 0]])
    (made,) = run_session(session(lowered(module, (x, ids), weights=store)), (x, ids))
    expected = expert_linear(x, store.decoded()["weight"], ids)
    torch.testing.assert_close(made, expected, rtol=0, atol=1e-5 * float(expected.abs().max()))


def test_an_expert_that_is_not_there_is_an_error() -> None:
    module, x = Experts().eval(), rand(2, 1, 256)
    ready = session(lowered(module, (x, torch.tensor([[0], [1]]))))
    with pytest.raises(RuntimeError, match="index 3 is out of range for size 3"):
        ready.run(x, torch.tensor([[0], [3]]))
