"""Ops without a kernel in ExecuTorch, decomposed in the user's own flow."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers.integrations.moe  # noqa: F401 - registers the op
from tests.helpers import check_delegate, delegated
from torch import Tensor, nn
from torch.export import export

from executorch_ggml.partition.compositions import composed


class Erfinv(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.erfinv(x)


def test_erfinv(tmp_path: Path) -> None:
    tails = 1 - torch.logspace(-7.2, -1, 200)
    special = torch.tensor([1.0, -1.0, 0.0, -0.0, 1.5, -2.0, torch.inf, torch.nan, 1e-30])
    x = torch.cat([special, torch.linspace(-1, 1, 2001), tails, -tails, torch.logspace(-30, -1, 100)])
    result = delegated(Erfinv(), (x,), tmp_path).load()(x)
    torch.testing.assert_close(result.double(), torch.erfinv(x.double()), rtol=4e-7, atol=0, equal_nan=True)
    assert torch.equal(result[:4], torch.erfinv(x[:4]))
    assert torch.signbit(result[3])


@pytest.mark.parametrize("dtype", [torch.float16, torch.int64])
def test_erfinv_of_other_types(dtype: torch.dtype) -> None:
    x = torch.tensor([-1, 0, 1]).to(dtype)
    result = composed(export(Erfinv(), (x,))).module()(x)
    assert torch.equal(result, torch.erfinv(x))
    assert result.dtype == torch.erfinv(x).dtype


def test_erfinv_in_float64_stays() -> None:
    program = composed(export(Erfinv(), (torch.zeros(3, dtype=torch.float64),)))
    assert [node.target for node in program.graph.nodes if node.op == "call_function"] == [
        torch.ops.aten.erfinv.default
    ]


def test_histogram(tmp_path: Path) -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.histc(x, bins=4, min=-1, max=3)

    x = torch.tensor([[-1.0, 3.0, 0.0, 2.999], [-1.001, 3.5, torch.nan, 1.0]])
    check_delegate(Model(), x, path=tmp_path, tolerance=0)


def test_a_histogram_between_the_limits_of_the_data_stays() -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.histc(x, bins=4)

    x = torch.randn(9)
    assert torch.equal(composed(export(Model(), (x,))).module()(x), torch.histc(x, bins=4))


def test_grouped_products(tmp_path: Path) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 8, 6))

        def forward(self, x: Tensor, offs: Tensor) -> Tensor:
            result: Tensor = torch.ops.transformers.grouped_mm_fallback(x, self.weight, offs)
            return result

    model, x = Model().eval(), torch.randn(7, 8)
    program = delegated(model, (x, torch.tensor([2, 2, 5, 7], dtype=torch.int32)), tmp_path)
    assert program.partitioner.refused == {}
    for ends in ([2, 2, 5, 7], [0, 0, 0, 7], [1, 2, 3, 5]):  # after the last end come zeros
        offs = torch.tensor(ends, dtype=torch.int32)
        expected = torch.ops.transformers.grouped_mm_fallback(x, model.weight, offs)
        torch.testing.assert_close(program.load()(x, offs), expected)
