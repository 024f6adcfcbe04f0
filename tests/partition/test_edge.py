"""Methods that ggml computes alone are partitioned in Core ATen; their delegates are those of Edge programs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.exir import EdgeCompileConfig, EdgeProgramManager, to_edge_transform_and_lower
from tests import zoo
from tests.helpers import assert_all_same, delegates_of, left_of
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export

import executorch_ggml
from executorch_ggml import GgmlPartitioner
from executorch_ggml._export import executorch_config
from executorch_ggml.frontends.aten import LOWERINGS
from executorch_ggml.ir.printer import to_text
from executorch_ggml.ir.serialize import deserialize
from executorch_ggml.partition.edge import lowered_to_edge

aten = torch.ops.aten
X = torch.linspace(-2, 2, 24).reshape(4, 6)


def lowered_in_core_aten(program: ExportedProgram, **options: Any) -> EdgeProgramManager:
    return lowered_to_edge({"forward": program}, GgmlPartitioner(), **options)


def lowered_in_edge(program: ExportedProgram) -> EdgeProgramManager:
    config = EdgeCompileConfig(_check_ir_validity=False)
    return to_edge_transform_and_lower(program, partitioner=[GgmlPartitioner()], compile_config=config)


def node_names(edge: EdgeProgramManager) -> set[str]:
    return {node.name for delegate in delegates_of(edge) for node in deserialize(delegate.processed_bytes).nodes}


def ir(edge: EdgeProgramManager) -> list[str]:
    """The delegates' IR, without the names that differ: those of nodes, of outputs and of symbols."""
    texts = [to_text(deserialize(delegate.processed_bytes)) for delegate in delegates_of(edge)]
    unnamed = [re.sub(r"  # .*|(?<=^output )\S+", "", text, flags=re.MULTILINE) for text in texts]
    return [re.sub(r"\b[su]\d+\b", "s", text) for text in unnamed]


def outputs(edge: EdgeProgramManager, path: Path, *inputs: Any) -> Any:
    edge.to_executorch(executorch_config()).save(str(path / "program.pte"))
    return executorch_ggml.load(path / "program.pte").run("forward", inputs)


def test_the_delegates_are_those_of_edge_programs() -> None:
    module, args, dynamic_shapes = zoo.load("unet", small=True)
    program = export(module, args, dynamic_shapes=dynamic_shapes)
    core, edge = lowered_in_core_aten(program), lowered_in_edge(program)
    assert ir(core) == ir(edge)
    assert not any(node.startswith("aten_") for node in node_names(core))
    assert any(node.startswith("aten_") for node in node_names(edge))


class InPlace(nn.Module):
    """In-place activations, one of them not decomposed, and a mutated buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)
        self.calls = nn.Buffer(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.calls.add_(1)
        return nn.functional.hardswish(nn.functional.silu(self.layer(x), inplace=True), inplace=True) * self.calls


class EmptyParts(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        nothing = x[:, :0]
        return torch.cat([nothing, x.sin(), nothing], 1), torch.cat([nothing, nothing], 1)


class Copies(nn.Module):
    """Results that are inputs, constants, or copies of them; an input called like a function of Python."""

    def __init__(self) -> None:
        super().__init__()
        self.constant = nn.Buffer(torch.arange(6.0))

    def forward(self, input: Tensor, max: Tensor) -> tuple[Tensor, ...]:
        return input.to(torch.float32), self.constant, max, input + max, (input * 2).to(torch.float32)


class Mixed(nn.Module):
    """Types that torch promotes, and numbers: ExecuTorch's passes would convert these first."""

    def forward(self, x: Tensor, n: Tensor) -> tuple[Tensor, ...]:
        return x + n, x * 2, n * 2, n / 2, n + 0, n + 1.5, torch.div(n, 2, rounding_mode="floor"), x.half() - x


MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[Tensor, ...]]] = {
    "in place": (InPlace, (X,)),
    "empty parts": (EmptyParts, (X,)),
    "copies": (Copies, (X, X[0] + 1)),
    "mixed types": (Mixed, (X, torch.arange(-3, 3))),
}


@pytest.mark.parametrize("name", MODULES)
def test_results(name: str, tmp_path: Path) -> None:
    make, args = MODULES[name]
    torch.manual_seed(0)
    module = make().eval()
    edge = lowered_in_core_aten(export(module, args))
    assert left_of(edge) == []
    assert_all_same(outputs(edge, tmp_path, *args), module(*args))


class Flipped(nn.Module):
    """Flips between ops that ggml runs, and has a state."""

    def __init__(self) -> None:
        super().__init__()
        self.total = nn.Buffer(torch.zeros(6))

    def forward(self, x: Tensor) -> Tensor:
        self.total.add_(x.sum(0))
        return torch.flip(x.relu(), [0]) + self.total


@pytest.fixture
def without_flip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(LOWERINGS, aten.flip.default)


@pytest.mark.usefixtures("without_flip")
def test_what_ggml_does_not_run_is_left_as_in_edge_programs(tmp_path: Path) -> None:
    module = Flipped()
    core, edge = lowered_in_core_aten(export(module, (X,))), lowered_in_edge(export(module, (X,)))
    assert left_of(core) == left_of(edge) == ["aten.flip.default"]
    assert ir(core) == ir(edge)
    assert_all_same(outputs(core, tmp_path, X), module(X))


@pytest.mark.usefixtures("without_flip")
@pytest.mark.parametrize("others", ["all in ggml", "not all in ggml"])
def test_methods_share_their_states(others: str, tmp_path: Path) -> None:
    class Reads(nn.Module):
        def __init__(self, writes: Flipped) -> None:
            super().__init__()
            self.total = writes.total

        def forward(self, x: Tensor) -> Tensor:
            self.total.mul_(2)
            return self.total + x

    class Writes(Flipped):
        def forward(self, x: Tensor) -> Tensor:
            self.total.add_(x.sum(0))
            return self.total * 1

    writes = Writes() if others == "all in ggml" else Flipped()
    programs = {"forward": export(writes, (X,)), "read": export(Reads(writes), (X[0],))}
    edge = lowered_to_edge(programs, GgmlPartitioner(), constant_methods={"version": 3})
    edge.to_executorch(executorch_config()).save(str(tmp_path / "program.pte"))
    module = executorch_ggml.load(tmp_path / "program.pte")
    module.run("forward", [X])
    module.run("forward", [X])
    assert_all_same(module.run("read", [X[0]]), 4 * X.sum(0) + X[0])
    assert module.run("version", []) == 3


def test_the_exported_program_stays_as_it_is() -> None:
    program = export(InPlace(), (X,))
    before = str(program)
    lowered_in_core_aten(program)
    assert str(program) == before


def test_an_etrecord_is_of_the_edge_program() -> None:
    edge = lowered_in_core_aten(export(nn.ReLU(), (X,)), generate_etrecord=True)
    assert node_names(edge) == {"aten_relu_default"}
    assert node_names(lowered_in_core_aten(export(nn.ReLU(), (X,)))) == {"relu"}


def test_a_dynamic_dim_keeps_its_range(tmp_path: Path) -> None:
    module = nn.Conv2d(3, 4, 3).eval()  # torch would choose another library from 16 images on
    x = torch.randn(2, 3, 5, 5)
    edge = lowered_in_core_aten(export(module, (x,), dynamic_shapes=({0: Dim("batch", max=40)},)))
    many = torch.randn(40, 3, 5, 5)
    assert_all_same(outputs(edge, tmp_path, many), module(many))
