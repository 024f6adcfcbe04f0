"""Regions under autocast, or without gradients, are inlined."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.helpers import check_delegate
from torch import Tensor, nn
from torch.export import export

import executorch_ggml


class Autocast(nn.Module):
    def __init__(self, device: str, enabled: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.device, self.enabled = device, enabled

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(self.device, dtype=torch.bfloat16, enabled=self.enabled):
            y = self.linear(x + 1)
        return y * 2


@pytest.mark.parametrize(("device", "enabled"), [("cpu", False), ("cuda", False), ("cpu", True)])
def test_autocast(tmp_path: Path, device: str, enabled: bool) -> None:
    model, x = Autocast(device, enabled).eval(), torch.randn(2, 8)
    check_delegate(model, x, path=tmp_path)
    executorch_ggml.export(model, (x,)).save(str(tmp_path / "short.pte"))
    torch.testing.assert_close(executorch_ggml.load(tmp_path / "short.pte")(x), model(x))


def test_an_op_outside_core_aten_in_a_region(tmp_path: Path) -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            with torch.autocast("cpu", enabled=False):
                y = torch._int_mm(x, x.mT)
            return y * 2

    check_delegate(Model(), torch.arange(-32, 32, dtype=torch.int8).reshape(4, 16), path=tmp_path)


def test_explain() -> None:
    explained = executorch_ggml.explain(export(Autocast("cpu", enabled=False).eval(), (torch.randn(2, 8),)))
    assert explained.refused == ()
    assert explained.delegates == 1
