"""Several methods in one program, and parts whose sizes depend on data."""

from pathlib import Path

import torch
from executorch.exir import to_edge_transform_and_lower
from tests.helpers import assert_all_same
from torch import Tensor, nn

import executorch_ggml
from executorch_ggml import GgmlPartitioner
from executorch_ggml._export import executorch_config


def test_methods_share_weights(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256)).eval().requires_grad_(False)
    inputs = {"one": (torch.randn(1, 256),), "many": (torch.randn(7, 256),)}
    sizes = []
    for names in (["one"], ["one", "many"]):
        programs = {name: torch.export.export(model, inputs[name]) for name in names}
        edge = to_edge_transform_and_lower(programs, partitioner=[GgmlPartitioner()])
        edge.to_executorch(executorch_config()).save(str(tmp_path / "model.pte"))
        sizes.append((tmp_path / "model.pte").stat().st_size)
    weights = 2 * 256 * 256 * 4
    assert weights < sizes[0] < sizes[1] < sizes[0] + weights // 8
    module = executorch_ggml.load(tmp_path / "model.pte")
    for name, given in inputs.items():
        assert_all_same(module.run(name, given), model(*given))


class Selected(nn.Module):
    """How many rows there are depends on the data."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        places = torch.nonzero(x.sum(1) > 0)
        return places, x.exp() * 2


def test_nonzero(tmp_path: Path) -> None:
    x = torch.tensor([[1.0, 2.0], [-3.0, 1.0], [0.5, 0.25]])
    executorch_ggml.export(Selected(), (x,)).save(str(tmp_path / "model.pte"))
    module = executorch_ggml.load(tmp_path / "model.pte")
    for given in (x, -x, x.abs()):
        assert_all_same(module(given), Selected()(given))
