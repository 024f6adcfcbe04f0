"""ExecuTorch's developer tools over our delegates: events, ETRecord, bundled programs; profiles and their command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from executorch.devtools import BundledProgram, Inspector
from executorch.devtools.bundled_program.config import MethodTestCase, MethodTestSuite
from executorch.devtools.bundled_program.serialize import serialize_from_bundled_program_to_flatbuffer
from executorch.exir import to_edge_transform_and_lower
from executorch.extension.pybindings import portable_lib
from tests.devices import standin_device
from torch import nn

import executorch_ggml
from executorch_ggml import GgmlPartitioner
from executorch_ggml.cli import commands
from executorch_ggml.profiling import Profile, profile


class Small(nn.Module):
    """A convolution with an activation, which become one node, and a product."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.relu = nn.ReLU()
        self.head = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.relu(self.conv(x))
        return self.head(x.mean((2, 3))).sigmoid()  # the line of sigmoid


class Parts(nn.Module):
    """Two delegates with float64 arithmetic between them, which ExecuTorch's kernels do."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = torch.sqrt(torch.exp(x).double() * 1.5)
        return torch.relu(wide.float() - 1.0)


INPUT = (torch.randn(1, 3, 64, 64, generator=torch.Generator().manual_seed(0)),)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A program and its ETRecord."""
    folder = tmp_path_factory.mktemp("profiling")
    program = executorch_ggml.export(Small().eval(), INPUT, generate_etrecord=True)
    program.save(str(folder / "model.pte"))
    program.get_etrecord().save(folder / "model.etrecord")
    return folder / "model.pte", folder / "model.etrecord"


@pytest.fixture(scope="module")
def measured(files: tuple[Path, Path]) -> Profile:
    """Its profile."""
    return profile(files[0], INPUT, calls=10, etrecord=files[1])


def test_nodes_have_the_delegates_time(measured: Profile) -> None:
    """Each node took time, none ran more often than the method, and together they have most of the delegate's.

    Most of a median call: a pause between two nodes of one call would count in the totals.
    """
    assert measured.calls == 10
    assert all(node.calls == 10 and node.total_ns > 0 for node in measured.nodes)
    (delegate,) = measured.delegates
    assert delegate.nodes_total_ns <= delegate.total_ns <= measured.total_ns
    assert 0.5 * delegate.median_ns < sum(node.median_ns for node in measured.nodes if node.delegate == 0)
    assert measured.by("op")[-1].cumulative == pytest.approx(
        sum(node.total_ns for node in measured.nodes) / measured.total_ns
    )


def test_fused_node_computes_both_aten_nodes(measured: Profile) -> None:
    """The convolution's epilogue has the activation: both are its sources, with their modules."""
    (conv,) = (node for node in measured.nodes if node.op.startswith("conv_2d"))
    assert [(source.op, source.module) for source in conv.sources] == [
        ("aten.convolution.default", "conv"),
        ("aten.relu.default", "relu"),
    ]
    assert conv.multiply_adds == 64 * 64 * 8 * 27


def test_source_lines(measured: Profile) -> None:
    """Each node tells the line of the model's own code, whichever of torch's it calls."""
    lines = Path(__file__).read_text().splitlines()
    (sigmoid,) = (s for node in measured.nodes for s in node.sources if s.op == "aten.sigmoid.default")
    assert Path(sigmoid.file) == Path(__file__)
    assert lines[sigmoid.line - 1].endswith("# the line of sigmoid")


def test_without_etrecord_nodes_have_names(files: tuple[Path, Path]) -> None:
    """The program alone tells the ATen nodes' names, and neither modules nor files."""
    found = profile(files[0], INPUT, calls=1, warmup=0)
    assert {node.name for node in found.nodes} >= {"aten_relu_default", "aten_mean_dim"}
    assert all(not node.module and not node.source_line for node in found.nodes)


def test_inspector(files: tuple[Path, Path], measured: Profile, tmp_path: Path) -> None:
    """ExecuTorch's Inspector links our events to the Edge program's ops, by the handles of fused nodes too."""
    (tmp_path / "etdump").write_bytes(measured.etdump)
    inspector = Inspector(str(tmp_path / "etdump"), etrecord=str(files[1]))
    events = [event for block in inspector.event_blocks for event in block.events if event.is_delegated_op]
    assert ["aten.convolution.default", "aten.relu.default"] in [event.op_types for event in events]
    assert all(event.perf_data is not None and event.perf_data.avg > 0 for event in events)
    traces = [trace for event in events for trace in event.stack_traces.values()]
    assert any("the line of sigmoid" in trace for trace in traces)


def test_several_delegates_and_kernels_outside(tmp_path: Path) -> None:
    """Nodes tell their delegate; a kernel of ExecuTorch's is a row of its own."""
    x = (torch.rand(4, 8) + 0.1,)
    program = to_edge_transform_and_lower(
        torch.export.export(Parts(), x), partitioner=[GgmlPartitioner()]
    ).to_executorch()
    program.save(str(tmp_path / "model.pte"))
    found = profile(tmp_path / "model.pte", x, calls=3)
    assert [delegate.index for delegate in found.delegates] == [0, 1]
    assert [node.delegate for node in found.nodes] == sorted(
        (node.delegate for node in found.nodes), key=lambda delegate: {0: 0, None: 1, 1: 2}[delegate]
    )
    outside = {node.op for node in found.nodes if node.delegate is None}
    assert {op.partition(".")[0] for op in outside} >= {"aten::mul", "aten::sqrt"}
    assert found.outside_ns > 0


def test_nodes_of_a_device_say_so(tmp_path: Path) -> None:
    if standin_device.library() is None:
        pytest.skip("the stand-in device was not built")
    standin_device.load()
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8)).eval()
    x = (torch.randn(4, 16),)
    executorch_ggml.export(model, x).save(str(tmp_path / "model.pte"))
    executorch_ggml.set_device("standin:cuda")
    try:
        found = profile(tmp_path / "model.pte", x, calls=3)
    finally:
        executorch_ggml.set_device("")
    assert [node.op for node in found.nodes] == ["mul_mat", "add", "relu", "mul_mat", "add"]
    assert {node.device for node in found.nodes} == {"standin:cuda"}
    assert all(node.calls == 3 and node.total_ns > 0 for node in found.nodes)


def test_dynamic_shapes(tmp_path: Path) -> None:
    """Shapes are those of the calls; the work of symbolic sizes is not guessed."""
    batch = torch.export.Dim("batch", min=1, max=16)
    program = executorch_ggml.export(nn.Linear(4, 8).eval(), (torch.randn(2, 4),), dynamic_shapes=({0: batch},))
    program.save(str(tmp_path / "model.pte"))
    for size in (1, 5):
        (node,) = profile(tmp_path / "model.pte", (torch.randn(size, 4),), calls=2).nodes
        assert node.shape == (1, 1, size, 8)
        assert node.multiply_adds == 0


def test_bundled_program_is_verified() -> None:
    """ExecuTorch's bundled program runs ours, and compares its outputs with eager PyTorch's."""
    model = Small().eval()
    program = executorch_ggml.export(model, INPUT)

    def verify(expected: torch.Tensor) -> None:
        suite = MethodTestSuite("forward", [MethodTestCase(INPUT, expected)])
        data = serialize_from_bundled_program_to_flatbuffer(BundledProgram(program, [suite]))
        bundle = portable_lib._load_bundled_program_from_buffer(data)
        bundle.verify_result_with_bundled_expected_output("forward", 0, rtol=1e-4, atol=1e-5)

    expected = model(*INPUT)
    verify(expected)
    with pytest.raises(RuntimeError):
        verify(expected + 0.1)


@pytest.mark.parametrize("by", ["node", "op", "module"])
def test_command(files: tuple[Path, Path], tmp_path: Path, by: str) -> None:
    """The table has the rows and the sums; the ETDump is written."""
    arguments = ["profile", str(files[0]), "--etrecord", str(files[1]), "--calls", "2", "--by", by]
    result = CliRunner().invoke(commands, [*arguments, "--etdump", str(tmp_path / "etdump")], catch_exceptions=False)
    assert result.exit_code == 0
    assert {"node": "conv_2d_nhwc", "op": "conv_2d_nhwc", "module": "conv"}[by] in result.output
    assert "outside of delegates: 0.0 %" in result.output
    assert (tmp_path / "etdump").stat().st_size > 0


def test_command_as_json(files: tuple[Path, Path]) -> None:
    """The same numbers for programs."""
    result = CliRunner().invoke(commands, ["profile", str(files[0]), "--calls", "2", "--json"], catch_exceptions=False)
    facts = json.loads(result.stdout[result.stdout.index("{") :])
    assert facts["calls"] == 2
    assert all(node["total_ns"] > 0 for node in facts["nodes"])
