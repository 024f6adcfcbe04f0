"""What is delegated, what is not and why; programs that are cut into several parts."""

import sys
from pathlib import Path

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from tests.helpers import Calls, assert_same, check_delegate, exported, rand
from torch import Tensor, nn
from torch.export import Dim

import executorch_ggml
from executorch_ggml import GgmlPartitioner, explain
from executorch_ggml.cli import main

REASON = "float64 is left to ExecuTorch: ggml computes in float32"


class AroundDouble(nn.Module):
    """A function in float64, which is left to ExecuTorch, between two parts that are not; a size crosses over."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 5), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.first(x).relu()
        precise = torch.sin(hidden.double())
        return self.last(precise.float()) * x.shape[0], precise


class Passing(nn.Module):
    """Outputs that no node computes: an input, a constant, one value twice."""

    weight: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.arange(4.0))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        y = x + self.weight
        return x.view(2, 2), y, y.reshape(2, 2), self.weight * 1


def test_several_partitions(tmp_path: Path) -> None:
    model = AroundDouble().eval()
    x = torch.randn(4, 6)
    exported = torch.export.export(model, (x,), dynamic_shapes=({0: Dim("rows", max=16)},))
    partitioner = GgmlPartitioner()
    program = to_edge_transform_and_lower(exported, partitioner=[partitioner]).to_executorch()
    assert set(partitioner.refused.values()) == {REASON}
    assert len(program.executorch_program.execution_plan[0].delegates) == 2
    program.save(str(tmp_path / "model.pte"))
    module = executorch_ggml.load(tmp_path / "model.pte")
    for rows in (4, 1, 16):
        x = torch.randn(rows, 6)
        for ours, theirs in zip(module(x), model(x), strict=True):
            assert_same(ours, theirs.detach())


def test_outputs_that_nothing_computes(tmp_path: Path) -> None:
    model = Passing()
    x = torch.randn(4)
    executorch_ggml.export(model, (x,)).save(str(tmp_path / "model.pte"))
    module = executorch_ggml.load(tmp_path / "model.pte")
    for _ in range(2):
        for ours, theirs in zip(module(x), model(x), strict=True):
            assert_same(ours, theirs)


def test_explain_says_why() -> None:
    exported = torch.export.export(AroundDouble().eval(), (torch.randn(4, 6),))
    explanation = explain(exported)
    assert [verdict.op for verdict in explanation.refused if "sin" in verdict.op]
    text = str(explanation)
    assert f"{explanation.delegated} of {len(explanation.nodes)} nodes run in ggml, in 2 delegates" in text
    assert f"[cuts ggml's part x1] aten.sin.default: {REASON}" in text
    assert f"aten.sin.default: {REASON}" in text
    assert str(explain(exported)) == text, "explaining changes nothing"


def test_inspect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    executorch_ggml.export(AroundDouble().eval(), (torch.randn(4, 6),)).save(str(tmp_path / "model.pte"))
    assert main(["inspect", str(tmp_path / "model.pte")]) == 0
    printed = capsys.readouterr().out
    assert "method forward: 2 delegates, 1 calls outside" in printed
    assert "linear(%x" in printed.replace("%input", "%x")
    assert f"[left to ExecuTorch x1] aten.sin.default: {REASON}" in printed
    (tmp_path / "text.pte").write_text("not a program")
    assert main(["inspect", str(tmp_path / "text.pte")]) == 1
    assert "is not an ExecuTorch program" in capsys.readouterr().err
    (tmp_path / "model.gguf").write_bytes(b"GGUF and more")
    assert main(["inspect", str(tmp_path / "model.gguf")]) == 1
    assert "model.gguf is a GGUF file and no program" in capsys.readouterr().err


def test_an_op_outside_core_aten_goes_through(tmp_path: Path) -> None:
    """ExecuTorch's verifier refuses adaptive_max_pool2d; the exported program itself stays as it was."""
    model, x = nn.AdaptiveMaxPool2d((3, 2), return_indices=True), rand(2, 3, 7, 5)
    program = exported(model, (x,))
    before = [node.target for node in program.graph.nodes]
    to_edge_transform_and_lower(program, partitioner=[GgmlPartitioner()])
    assert [node.target for node in program.graph.nodes] == before
    check_delegate(model, x, path=tmp_path)


def test_the_callers_program_keeps_its_constants() -> None:
    """A number lifted from the code is a constant that a delegate takes."""
    x = torch.randn(2, 3)
    exported = torch.export.export(Calls(lambda x: x * torch.tensor([1.0, 2.0, 3.0])), (x,))
    to_edge_transform_and_lower(exported, partitioner=[GgmlPartitioner()])
    assert_same(exported.module()(x), x * torch.tensor([1.0, 2.0, 3.0]))


def test_delegates_have_debug_handles() -> None:
    """ExecuTorch's devtools read them as delegate_map: the nodes of a delegate, and what each comes from."""
    exported = torch.export.export(nn.Sequential(nn.Linear(4, 4), nn.Tanh()).eval(), (torch.rand(2, 4),))
    edge = to_edge_transform_and_lower(exported, partitioner=[GgmlPartitioner()])
    (delegate,) = edge.to_executorch().delegate_map["forward"].values()
    assert delegate["name"] == "GgmlBackend"
    lowered = next(iter(edge.exported_program().graph_module.children()))
    nodes = [node for node in lowered.original_module.graph.nodes if "aten" in node.name]
    handles = {node.name: node.meta["debug_handle"] for node in nodes}
    found = {handle for group in delegate["delegate_map"].values() for handle in group}
    assert found == set(handles.values()), delegate


def test_an_explanation_of_what_cannot_be_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise IndexError("a pass met what it did not expect\nand more")

    program = torch.export.export(nn.Linear(4, 4).eval(), (torch.rand(2, 4),))
    module = sys.modules["executorch_ggml.partition.explain"]  # the package has the function under this name
    monkeypatch.setattr(module, "to_edge_transform_and_lower", fail)
    explained = explain(program)
    assert explained.failure == "IndexError: a pass met what it did not expect"
    assert str(explained) == f"the program cannot be lowered: {explained.failure}"
    with pytest.raises(TypeError, match="explain takes"):
        explain(3)
