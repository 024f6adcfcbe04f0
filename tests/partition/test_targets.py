"""The targets of a program: a graph for each in a delegate, over one copy of the weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from tests.helpers import assert_same, delegates_of
from torch import Tensor, nn

import executorch_ggml
from executorch_ggml.ir.serialize import targets_of
from executorch_ggml.ir.target import Target
from executorch_ggml.partition import GgmlPartitioner


class Net(nn.Module):
    """A convolution, a layer, and rows by index."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.linear = nn.Linear(8, 4096)

    def forward(self, x: Tensor, i: Tensor) -> Tensor:
        y: Tensor = self.linear(torch.relu(self.conv(x)).mean((2, 3)))
        return y[i]


INPUTS = (torch.randn(4, 3, 8, 8), torch.tensor([2, 0]))


def exported(path: Path, **options: tuple[str, ...]) -> list[Target]:
    """Write the program; gives its targets."""
    program = torch.export.export(Net().eval(), INPUTS)
    edge = to_edge_transform_and_lower(program, partitioner=[GgmlPartitioner(**options)])  # type: ignore[arg-type]
    (delegate,) = delegates_of(edge)
    with path.open("wb") as file:
        edge.to_executorch().write_to_file(file)
    return targets_of(delegate.processed_bytes)


def test_both_by_default(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Net().eval()
    weights = sum(parameter.nbytes for parameter in model.parameters())
    torch.manual_seed(0)
    assert exported(tmp_path / "both.pte") == [Target.CPU, Target.GGML]
    torch.manual_seed(0)
    assert exported(tmp_path / "cpu.pte", targets=("cpu",)) == [Target.CPU]
    sizes = [(tmp_path / f"{name}.pte").stat().st_size for name in ("both", "cpu")]
    assert 0 < sizes[0] - sizes[1] < weights / 8  # nodes alone
    for name in ("both", "cpu"):
        assert_same(executorch_ggml.load(tmp_path / f"{name}.pte")(*INPUTS), model(*INPUTS))


def test_for_other_devices_alone(tmp_path: Path) -> None:
    torch.manual_seed(0)
    assert exported(tmp_path / "ggml.pte", targets=("ggml",)) == [Target.GGML]
    torch.manual_seed(0)
    assert_same(executorch_ggml.load(tmp_path / "ggml.pte")(*INPUTS), Net().eval()(*INPUTS))


def test_names_of_targets() -> None:
    with pytest.raises(ValueError, match=r"targets: \('cuda',\), expected one or more of \('cpu', 'ggml'\)"):
        GgmlPartitioner(targets=("cuda",))
