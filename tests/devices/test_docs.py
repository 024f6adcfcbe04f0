"""The examples of docs/devices.md run as they stand."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tools.snippets import ROOT, blocks

import executorch_ggml
from executorch_ggml import devices

EXAMPLES = blocks("python", ROOT / "docs" / "devices.md")


@pytest.fixture(scope="module")
def numpy_device() -> str:
    exec(EXAMPLES[0], {})
    devices.load()
    return "numpy"


class Weightless(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * x + x)


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (Weightless(), (2, 4)),
        (torch.nn.Linear(4, 8), (2, 4)),
        (torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)), (2, 5, 4)),
    ],
    ids=["no_weights", "linear", "mlp"],
)
def test_a_device(numpy_device: str, model: torch.nn.Module, shape: tuple[int, ...], tmp_path: Path) -> None:
    """It computes the whole program, not a part of it."""
    x = torch.randn(shape)
    explained = executorch_ggml.explain(torch.export.export(model.eval(), (x,)), device=numpy_device)
    assert explained.placement is not None
    assert explained.placement.on_device == len(explained.placement.nodes) > 0
    executorch_ggml.export(model.eval(), (x,)).save(str(tmp_path / "model.pte"))
    executorch_ggml.set_device(numpy_device)
    try:
        torch.testing.assert_close(executorch_ggml.load(tmp_path / "model.pte")(x), model(x))
    finally:
        executorch_ggml.set_device("")


def test_its_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    exec(EXAMPLES[1], {})
    assert "device torch computes 1 of ggml's 1 nodes" in capsys.readouterr().out
