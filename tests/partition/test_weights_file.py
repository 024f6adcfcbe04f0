"""Weights in a .ptd file beside the program."""

from pathlib import Path

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from torch import nn

import executorch_ggml
from executorch_ggml import GgmlPartitioner


def test_weights_in_a_file_of_their_own(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 8)).eval()
    inputs = (torch.randn(3, 64),)
    exported = torch.export.export(model, inputs)
    edge = to_edge_transform_and_lower(exported, partitioner=[GgmlPartitioner(weights_file="weights")])
    program = edge.to_executorch()
    program.save(str(tmp_path / "model.pte"))
    program.write_tensor_data_to_file(str(tmp_path))

    weights = sum(parameter.nbytes for parameter in model.parameters())
    assert (tmp_path / "weights.ptd").stat().st_size >= weights
    assert (tmp_path / "model.pte").stat().st_size < weights
    module = executorch_ggml.load(tmp_path / "model.pte", data_path=tmp_path / "weights.ptd")
    torch.testing.assert_close(module(*inputs), model(*inputs))

    with pytest.raises(RuntimeError, match=r"constant 0\..*data file"):
        executorch_ggml.load(tmp_path / "model.pte")(*inputs)
