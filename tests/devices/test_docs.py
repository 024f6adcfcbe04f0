"""The examples of docs/devices.md run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import executorch_ggml
from executorch_ggml import devices

PAGE = Path(__file__).parents[2] / "docs" / "devices.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_a_device(tmp_path: Path) -> None:
    names: dict[str, object] = {}
    exec(EXAMPLES[0], names)
    devices.load()
    weight = torch.randn(8, 4)

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.relu(x @ weight.T) * y + y

    inputs = torch.randn(2, 4), torch.randn(2, 8)
    executorch_ggml.export(Model().eval(), inputs).save(str(tmp_path / "model.pte"))
    executorch_ggml.set_device("numpy")
    try:
        torch.testing.assert_close(executorch_ggml.load(tmp_path / "model.pte")(*inputs), Model()(*inputs))
    finally:
        executorch_ggml.set_device("")


def test_its_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(EXAMPLES[1], {})
