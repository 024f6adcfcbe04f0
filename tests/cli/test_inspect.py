"""``inspect`` of a program's file."""

from pathlib import Path

import pytest
import torch
from torch import nn

import executorch_ggml
from executorch_ggml.cli import main


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program whose weights are stored in every layout."""
    layers = [nn.Conv2d(3, 5, 3), nn.ReLU(), nn.Conv2d(5, 5, 3, groups=5), nn.Flatten(), nn.Linear(80, 7)]
    path = tmp_path_factory.mktemp("inspect") / "model.pte"
    shapes = ({0: torch.export.Dim("batch", max=4)},)
    model, x = nn.Sequential(*layers).eval(), torch.randn(2, 3, 8, 8)
    executorch_ggml.export(model, (x,), dynamic_shapes=shapes).save(str(path))
    return path


def test_nodes_and_storage(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(program)]) == 0
    text = capsys.readouterr().out
    for layout in ("KERNEL_BLOCKS", "DEPTHWISE, groups=5", "MATRIX_BLOCKS"):
        assert f"stored as {layout}\n" in text
    assert "epilogue={activation: CLAMP, high: inf}" in text


def test_placement(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "--summary", "--device", "cpu", str(program)]) == 0
    text = capsys.readouterr().out
    assert "device CPU computes" in text
    assert "in 1 split; a call moves 0 bytes to it and 0 back" in text
    assert "stored as" not in text
