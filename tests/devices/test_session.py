"""Programs of this project on devices in Python: in a session, and through ExecuTorch."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.helpers import decomposed
from torch import Tensor, nn

import executorch_ggml
from executorch_ggml import devices
from executorch_ggml.devices import GgmlDevice
from executorch_ggml.devices.torch_device import TorchDevice
from executorch_ggml.frontends.aten import Lowering
from executorch_ggml.ir.graph import Graph, Node
from executorch_ggml.ir.serialize import serialize
from executorch_ggml.passes import run_passes
from executorch_ggml.runtime import Session, list_devices
from executorch_ggml.targets import for_targets


class Recording(TorchDevice):
    """The torch device, which can be told to fail, and says what it was asked."""

    name = "recording"

    def __init__(self) -> None:
        self.fail = ""
        self.reason = "no plan today"
        self.graphs: list[Graph] = []
        self.runs = 0

    def supports(self, node: Node) -> bool:
        if self.fail == "supports":
            raise RuntimeError("no supports today")
        return super().supports(node) and self.fail != node.op

    def plan(self, graph: Graph) -> Any:
        if self.fail == "plan":
            raise RuntimeError(self.reason)
        self.graphs.append(graph)
        plan = super().plan(graph)

        def run(inputs: Sequence[np.ndarray[Any, Any]]) -> Any:
            self.runs += 1
            if self.fail == "run":
                raise RuntimeError("no run today")
            made = list(plan(inputs))
            if self.fail == "dtype":
                made[-1] = made[-1].astype(np.complex64)
            return made[: -1 if self.fail == "outputs" else None]

        return run


DEVICE = Recording()


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    devices.register(DEVICE)
    devices.load("torch")


@pytest.fixture
def device() -> Iterator[Recording]:
    DEVICE.fail, DEVICE.reason, DEVICE.runs = "", "no plan today", 0
    DEVICE.graphs.clear()
    yield DEVICE
    DEVICE.fail = ""


class Mixed(nn.Module):
    """Products, a convolution, comparisons, integers."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(width, 256), nn.Linear(256, 16)
        self.image = nn.Conv2d(1, 4, 3, padding=1)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = self.last(torch.softmax(self.first(x), -1)) + x[:, :16]
        z = self.image(x[None, None])
        return y, (z > 0).float().sum((2, 3)), torch.where(y > 0, y, -y).cumsum(-1), y.argmax(-1), y.clone().sort()[1]


class Counter(nn.Module):
    """State that is written in place, by a part and whole."""

    rows: Tensor
    total: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(4, 8))
        self.register_buffer("total", torch.zeros(8))

    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        self.rows.index_copy_(0, at, x)
        self.total += x.sum(0)
        return self.rows * 2 + self.total


def session(model: nn.Module, inputs: tuple[Tensor, ...], device: str, **how: Any) -> Session:
    graph = run_passes(Lowering(decomposed(torch.export.export(model.eval(), inputs, **how))).graph())
    graphs = for_targets(graph)
    named = [constant for made in graphs for constant in made.named_constants()]
    constants = {constant.key: constant.stored() for constant in named if constant.data is not None}
    return Session(serialize(*graphs), constants, device=device, threads=1)


def check(made: Sequence[Any], expected: Sequence[Tensor]) -> None:
    for ours, theirs in zip(made, expected, strict=True):
        torch.testing.assert_close(torch.as_tensor(ours), theirs)


def test_is_listed() -> None:
    named = {device.name: device for device in list_devices()}
    assert {"CPU", "torch", "recording"} <= set(named)
    assert named["torch"].description.startswith("PyTorch")


def test_a_whole_program_is_one_graph(device: Recording) -> None:
    model, x = Mixed(), torch.randn(5, 64)
    program = session(model, (x,), "recording")
    for _ in range(3):
        x = torch.randn(5, 64)
        check(program.run(x), model(x))
    assert len(device.graphs) == 1
    assert device.runs == 3
    assert {"conv_2d_nhwc", "binary", "sort"} <= {node.op for node in device.graphs[0].nodes}
    assert device.graphs[0].constants


def test_sizes_change(device: Recording) -> None:
    rows = torch.export.Dim("rows", max=64)
    model = Mixed()
    program = session(model, (torch.randn(5, 64),), "recording", dynamic_shapes=({0: rows},))
    for count in (5, 1, 9, 5):
        x = torch.randn(count, 64)
        check(program.run(x), model(x))
    assert len(device.graphs) == 3


@pytest.mark.parametrize("fail", ["supports", "plan", "run", "outputs"])
def test_failures_are_logged_and_the_cpu_computes(
    device: Recording, fail: str, capfd: pytest.CaptureFixture[str]
) -> None:
    model, x = Mixed(48 + len(fail)), torch.randn(len(fail), 48 + len(fail))  # of sizes that no other graph has
    device.fail = fail
    program = session(model, (x,), "recording")
    for _ in range(2):
        check(program.run(x), model(x))
    log = capfd.readouterr().err
    reason = "the plan returned" if fail == "outputs" else f"no {fail} today"
    assert f"Error: {reason}" in log
    assert log.count(reason) <= 2  # the traceback has it twice at most, and comes once


def test_what_a_device_refuses_stays_on_the_cpu(device: Recording) -> None:
    device.fail = "cumsum"
    model, x = Mixed(40), torch.randn(5, 40)
    check(session(model, (x,), "recording").run(x), model(x))
    assert device.graphs
    assert all(node.op != "cumsum" for graph in device.graphs for node in graph.nodes)


def test_states(device: Recording) -> None:
    model = Counter()
    x, at = torch.randn(2, 8), torch.tensor([1, 3])
    program = session(model, (x, at), "recording")
    for _ in range(4):
        x, at = torch.randn(2, 8), torch.randperm(4)[:2]
        check(program.run(x, at), [model(x, at)])
    program.reset()
    fresh = Counter()
    check(program.run(x, at), [fresh(x, at)])
    assert device.runs == 5


class Columns(nn.Module):
    """A state of which columns are written, by negative indices too, and of equal ones the last."""

    kept: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(3, 6, 4))

    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        self.kept.index_copy_(1, at, x)
        return self.kept.sum(1)


def test_parts_of_states_are_written_alone(device: Recording) -> None:
    model = Columns()
    program = session(model, (torch.randn(3, 2, 4), torch.tensor([1, 3])), "recording")
    for places in ([1, 3], [5, 0], [2, 2]):
        x, at = torch.randn(3, 2, 4), torch.tensor(places)
        check(program.run(x, at), [model(x, at)])
    (graph,) = device.graphs
    assert all(port.value.count < 3 * 6 * 4 for port in graph.outputs)


def test_a_failed_run_writes_nothing(device: Recording) -> None:
    device.fail = "dtype"
    model, x, at = Counter(), torch.randn(2, 8), torch.tensor([1, 3])
    program = session(model, (x, at), "recording")
    for _ in range(2):
        check(program.run(x, at), [model(x, at)])


def test_a_traceback_is_logged_whole(device: Recording, capfd: pytest.CaptureFixture[str]) -> None:
    model, x = Mixed(72), torch.randn(5, 72)
    device.fail = "plan"
    device.reason = "a long story, " * 300 + "and its end"
    check(session(model, (x,), "recording").run(x), model(x))
    assert "and its end\n" in capfd.readouterr().err


def test_an_index_out_of_range_is_an_error(device: Recording) -> None:
    program = session(Counter(), (torch.randn(2, 8), torch.tensor([1, 3])), "recording")
    with pytest.raises(RuntimeError, match="index"):
        program.run(torch.randn(2, 8), torch.tensor([1, 9]))


def test_plans_go_with_their_weights(device: Recording) -> None:
    model, x = Mixed(56), torch.randn(5, 56)
    program = session(model, (x,), "recording")
    check(program.run(x), model(x))
    from executorch_ggml.devices import bridge

    before = sum(len(host._plans) for host in bridge._attached)
    del program
    gc.collect()
    assert sum(len(host._plans) for host in bridge._attached) == before - 1


def test_executorch(device: Recording, tmp_path: Path) -> None:
    model, x = Mixed(), torch.randn(5, 64)
    executorch_ggml.export(model.eval(), (x,)).save(str(tmp_path / "model.pte"))
    executorch_ggml.set_device("recording")
    try:
        module = executorch_ggml.load(tmp_path / "model.pte")
        check(module(x), model(x))
    finally:
        executorch_ggml.set_device("")
    assert device.runs >= 1
    runs = device.runs
    check(executorch_ggml.load(tmp_path / "model.pte")(x), model(x))
    assert device.runs == runs


def test_programs_of_both_libraries(device: Recording, tmp_path: Path) -> None:
    """The delegate's programs and the sessions' are numbered apart, and told apart."""

    class Sorted(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            return x.sort()[1], torch.where(x > 0, x, -x).cumsum(-1)

    models, x = [nn.Sequential(nn.Linear(8, width), Sorted()).eval() for width in range(3, 9)], torch.randn(2, 8)
    executorch_ggml.set_device("recording")
    try:
        for number, model in enumerate(models):
            executorch_ggml.export(model, (x,)).save(str(tmp_path / f"{number}.pte"))
        modules = [executorch_ggml.load(tmp_path / f"{number}.pte") for number in range(len(models))]
        for model, module in zip(models, modules, strict=True):
            check(module(x), model(x))
    finally:
        executorch_ggml.set_device("")
    runs = device.runs
    sessions = [session(Mixed(32 + width), (torch.randn(5, 32 + width),), "recording") for width in range(6)]
    for width, program in enumerate(sessions):
        program.run(torch.randn(5, 32 + width))
    assert device.runs == runs + len(sessions)


def test_registration() -> None:
    with pytest.raises(ValueError, match="registered already"):
        devices.register(Recording())
    with pytest.raises(LookupError, match=r"no device 'nothing'.*torch"):
        devices.get("nothing")
    assert devices.get("TORCH") is devices.get("torch")
    with pytest.raises(TypeError, match="abstract"):
        GgmlDevice()  # type: ignore[abstract] # what is tested
