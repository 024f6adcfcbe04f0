"""Programs of delegates that are reduced to the sizes of their results, and programs that are not traced again."""

from __future__ import annotations

from pathlib import Path

import torch
from executorch.exir import EdgeCompileConfig, EdgeProgramManager, to_edge_transform_and_lower
from tests.helpers import assert_same
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export

import executorch_ggml
from executorch_ggml import GgmlPartitioner
from executorch_ggml.partition.functional import FunctionalProgram, decomposed, functional_copy
from executorch_ggml.partition.outlines import outline_delegates
from executorch_ggml.partition.placement import delegates

aten = torch.ops.aten


class Counting(nn.Module):
    """Writes a buffer; its results have a symbolic dim, or none, or one that no input has."""

    def __init__(self, twice: bool) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.total = nn.Buffer(torch.zeros(4))
        self.twice = twice

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self.total.add_(x.sum(0))
        y = self.layer(x * self.total)
        return torch.cat([y, y]) if self.twice else y, self.total * 2


def lowered(model: nn.Module) -> EdgeProgramManager:
    program = export(model.eval(), (torch.ones(5, 4),), dynamic_shapes=({0: Dim("rows", max=9)},))
    config = EdgeCompileConfig(_check_ir_validity=False)
    return to_edge_transform_and_lower(program, partitioner=[GgmlPartitioner()], compile_config=config)


def calls(edge: EdgeProgramManager) -> list[int]:
    """How many nodes the program of each delegate calls."""
    programs = [delegate.original_module for delegate, _ in delegates(edge.exported_program())]
    return [sum(node.op == "call_function" for node in program.graph.nodes) for program in programs]


def run(edge: EdgeProgramManager, path: Path, *inputs: Tensor) -> list[Tensor]:
    edge.to_executorch().save(str(path))
    module = executorch_ggml.load(path)
    return [result for x in inputs for result in module(x)]


def test_results_of_inputs_sizes(tmp_path: Path) -> None:
    """The program computes as before, for other sizes than at export too."""
    torch.manual_seed(0)
    model = Counting(twice=False)
    edge = lowered(model)
    (before,) = calls(edge)
    outline_delegates(edge.exported_program())
    assert calls(edge) == [3] != [before]  # a size and two tensors
    inputs = torch.randn(2, 4), torch.randn(9, 4)
    expected = [result.detach().clone() for x in inputs for result in model(x)]
    for actual, wanted in zip(run(edge, tmp_path / "model.pte", *inputs), expected, strict=True):
        assert_same(actual, wanted, 1e-6)


def test_other_sizes_keep_the_program(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Counting(twice=True)
    edge = lowered(model)
    before = calls(edge)
    outline_delegates(edge.exported_program())
    assert calls(edge) == before
    x = torch.randn(3, 4)
    expected = [result.detach().clone() for result in model(x)]
    for actual, wanted in zip(run(edge, tmp_path / "model.pte", x), expected, strict=True):
        assert_same(actual, wanted, 1e-6)


class Several(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([nn.functional.silu(x).transpose(0, 1), x.t()])


def exported() -> ExportedProgram:
    return export(Several(), (torch.ones(2, 3),))


def targets(program: ExportedProgram) -> set[object]:
    return {node.target for node in program.graph.nodes if node.op == "call_function"}


def test_what_is_functional_is_not_traced_again() -> None:
    copy = functional_copy(exported())
    assert copy.run_decompositions({}) is copy
    assert aten.stack.default in targets(copy)
    assert aten.stack.default not in targets(copy.run_decompositions())


def test_what_is_decomposed_is_not_traced_again() -> None:
    program = decomposed(exported())
    assert not {aten.stack.default, aten.transpose.int} & targets(program)
    table = torch.export.default_decompositions()
    table.pop(aten.silu.default, None)  # which is lowered whole
    assert program.run_decompositions(table) is program
    assert aten.silu.default not in targets(program.run_decompositions())


def test_what_a_transform_changes_is_traced_again() -> None:
    program = functional_copy(exported())
    silu = next(node for node in program.graph.nodes if node.target is aten.silu.default)
    silu.target = aten.type_as.default  # another op, which is a composite one
    silu.args = (silu.args[0], silu.args[0])
    again = program.run_decompositions({})
    assert again is not program
    assert not isinstance(again, FunctionalProgram)
