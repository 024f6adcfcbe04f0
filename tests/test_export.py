"""The short way from a module to a program."""

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.export import Dim

import executorch_ggml


def test_export_and_load(tmp_path: Path) -> None:
    model = nn.Linear(4, 3).eval()
    shapes = ({0: Dim("rows", max=9)},)
    executorch_ggml.export(model, (torch.randn(2, 4),), dynamic_shapes=shapes).save(str(tmp_path / "model.pte"))
    module = executorch_ggml.load(tmp_path / "model.pte")
    for rows in (9, 1, 4):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(module(x), model(x))


def test_a_dim_without_a_maximum_is_named() -> None:
    with pytest.raises(ValueError, match=r"input input.*, dim 0: .*no maximum.*max="):
        executorch_ggml.export(nn.Linear(4, 3), (torch.randn(2, 4),), dynamic_shapes=({0: Dim("rows")},))


def test_keyword_inputs(tmp_path: Path) -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor, *, y: torch.Tensor) -> torch.Tensor:
            return x * 2 + y

    x, y = torch.randn(3), torch.randn(3)
    executorch_ggml.export(Model(), (x,), kwargs={"y": y}).save(str(tmp_path / "model.pte"))
    torch.testing.assert_close(executorch_ggml.load(tmp_path / "model.pte")(x, y), x * 2 + y)


def test_a_part_without_gradients(tmp_path: Path) -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                y = x.cos()
            return x * y

    x = torch.randn(3)
    executorch_ggml.export(Model(), (x,)).save(str(tmp_path / "model.pte"))
    torch.testing.assert_close(executorch_ggml.load(tmp_path / "model.pte")(x), x * x.cos())
