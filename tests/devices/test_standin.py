"""The stand-in device: what it computes is right, its memory is its own, and what is said to cross is what crosses."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from tests.devices import ggml, standin_device
from tests.devices.test_session import check, session
from tests.helpers import Calls
from torch import Tensor, nn

import executorch_ggml
from executorch_ggml.runtime.session import PROLOGUE

DEVICES = ("standin:cuda", "standin:vulkan", "standin:rpc")


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    standin_device.require()
    standin_device.load()


def on_and_off(x: Tensor, i: Tensor) -> Tensor:
    """Index arithmetic, the device, a kernel of this runtime's own, a view of its result, and the device again."""
    y = torch.relu(x @ x.transpose(-1, -2))
    z = torch.sigmoid(y) * 3
    return torch.softmax(z @ y[i].cummax(-1)[0].transpose(-1, -2), -1)


class Counting(nn.Module):
    """Weights, and a buffer that counts on."""

    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        self.count.add_(torch.relu(x))
        return self.count * 2


@pytest.mark.parametrize("device", DEVICES)
def test_what_is_said_to_cross_does(device: str) -> None:
    x, i = torch.randn(8, 6), torch.arange(5)
    program = session(Calls(on_and_off), (x, i), device)
    placement = program.placement(x, i)
    assert placement.device == device
    assert 0 < placement.on_device < len(placement.nodes)
    assert placement.splits > 2
    for _ in range(3):
        standin_device.reset()
        check(program.run(x, i), [on_and_off(x, i)])
        counters = standin_device.counters()
        assert (counters.bytes_set, counters.bytes_got) == (placement.bytes_to_device, placement.bytes_from_device)
        assert counters.nodes == placement.on_device + 1  # the copy to the output is no node of the program
        assert counters.graphs <= placement.splits
    assert {placed.reason for placed in placement.nodes if placed.device == device} == {""}
    reasons = {placed.reason for placed in placement.nodes if placed.device == "CPU"}
    assert reasons <= {"it is a kernel of this runtime for the CPU", PROLOGUE}


def gates(x: Tensor, i: Tensor) -> Tensor:
    """Nodes that do not depend on their neighbors, between copies."""
    halves = [torch.sigmoid(x[k : k + 4] * k).cummax(0)[0] + torch.relu(x[i]) for k in range(4)]
    return torch.cat(halves) @ x.transpose(0, 1)


@pytest.mark.parametrize("device", DEVICES)
def test_a_device_may_change_the_order_of_nodes(device: str) -> None:
    x, i = torch.randn(8, 6), torch.arange(4)
    program = session(Calls(gates), (x, i), device)
    standin_device.reset()
    check(program.run(x, i), [gates(x, i)])
    placement, counters = program.placement(x, i), standin_device.counters()
    assert (counters.bytes_set, counters.bytes_got) == (placement.bytes_to_device, placement.bytes_from_device)


@pytest.mark.parametrize("device", DEVICES)
def test_states_stay_on_the_device(device: str) -> None:
    x, eager = torch.randn(4), Counting()
    program = session(Counting(), (x,), device)
    placement = program.placement(x)
    assert (placement.splits, placement.on_device) == (1, len(placement.nodes))
    for _ in range(3):
        standin_device.reset()
        check(program.run(x), [eager(x)])
        counters = standin_device.counters()
        assert (counters.bytes_set, counters.bytes_got) == (x.nbytes, x.nbytes)
    program.reset()
    check(program.run(x), [Counting()(x)])


def test_explain_says_what_crosses() -> None:
    exported = torch.export.export(Calls(on_and_off), (torch.randn(8, 6), torch.arange(5)))
    text = str(executorch_ggml.explain(exported, device="standin:cuda"))
    assert "device standin:cuda computes" in text
    assert "bytes to it and" in text
    assert "] scan: it is a kernel of this runtime for the CPU" in text


# --------------------------------------------------------------------------------------------------------------- rules

Case = Callable[[ggml.Graph], ggml.Tensor]


def attention(head: int) -> Case:
    def make(graph: ggml.Graph) -> ggml.Tensor:
        q = graph.leaf(ggml.F32, head, 3, 4)
        k, v = (graph.leaf(ggml.F16, head, 256, 2) for _ in range(2))
        mask = graph.leaf(ggml.F16, 256, 3, data=np.zeros((1, 1, 3, 256)))
        return graph.op("flash_attn_ext", q, k, v, mask, 0.125, 0.0, 0.0)

    return make


def unary(type: int, kind: int) -> Case:
    return lambda graph: graph.op("unary", graph.leaf(type, 8, 2), kind)


def transposed_cont(type: int) -> Case:
    return lambda graph: graph.op("cont", graph.op("transpose", graph.leaf(type, 8, 2)))


CASES: dict[str, tuple[Case, bool, bool]] = {  # on CUDA, on Vulkan
    "attention, heads of 64": (attention(64), True, True),
    "attention, heads of 32": (attention(32), False, True),
    "attention, heads of 20": (attention(20), False, False),
    "relu of f32": (unary(ggml.F32, 6), True, True),
    "add of i32": (lambda g: g.op("add", g.leaf(ggml.I32, 8), g.leaf(ggml.I32, 8)), False, False),
    "repeat of i32": (lambda g: g.op("repeat", g.leaf(ggml.I32, 8, 1), g.leaf(ggml.I32, 8, 2)), False, True),
    "cont of a transposed f32": (transposed_cont(ggml.F32), True, True),
    "cont of a transposed i8": (transposed_cont(ggml.I8), True, False),
    "rows of q4_K": (
        lambda g: g.op("get_rows", g.leaf(ggml.Q4_K, 256, 4), g.leaf(ggml.I32, 3, data=[0, 1, 2])),
        True,
        True,
    ),
    "cumsum": (lambda g: g.op("cumsum", g.leaf(ggml.F32, 8, 2)), True, True),
}


@pytest.fixture(params=DEVICES)
def backend(request: pytest.FixtureRequest) -> Iterator[tuple[str, int]]:
    pointer = ggml.call("ggml_backend_init_by_name", ctypes.c_char_p(request.param.encode()), ctypes.c_void_p(None))
    yield request.param, pointer
    ggml.call("ggml_backend_free", ctypes.c_void_p(pointer), result=None)


@pytest.mark.parametrize("case", CASES)
def test_rules(case: str, backend: tuple[str, int]) -> None:
    device, pointer = backend
    make, on_cuda, on_vulkan = CASES[case]
    graph = ggml.Graph(pointer)
    node = make(graph)
    assert graph.supported(node) == {"standin:cuda": on_cuda, "standin:vulkan": on_vulkan, "standin:rpc": True}[device]
    graph.close()


def test_its_memory_is_not_the_hosts(backend: tuple[str, int]) -> None:
    graph = ggml.Graph(backend[1])
    leaf = graph.leaf(ggml.F32, 16)
    graph.place()
    assert leaf.read().ravel().tolist() == pytest.approx(graph.leaves[0][1].ravel().tolist())
    data = ggml.call("ggml_get_data", leaf)
    with open("/proc/self/maps") as maps:
        ranges = [line.split() for line in maps]
    of_data = [
        entry[1] for entry in ranges if int(entry[0].split("-")[0], 16) <= data < int(entry[0].split("-")[1], 16)
    ]
    assert of_data == ["---p"]
    graph.close()
