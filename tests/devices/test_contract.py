"""What docs/devices.md promises of devices: which nodes they get, what is checked, and what they cannot break."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from tests.devices.test_session import check, session
from tests.helpers import lowered
from torch import Tensor, nn

import executorch_ggml
from executorch_ggml import devices
from executorch_ggml.devices import bridge
from executorch_ggml.devices.calls import Calls
from executorch_ggml.devices.torch_device import TorchDevice
from executorch_ggml.ir.arrays import Contents
from executorch_ggml.ir.graph import Graph, Node
from executorch_ggml.ir.serialize import serialize
from executorch_ggml.runtime import DeviceUse, NodePlacement, Placement, Session

Arrays = Sequence[np.ndarray[Any, Any]]


class Scripted(TorchDevice):
    """The torch device, with functions of a test in place of its own."""

    name = "scripted"

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.on_supports: Callable[[Node], bool] = lambda node: True
        self.on_plan: Callable[[], None] = lambda: None
        self.on_run: Callable[[Arrays, list[np.ndarray[Any, Any]]], Any] = lambda inputs, outputs: outputs
        self.graphs: list[Graph] = []
        self.runs = 0

    def supports(self, node: Node) -> bool:
        return self.on_supports(node)

    def plan(self, graph: Graph) -> Any:
        self.graphs.append(graph)
        self.on_plan()
        compute = super().plan(graph)

        def run(inputs: Arrays) -> Any:
            self.runs += 1
            return self.on_run(inputs, list(compute(inputs)))

        return run


DEVICE = Scripted()


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    devices.register(DEVICE)
    devices.load("torch")


@pytest.fixture
def device() -> Iterator[Scripted]:
    DEVICE.clear()
    yield DEVICE
    DEVICE.clear()


@pytest.fixture
def limited(device: Scripted, monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """The device with a time limit, as if it were new."""
    monkeypatch.setattr(device, "time_limit", 0.3)
    monkeypatch.setitem(bridge._calls, device, Calls(device))
    return device


class Weightless(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.relu(x * y + x)


SIZES = iter(range(3, 1000))  # a device keeps plans and verdicts of equal graphs: each test has sizes of its own


def pair() -> tuple[Tensor, Tensor]:
    size = next(SIZES)
    return torch.randn(size, 4), torch.randn(size, 4)


# ---------------------------------------------------------------------------------------------------------- placement


def test_a_graph_without_weights_runs_on_the_device(device: Scripted) -> None:
    inputs = pair()
    program = session(Weightless(), inputs, "scripted")
    check(program.run(*inputs), [Weightless()(*inputs)])
    assert [node.op for node in device.graphs[0].nodes][:3] == ["mul", "add", "relu"]
    assert device.runs == 1
    nodes = tuple(
        NodePlacement(node, op, "scripted") for node, op in (("mul", "mul"), ("add", "add"), ("relu", "relu"))
    )
    assert program.placement(*inputs) == Placement((DeviceUse("scripted", 1, 0, 0, 0),), nodes, splits=1)


@pytest.mark.parametrize(
    "model",
    [
        nn.Linear(24, 18),
        nn.Sequential(nn.Linear(24, 17, bias=False), nn.ReLU6()),
        nn.Sequential(nn.Linear(24, 5), nn.SiLU(), nn.Linear(5, 33), nn.GELU(), nn.Linear(33, 2), nn.Hardswish()),
        nn.Sequential(nn.Unflatten(1, (6, 2, 2)), nn.Conv2d(6, 20, 1), nn.ReLU()),
    ],
    ids=["bias", "clamp", "activations", "conv_1x1"],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_linear_layers_are_matrix_products(device: Scripted, model: nn.Module, dtype: torch.dtype) -> None:
    model, x = model.to(dtype), torch.randn(next(SIZES), 24, dtype=dtype)
    program = session(model, (x,), "scripted")
    torch.testing.assert_close(torch.utils.dlpack.from_dlpack(program.run(x)[0]), model(x), rtol=2e-2, atol=2e-2)
    (graph,) = device.graphs
    assert "mul_mat" in {node.op for node in graph.nodes}
    assert not {"conv_2d", "conv_2d_nhwc"} & {node.op for node in graph.nodes}
    matrices = [node.inputs[0] for node in graph.nodes if node.op == "mul_mat"]
    shapes = [tuple(weight.shape[:2]) for name, weight in model.named_parameters() if name.endswith("weight")]
    assert [(m.ne[1], m.ne[0]) for m in matrices if m is not None] == shapes


class WrittenOut(nn.Module):
    """A gated row, normalized."""

    def forward(self, x: Tensor, weight: Tensor) -> Tensor:
        return nn.functional.layer_norm(nn.functional.silu(x) * x, (8,)) * weight


def test_a_device_is_given_what_the_passes_make_of_a_graph(device: Scripted) -> None:
    rows, weight = torch.randn(next(SIZES), 8), torch.randn(8)
    separate = lowered(WrittenOut(), (rows, weight), fusions=frozenset())
    program = Session(serialize(separate), device="scripted")
    check(program.run(rows, weight), [WrittenOut()(rows, weight)])
    assert [node.op for node in device.graphs[0].nodes] == ["swiglu_split", "norm"]


def test_a_device_that_refuses_a_fused_node_is_given_the_others(device: Scripted) -> None:
    device.on_supports = lambda node: node.op not in ("norm", "swiglu_split") or None in node.inputs
    rows, weight = torch.randn(next(SIZES), 8), torch.randn(8)
    separate = lowered(WrittenOut(), (rows, weight), fusions=frozenset())
    program = Session(serialize(separate), device="scripted")
    check(program.run(rows, weight), [WrittenOut()(rows, weight)])
    assert [node.op for node in device.graphs[0].nodes] == ["silu", "mul", "norm", "mul"]


def test_explain_says_which_nodes_the_device_takes(device: Scripted) -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 5)

        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(self.layer(x)).cumsum(-1) * 2

    device.on_supports = lambda node: node.op != "cumsum"
    rows = torch.export.Dim("rows", max=64)
    exported = torch.export.export(Mixed().eval(), (torch.randn(next(SIZES), 8),), dynamic_shapes=({0: rows},))
    said = executorch_ggml.explain(exported, device="scripted")
    placement = said.placement
    assert placement is not None
    assert {placed.op: placed.device for placed in placement.nodes}["cumsum"] == "CPU"
    assert placement.on_device == len(placement.nodes) - 1 > 0
    text = str(said)
    counts = f"device scripted computes {placement.on_device} of ggml's {len(placement.nodes)} nodes, in 3 splits; "
    assert counts in text
    assert "[left to CPU x1] cumsum: the device does not support " in text
    with pytest.raises(RuntimeError, match="no device nothing here; there is cpu"):
        executorch_ggml.explain(exported, device="nothing")


# ------------------------------------------------------------------------------------------------------------- checks


def turned(inputs: Arrays, outputs: Any) -> Any:
    return [output.swapaxes(2, 3) for output in outputs]


def halved(inputs: Arrays, outputs: Any) -> Any:
    return [output.astype(np.float16) for output in outputs]


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (
            turned,
            "is an array float32[1, 1, 4, {0}], expected an array float32[1, 1, {0}, 4], as graph.outputs[0] says",
        ),
        (halved, "is an array float16[1, 1, {0}, 4], expected an array float32[1, 1, {0}, 4]"),
        (lambda inputs, outputs: None, "the plan returned a NoneType, expected "),
        (lambda inputs, outputs: [None for _ in outputs], "is a NoneType, expected an array float32[1, 1, {0}, 4]"),
    ],
    ids=["shape", "dtype", "nothing", "list_of_nothing"],
)
def test_results_are_checked(device: Scripted, returned: Any, message: str, capfd: pytest.CaptureFixture[str]) -> None:
    inputs = pair()
    device.on_run = returned
    program = session(Weightless(), inputs, "scripted")
    for _ in range(2):
        check(program.run(*inputs), [Weightless()(*inputs)])
    log = capfd.readouterr().err
    assert message.format(len(inputs[0])) in log
    assert "scripted: the plan of 4 nodes, mul to " in log
    assert "output 0, the result of node mul, is" in log or "the plan returned" in log


def test_a_plan_that_is_no_function_is_an_error(device: Scripted, capfd: pytest.CaptureFixture[str]) -> None:
    inputs = pair()
    device.plan = lambda graph: None  # type: ignore[method-assign] # what is tested
    try:
        check(session(Weightless(), inputs, "scripted").run(*inputs), [Weightless()(*inputs)])
    finally:
        del device.plan
    assert "plan() returned a NoneType, expected a function" in capfd.readouterr().err


def test_inputs_and_constants_are_read_only(device: Scripted, capfd: pytest.CaptureFixture[str]) -> None:
    def write(inputs: Arrays, outputs: Any) -> Any:
        inputs[0][...] = 7
        return outputs

    def force(inputs: Arrays, outputs: Any) -> Any:
        inputs[0].flags.writeable = True
        return outputs

    inputs = pair()
    before = [tensor.clone() for tensor in inputs]
    program = session(Weightless(), inputs, "scripted")
    for device.on_run in (write, force):
        check(program.run(*inputs), [Weightless()(*inputs)])
    assert all(torch.equal(*tensors) for tensors in zip(inputs, before, strict=True))
    log = capfd.readouterr().err
    assert "read-only" in log
    assert "cannot set WRITEABLE flag" in log
    model, x = nn.Sequential(nn.Linear(8, 4), nn.LayerNorm(4)), torch.randn(next(SIZES), 8)
    program = session(model, (x,), "scripted")
    check(program.run(x), [model(x)])
    (graph,) = device.graphs[-1:]
    contents = [constant.data for constant in graph.constants if ":matrix" not in constant.key]
    plain = [data.array() for data in contents if isinstance(data, Contents)]
    assert plain
    assert not any(array.flags.writeable for array in plain)


# ---------------------------------------------------------------------------------------- a device that does not return


def leave(*_: Any) -> Any:
    sys.exit(3)


@pytest.mark.parametrize("where", ["on_supports", "on_plan", "on_run"])
def test_sys_exit_is_a_failure(device: Scripted, where: str, capfd: pytest.CaptureFixture[str]) -> None:
    inputs = pair()
    setattr(device, where, leave)
    check(session(Weightless(), inputs, "scripted").run(*inputs), [Weightless()(*inputs)])
    log = capfd.readouterr().err
    what = {"on_supports": "supports() of node", "on_plan": "plan() of", "on_run": "the plan of"}[where]
    assert f"scripted: {what}" in log
    assert "SystemExit: 3" in log
    assert "mul" in log


def spin(*_: Any) -> Any:
    while True:
        pass


def wait(*_: Any) -> Any:
    threading.Event().wait(20)  # in C, where no exception reaches it


@pytest.mark.parametrize("stuck", [spin, wait])
@pytest.mark.parametrize("where", ["on_supports", "on_plan", "on_run"])
def test_a_time_limit(limited: Scripted, where: str, stuck: Any, capfd: pytest.CaptureFixture[str]) -> None:
    inputs = pair()
    setattr(limited, where, stuck)
    start = time.monotonic()
    program = session(Weightless(), inputs, "scripted")
    for _ in range(3):  # the later ones do not wait
        check(program.run(*inputs), [Weightless()(*inputs)])
    assert time.monotonic() - start < 15
    log = capfd.readouterr().err
    assert log.count("it took longer than 0.3 s, its time limit; it was at:") == 1
    assert f"in {stuck.__name__}\n" in log
    assert "and the device is called no more" in log


def test_within_its_time_limit_a_device_runs_on_copies(limited: Scripted) -> None:
    seen = []

    def keep(inputs: Arrays, outputs: Any) -> Any:
        seen.append((threading.current_thread(), list(inputs)))
        return outputs

    inputs = pair()
    limited.on_run = keep
    program = session(Weightless(), inputs, "scripted")
    for _ in range(2):
        check(program.run(*inputs), [Weightless()(*inputs)])
    assert seen[0][0] is seen[1][0] is not threading.current_thread()
    assert not any(array.flags.writeable for _, arrays in seen for array in arrays)
    assert not any(np.shares_memory(a, b) for a, b in zip(seen[0][1], seen[1][1], strict=True))


@pytest.mark.parametrize("limit", [0, -1.0, float("nan"), float("inf"), "soon"])
def test_time_limits_are_checked(device: Scripted, limit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXECUTORCH_GGML_DEVICE_TIME_LIMIT", str(limit))
    with pytest.raises(ValueError, match=f"EXECUTORCH_GGML_DEVICE_TIME_LIMIT is '{limit}', expected seconds"):
        Calls(device)
    monkeypatch.setenv("EXECUTORCH_GGML_DEVICE_TIME_LIMIT", "2.5")
    assert Calls(device).limit == 2.5
    monkeypatch.setattr(device, "time_limit", limit)
    with pytest.raises(ValueError, match=r"scripted: time_limit is .*, expected seconds"):
        Calls(device)


INTERRUPTED = """
import os, signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
import numpy as np
import torch
from tests.devices import test_contract
from executorch_ggml import devices

devices.register(test_contract.DEVICE)
devices.load("torch")

def stuck(*_):
    time.sleep(0.5)  # until the thread that waits for this one sleeps: a signal wakes it, an earlier one is seen later
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(200):
        time.sleep(0.1)

for limit in (None, 60):
    for where in ("on_plan", "on_run"):
        x = test_contract.pair()[0].fill_(1)
        program = test_contract.session(test_contract.Weightless(), (x, x), "scripted")
        test_contract.bridge._calls[test_contract.DEVICE].limit = limit
        setattr(test_contract.DEVICE, where, stuck)
        try:
            program.run(x, x)
        except KeyboardInterrupt:
            print("interrupted", where, limit)
        test_contract.DEVICE.clear()
        print(float(np.mean(program.run(x, x)[0])))
"""


def test_ctrl_c_ends_a_run() -> None:
    command = [sys.executable, "-c", INTERRUPTED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    runs = [(where, limit) for limit in (None, 60) for where in ("on_plan", "on_run")]
    assert done.stdout == "".join(f"interrupted {where} {limit}\n2.0\n" for where, limit in runs), done.stderr
