"""A program on a device: which graph runs, what its prologue on the CPU computes, and where leaves lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tests.devices import standin_device
from torch import Tensor
from torch.nn import functional as F

from executorch_ggml import devices
from executorch_ggml.ir.builder import Builder
from executorch_ggml.ir.codec import dequantize, quantize
from executorch_ggml.ir.dims import ne_of
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.ir.graph import Graph, Node, Value
from executorch_ggml.ir.ops.spatial import NO_EPILOGUE, PoolKind, Window, Window2d
from executorch_ggml.ir.serialize import serialize
from executorch_ggml.ir.storage import Storage, StorageLayout, pack
from executorch_ggml.ir.target import Target
from executorch_ggml.runtime import Session
from executorch_ggml.runtime.session import PROLOGUE

DEVICES = ("standin:cuda", "standin:vulkan", "standin:rpc")


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    standin_device.require()
    standin_device.load()


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def on_host(build: Builder, *values: Value) -> None:
    """Mark the nodes that give these values."""
    for value in values:
        producer = value.producer
        assert isinstance(producer, Node)
        producer.host = True


def for_device(build: Builder) -> bytes:
    graph = build.finish()
    graph.target = Target.GGML
    return serialize(graph)


def run(session: Session, *inputs: Any) -> tuple[list[Tensor], standin_device.Counters]:
    """The outputs of a run, and what crossed."""
    standin_device.reset()
    outputs = [torch.as_tensor(output) for output in session.run(*inputs)]
    return outputs, standin_device.counters()


# ---------------------------------------------------------------------------------------------------- choice of graphs


def adds(number: float, target: Target) -> Graph:
    build = Builder()
    x = build.input("x", DType.F32, (4,), (4, 1, 1, 1))
    build.output("y", build.emit("scale_bias", x, s=1.0, b=number), (4,))
    graph = build.finish()
    graph.target = target
    return graph


def test_each_device_runs_the_graph_for_it(device: str) -> None:
    devices.load("torch")
    cpu, ggml = adds(1.0, Target.CPU), adds(2.0, Target.GGML)
    for program in (serialize(cpu, ggml), serialize(ggml, cpu)):
        for name, expected in (("", 1.0), ("cpu", 1.0), ("torch", 1.0), (device, 2.0)):
            assert Session(program, device=name).run(np.zeros(4, np.float32))[0].tolist() == [expected] * 4
    for graph, expected in ((cpu, 1.0), (ggml, 2.0)):
        for name in ("", "torch", device):
            assert Session(serialize(graph), device=name).run(np.zeros(4, np.float32))[0].tolist() == [expected] * 4


# --------------------------------------------------------------------------------------------------------- the prologue


def test_the_prologue_is_one_piece_before_the_device(device: str) -> None:
    build = Builder()
    first = build.input("first", DType.I64, (3,), (3, 1, 1, 1))
    second = build.input("second", DType.I64, (2,), (2, 1, 1, 1))
    x = build.input("x", DType.F32, (3, 4), (4, 3, 1, 1))
    table = build.constant("table", DType.F32, (4, 10, 1, 1))
    y = build.emit("relu", x)  # the device's, before nodes of the prologue
    rows = build.emit("to_index", build.emit("add", first, build.scalar(1, DType.I64)), size=10, wrap=False)
    y = build.emit("mul", build.emit("get_rows", table, rows), y)
    more = build.emit("to_index", second, size=10, wrap=True)
    build.output("y", y, (3, 4))
    build.output("z", build.emit("get_rows", table, more), (2, 4))
    for node in build.graph.nodes:
        node.host = node.op in ("add", "fill", "to_index")
    data = torch.arange(40.0)
    session = Session(for_device(build), {"table": data.numpy()}, device=device)
    inputs = np.array([1, 3, 8]), np.array([-1, 4]), torch.randn(3, 4).numpy()
    placement = session.placement(*inputs)
    assert placement.splits == 2
    expected = data.view(10, 4)[[2, 4, 9]] * torch.relu(torch.as_tensor(inputs[2])), data.view(10, 4)[[9, 4]]
    for _ in range(2):
        outputs, counters = run(session, *inputs)
        torch.testing.assert_close(outputs, list(expected))
        assert counters.graphs == 1
        assert (counters.bytes_set, counters.bytes_got) == (placement.bytes_to_device, placement.bytes_from_device)
        assert counters.bytes_set == 5 * 4 + inputs[2].nbytes  # the indices as i32, and x


def test_what_host_nodes_alone_read_stays_on_the_host(device: str) -> None:
    build = Builder()
    index = build.input("index", DType.I64, (3,), (3, 1, 1, 1))
    table, factor = build.constant("table", DType.F32, (4, 10, 1, 1)), build.constant("factor", DType.F32, (4, 1, 1, 1))
    picked = build.emit("get_rows", table, build.emit("to_index", index, size=10, wrap=True))
    for node in build.graph.nodes:
        node.host = True
    build.output("y", build.emit("mul", picked, factor), (3, 4))
    build.output("picked", picked, (3, 4))
    data, weights = torch.arange(40.0), torch.randn(4)
    standin_device.reset()
    session = Session(for_device(build), {"table": data.numpy(), "factor": weights.numpy()}, device=device)
    assert standin_device.counters().bytes_set == weights.nbytes
    placement = session.placement(np.zeros(3, np.int64))
    assert {placed.op: placed.reason for placed in placement.nodes} == {
        "to_index": PROLOGUE,
        "get_rows": PROLOGUE,
        "mul": "",
    }
    for places in ([1, 9, 0], [2, -1, 3]):
        outputs, counters = run(session, np.array(places))
        expected = data.view(10, 4)[places]
        torch.testing.assert_close(outputs, [expected * weights, expected])
        assert (counters.bytes_set, counters.bytes_got) == (expected.nbytes, expected.nbytes)
    assert (placement.splits, placement.bytes_to_device, placement.bytes_from_device) == (2, 48, 48)


def test_one_constant_on_both_sides(device: str) -> None:
    build = Builder()
    index = build.input("index", DType.I64, (3,), (3, 1, 1, 1))
    host, there = (build.constant(key, DType.F32, (4, 10, 1, 1)) for key in ("table", "other"))
    picked = build.emit("get_rows", host, build.emit("to_index", index, size=10, wrap=True))
    for node in build.graph.nodes:
        node.host = True
    build.output("y", build.emit("mul_mat", there, picked), (3, 10))
    for constant in build.graph.constants:
        constant.key = "table"
    data = torch.randn(10, 4)
    session = Session(for_device(build), {"table": data.numpy()}, device=device)
    outputs, _ = run(session, np.array([1, 2, 9]))
    torch.testing.assert_close(outputs[0], data[[1, 2, 9]] @ data.T)


@pytest.mark.parametrize("aligned", [True, False])
def test_a_weight_in_blocks_is_plain_on_a_device(device: str, aligned: bool) -> None:
    build = Builder()
    weight = build.constant("weight", DType.F32, (1, 1, 20, 12))
    stored = build.constant_of(weight)
    assert stored is not None
    stored.storage = StorageLayout(Storage.KERNEL_BLOCKS)
    x = build.input("x", DType.F32, (1, 20, 3, 5), (5, 3, 20, 1))
    window = Window2d(Window(1), Window(1))
    build.output("y", build.emit("conv_2d", x, weight, None, ne=(5, 3, 12, 1), window=window, **PLAIN), (1, 12, 3, 5))
    plain, image = torch.randn(12, 20, 1, 1), torch.randn(1, 20, 3, 5)
    data = pack(plain, StorageLayout(Storage.KERNEL_BLOCKS)).contiguous()
    if not aligned:
        data = torch.cat([torch.zeros(1), data])[1:]
    outputs, _ = run(Session(for_device(build), {"weight": data.numpy()}, device=device), image.numpy())
    torch.testing.assert_close(outputs[0], F.conv2d(image, plain), rtol=1e-4, atol=1e-4)


def test_an_input_that_both_read_is_copied_once(device: str) -> None:
    build = Builder()
    x = build.input("x", DType.F32, (2, 4), (4, 2, 1, 1))
    doubled = build.emit("scale_bias", build.reshape(x, (8,)), s=2.0, b=0.0)
    on_host(build, doubled)
    build.output("y", build.emit("add", build.emit("relu", x), build.reshape(doubled, (4, 2))), (2, 4))
    build.output("z", build.emit("neg", x), (2, 4))
    session = Session(for_device(build), device=device)
    for _ in range(2):
        data = torch.randn(2, 4)
        outputs, counters = run(session, data.numpy())
        torch.testing.assert_close(outputs, [torch.relu(data) + 2 * data, -data])
        assert counters.bytes_set == 2 * data.nbytes == session.placement(data.numpy()).bytes_to_device


def test_the_prologue_depends_on_nothing_of_the_devices(device: str) -> None:
    build = Builder()
    x = build.input("x", DType.F32, (4,), (4, 1, 1, 1))
    y = build.emit("neg", build.emit("relu", x))
    on_host(build, y)
    build.output("y", y, (4,))
    session = Session(for_device(build), device=device)
    with pytest.raises(
        RuntimeError, match=r"input a is value \d+, expected one that a leaf or an earlier node has made"
    ):
        session.run(np.zeros(4, np.float32))
    assert Session(for_device(build)).run(np.ones(4, np.float32))[0].tolist() == [-1.0] * 4


# --------------------------------------------------------------------------------------------------------------- states


def test_a_state_lives_where_its_readers_run(device: str) -> None:
    build = Builder()
    count = build.state("count", DType.I64, (1, 1, 1, 1))
    total = build.state("total", DType.F32, (4, 1, 1, 1))
    x = build.input("x", DType.F32, (4,), (4, 1, 1, 1))
    counted = build.emit("add", count, build.scalar(1, DType.I64))
    written = build.emit("write_state", counted, count)
    on_host(build, counted, written, *(value.output for value in build.graph.nodes if value.op == "fill"))
    summed = build.emit("add", total, x)
    build.emit("write_state", summed, total)
    build.output("count", counted, ())
    build.output("sum", build.emit("relu", summed), (4,))
    session, data = Session(for_device(build), device=device), torch.ones(4)
    assert session.placement(data.numpy()).splits == 2
    for again in range(2):
        for step in (1, 2, 3):
            outputs, counters = run(session, data.numpy())
            assert (outputs[0].item(), outputs[1].tolist()) == (step, [float(step)] * 4), again
            assert (counters.bytes_set, counters.bytes_got) == (data.nbytes, data.nbytes)
        session.reset()


def cache_of_rows(dtype: DType = DType.F32) -> Builder:
    build = Builder()
    cache = build.state("cache", dtype, (32, 6, 1, 1))
    index = build.emit("to_index", build.input("at", DType.I64, (2,), (2, 1, 1, 1)), size=6, wrap=True)
    on_host(build, index)
    build.emit("set_rows", cache, index, build.input("x", DType.F32, (2, 32), (32, 2, 1, 1)))
    return build


@pytest.mark.parametrize("dtype", [DType.F32, DType.F16])
def test_rows_of_a_state_are_written_on_the_device(device: str, dtype: DType) -> None:
    build = cache_of_rows(dtype)
    kept = build.graph.nodes[-1].output
    build.output("y", build.emit("get_rows", kept, build.graph.nodes[0].output), (2, 32))
    session, x = Session(for_device(build), device=device), torch.randn(2, 32).half().float()
    placement = session.placement(np.array([0, -1]), x.numpy())
    assert placement.splits == 2
    assert {placed.op for placed in placement.nodes if placed.device == device} == {"set_rows", "get_rows"}
    outputs, counters = run(session, np.array([0, -1]), x.numpy())
    torch.testing.assert_close(outputs[0], x)
    assert counters.bytes_set == 8 + x.nbytes


def test_an_index_out_of_range_writes_nothing(device: str) -> None:
    build = cache_of_rows()
    build.output("y", build.emit("scale_bias", build.graph.nodes[-1].output, s=1.0, b=0.0), (6, 32))
    session, x = Session(for_device(build), device=device), torch.ones(2, 32)
    session.run(np.array([3, 4]), x.numpy())
    with pytest.raises(RuntimeError, match="index 6 is out of range for size 6"):
        session.run(np.array([1, 6]), x.numpy() * 5)
    outputs, _ = run(session, np.array([2, -1]), x.numpy())
    assert outputs[0][:, 0].tolist() == [0, 0, 1, 1, 1, 1]


# --------------------------------------------------------------------------------------------------------- compositions


def everything_is_on(device: str, session: Session, *inputs: Any) -> None:
    assert {
        (placed.op, placed.reason) for placed in session.placement(*inputs).nodes if placed.device != device
    } == set()


@pytest.mark.parametrize(
    ("type", "head"),  # CUDA has flash attention for 64 and 96, Vulkan for multiples of 8
    [(DType.F16, 20), (DType.F16, 64), (DType.Q8_0, 32), (DType.Q8_0, 96)],
)
@pytest.mark.parametrize(("softcap", "mask_rows"), [(0.0, 3), (5.0, 3), (0.0, 1)])
def test_attention_in_both_forms(device: str, head: int, type: DType, softcap: float, mask_rows: int) -> None:
    build = Builder()
    q = build.input("q", DType.F32, (1, 6, 3, head), (head, 3, 6, 1))
    k, v = (build.constant(key, type, (head, 7, 2, 1)) for key in "kv")
    mask = build.input("mask", DType.F16, (1, 1, mask_rows, 7), (7, mask_rows, 1, 1))
    y = build.emit("attention", q, k, v, mask, scale=0.2, logit_softcap=softcap)
    build.output("y", y, (1, 3, 6, head))
    data = {key: torch.randn(1, 2, 7, head) for key in "kv"}
    if type is DType.F16:
        constants = {key: value.half() for key, value in data.items()}
        seen = {key: value.float() for key, value in constants.items()}
    else:
        constants = {key: quantize(value, type) for key, value in data.items()}
        seen = {key: dequantize(value, type, (1, 2, 7, head)) for key, value in constants.items()}
    query, hidden = torch.randn(1, 6, 3, head), torch.randn(1, 1, mask_rows, 7).half()
    scores = query @ seen["k"].repeat_interleave(3, 1).transpose(-1, -2) * 0.2
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    expected = torch.softmax(scores + hidden.float(), -1) @ seen["v"].repeat_interleave(3, 1)
    session = Session(for_device(build), {key: value.numpy() for key, value in constants.items()}, device=device)
    outputs, _ = run(session, query.numpy(), hidden.numpy())
    close = 0.01 if type is DType.F16 else 0.1  # where keys are q8_0 ggml rounds queries so too
    torch.testing.assert_close(outputs[0], expected.transpose(1, 2), rtol=close, atol=close)
    everything_is_on(device, session, query.numpy(), hidden.numpy())


PLAIN: dict[str, Any] = {"groups": 1, "epilogue": NO_EPILOGUE}
WINDOW = Window2d(Window(3, stride=2, pad=1), Window(2, dilation=2))


def planes(op: str, weight: Tensor | None, *, ne: tuple[int, ...], **attrs: Any) -> tuple[Builder, dict[str, Any]]:
    """A call for images of 6 channels, 7 by 9 pixels."""
    build, constants = Builder(), {}
    inputs: list[Value | None] = [build.input("x", DType.F32, (2, 6, 7, 9), (9, 7, 6, 2))]
    if weight is not None:
        dtype = DType.F16 if weight.dtype == torch.float16 else DType.F32
        inputs += [build.constant("weight", dtype, ne_of(weight.shape)), None]
        constants["weight"] = weight.numpy()
    build.output("y", build.emit(op, *inputs, ne=ne, **attrs), tuple(reversed(ne)))
    return build, constants


FULL, SINGLE = torch.randn(5, 6, 2, 3), torch.randn(6, 1, 2, 3)
STEPS: dict[str, Any] = {"stride": (1, 2), "padding": (0, 1), "dilation": (2, 1)}
PLANES: dict[str, tuple[Tensor, dict[str, Any], Callable[[Tensor], Tensor]]] = {
    "convolution": (FULL, {"ne": (5, 5, 5, 2), "groups": 1}, lambda x: F.conv2d(x, FULL, **STEPS)),
    "of halves": (
        FULL.half(),
        {"ne": (5, 5, 5, 2), "groups": 1},
        lambda x: F.conv2d(x, FULL.half().float(), **STEPS),
    ),
    "by channel": (SINGLE, {"ne": (5, 5, 6, 2), "groups": 6}, lambda x: F.conv2d(x, SINGLE, groups=6, **STEPS)),
}


@pytest.mark.parametrize("name", ["", *DEVICES])
@pytest.mark.parametrize("case", PLANES)
def test_convolutions_of_planes(case: str, name: str) -> None:
    weight, attrs, expected = PLANES[case]
    build, constants = planes("conv_2d", weight, window=WINDOW, epilogue=NO_EPILOGUE, **attrs)
    x = torch.randn(2, 6, 7, 9)
    outputs, _ = run(Session(for_device(build), constants, device=name), x.numpy())
    torch.testing.assert_close(outputs[0], expected(x), rtol=5e-3, atol=5e-3)


@pytest.mark.parametrize("name", ["", *DEVICES])
@pytest.mark.parametrize("kind", [PoolKind.MAX, PoolKind.AVG_PAD])
def test_pooling_of_planes(kind: PoolKind, name: str) -> None:
    window = Window2d(Window(3, stride=2, pad=1), Window(2))
    build, _ = planes("pool_2d", None, ne=(5, 6, 6, 2), kind=kind, window=window, divisor=0)
    x = torch.randn(2, 6, 7, 9)
    how: dict[str, Any] = {"kernel_size": (2, 3), "stride": (1, 2), "padding": (0, 1)}
    expected = F.max_pool2d(x, **how) if kind == PoolKind.MAX else F.avg_pool2d(x, **how)
    outputs, _ = run(Session(for_device(build), device=name), x.numpy())
    torch.testing.assert_close(outputs[0], expected)


def test_a_convolution_of_more_than_ggmls_kernel_has_memory_for() -> None:
    """Its scratch memory is 16 MiB, and it aborts where a pixel's inputs take more."""
    channels = (16 << 20) // 4 // 9
    build = Builder()
    x = build.input("x", DType.F32, (1, channels, 3, 3), (3, 3, channels, 1))
    weight = build.constant("weight", DType.F32, (3, 3, channels, 2))
    window = Window2d(Window(3, pad=1), Window(3))
    build.output("y", build.emit("conv_2d", x, weight, None, ne=(3, 1, 2, 1), window=window, **PLAIN), (1, 2, 1, 3))
    image, data = torch.rand(1, channels, 3, 3), torch.rand(2, channels, 3, 3)
    outputs, _ = run(Session(for_device(build), {"weight": data.numpy()}), image.numpy())
    torch.testing.assert_close(outputs[0], F.conv2d(image, data, padding=(0, 1)), rtol=0.01, atol=0)
