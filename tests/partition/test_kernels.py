"""Operators that neither ggml nor ExecuTorch has a kernel for are named before anybody tries to run the program."""

import warnings
from pathlib import Path

import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from executorch.exir.backend.partitioner import Partitioner
from tests.helpers import Calls, as_list, exported
from torch import Tensor, nn

import executorch_ggml
from executorch_ggml import GgmlPartitioner, explain

NEEDED = r"aten\.polygamma\.default \(aten_polygamma_default\) needs a kernel aten::polygamma\.out"
LINE = r"test_kernels\.py:\d+, in forward: middle = torch\.polygamma\(1, x\.abs\(\) \+ 1\)"


class Model(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        middle = torch.polygamma(1, x.abs() + 1)
        return middle.relu()


X = torch.randn(2, 3)


def test_export_refuses() -> None:
    with pytest.raises(ValueError, match=f"no kernels for these calls(.|\n)*{NEEDED} at (.*){LINE}; ggml: no lowering"):
        executorch_ggml.export(Model(), (X,))


@pytest.mark.parametrize("own", ["aten::polygamma.out", "aten::poly*", "*"])
def test_export_lets_a_kernel_of_the_users_pass(own: str) -> None:
    program = executorch_ggml.export(Model(), (X,), own_kernels=[own])
    assert [op.name for op in program.executorch_program.execution_plan[0].operators] == ["aten::polygamma"]


def test_export_refuses_in_control_flow() -> None:
    def branch(x: Tensor) -> Tensor:
        return torch.polygamma(1, x.abs() + 1)

    model = Calls(lambda x: torch.cond(x.sum() > 0, branch, torch.relu, (x,)))
    with pytest.raises(ValueError, match=r"aten\.polygamma\.default .* needs a kernel aten::polygamma\.out"):
        executorch_ggml.export(model, (X,))


def test_the_partitioner_warns() -> None:
    """It cannot know whether a partitioner after it takes the node."""

    def lower(*partitioners: Partitioner) -> None:
        config = EdgeCompileConfig(_check_ir_validity=False)
        to_edge_transform_and_lower(exported(Model(), (X,)), partitioner=list(partitioners), compile_config=config)

    with pytest.warns(UserWarning, match=f"unless a partitioner after GgmlPartitioner(.|\n)*{NEEDED} at (.*){LINE}"):
        lower(GgmlPartitioner(), XnnpackPartitioner())
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="unless a partitioner")
        lower(GgmlPartitioner(own_kernels=["aten::polygamma.out"]))


def test_explain_says_so() -> None:
    explanation = explain(exported(Model(), (X,)))
    assert [missing.kernel for missing in explanation.missing_kernels] == ["aten::polygamma.out"]
    assert "[cannot run] aten.polygamma.default" in str(explanation)


def _doubles(x: Tensor) -> list[Tensor]:
    """Much of what ExecuTorch has kernels for; float64 stays with it."""
    x = x.double()
    y = torch.where(x > 0, x.sin(), x.exp()).cumsum(1).clone()
    values, places = y.max(1)
    return [
        y @ x.t(),
        2.0**y,
        y**3,
        values,
        places,
        y.view(-1)[None],
        torch.cat([x, y]),
        y.sum(0).expand(2, 3),
        x.to(torch.float32),
    ]


def _asserting(x: Tensor) -> Tensor:
    torch._assert_async(x.isfinite().all(), "a NaN")
    return x + 1


@pytest.mark.parametrize("function", [_doubles, _asserting])
def test_what_has_kernels_is_not_refused(function: object, tmp_path: Path) -> None:
    assert callable(function)
    executorch_ggml.export(Calls(function), (X,)).save(str(tmp_path / "model.pte"))
    for ours, theirs in zip(
        as_list(executorch_ggml.load(tmp_path / "model.pte")(X)), as_list(function(X)), strict=True
    ):
        torch.testing.assert_close(ours, theirs)
