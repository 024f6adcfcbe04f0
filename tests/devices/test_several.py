"""Programs on several devices: where they are cut, what crosses there, and that the answers are right."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from executorch.exir import ExecutorchProgramManager, to_edge_transform_and_lower
from tests import zoo
from tests.devices import standin_device
from tests.devices.report import NEXT, PROMPT, relative_error
from tests.devices.rpc_servers import needs_rpc, server
from tests.devices.test_session import check, session
from tests.devices.test_targets import for_device, on_host, run
from torch import Tensor, nn
from torch.export import ExportedProgram
from transformers import LlamaConfig, LlamaForCausalLM

import executorch_ggml
from executorch_ggml import GgmlPartitioner, llm
from executorch_ggml.cli import main
from executorch_ggml.ir.builder import Builder
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.runtime import DeviceNames, Placement, Session, States, set_device
from executorch_ggml.runtime.session import device_list
from executorch_ggml.targets import TARGETS

FIRST, SECOND = "standin:cuda", "standin:vulkan"
EVEN = f"{FIRST}=1,{SECOND}=1"


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    standin_device.require()
    standin_device.load()


class Layers(nn.Module):
    """Layers of as many weights each."""

    def __init__(self, count: int = 8, width: int = 24) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(count))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x)) + x
        return x


X = torch.randn(5, 24)


def leaf_bytes(placement: Placement) -> list[int]:
    return [use.leaf_bytes for use in placement.devices]


# -------------------------------------------------------------------------------------------------------------- shares


@pytest.mark.parametrize(
    ("names", "weights", "splits"),
    [
        (EVEN, (4, 4), 2),
        (f"{FIRST}=3,{SECOND}=1", (6, 2), 2),
        ({FIRST: 0.5, SECOND: 1.5}, (2, 6), 2),
        (f"{SECOND}=1,{FIRST}=1e-6", (8, 0), 1),
        (f"{FIRST}=3,cpu=1", (6, 2), 2),
        (f"cpu=1,{FIRST}=1", (4, 4), 2),
        (f"{FIRST}=1,{SECOND}=2,standin:rpc=1", (2, 4, 2), 3),
        (f"{FIRST}=2", (8,), 1),
    ],
)
def test_layers_by_shares(names: DeviceNames, weights: tuple[int, ...], splits: int) -> None:
    model = Layers()
    program = session(model, (X,), device_list(names))
    placement = program.placement(X)
    layer = leaf_bytes(session(Layers(1), (X,), FIRST).placement(X))[0]
    assert [round(size / layer) for size in leaf_bytes(placement)] == list(weights)
    assert placement.splits == splits
    assert sum(use.splits for use in placement.devices) == splits
    assert placement.on_device == len(placement.nodes)
    for _ in range(2):
        standin_device.reset()
        check(program.run(X), [model(X)])
        counters = standin_device.counters()
        crossing = placement.bytes_to_device, placement.bytes_from_device
        assert (counters.bytes_set + counters.bytes_copied, counters.bytes_got + counters.bytes_copied) == crossing


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ("standin:cuda,standin:cuda", "standin:cuda is in the list twice"),
        ("cpu,standin:cuda,CPU", "CPU is in the list twice"),
        ("standin:cuda=1,nothing=1", "no device nothing here"),
        ("standin:cuda=1,", "expected a name"),
        (",", "expected a name"),
        ("=1", "expected a name"),
        ("standin:cuda=1=2", "expected a name"),
        *(
            (f"standin:cuda={share},cpu=1", "expected a share above 0")
            for share in ("0", "-1", "nan", "inf", "x", "", "1x")
        ),
        ("standin:cuda=1,standin:vulkan", "a share for each of them or for none"),
    ],
)
def test_lists_that_are_wrong(names: str, reason: str) -> None:
    with pytest.raises(RuntimeError, match=reason):
        session(Layers(), (X,), names)


def test_lists_of_python() -> None:
    assert device_list([FIRST, "RPC[127.0.0.1:50052]"]) == f"{FIRST},RPC[127.0.0.1:50052]"
    assert device_list({FIRST: 3, SECOND: 0.25}) == f"{FIRST}=3.0,{SECOND}=0.25"
    with pytest.raises(ValueError, match="no device in the list"):
        device_list([])
    with pytest.raises(ValueError, match="no device in the list"):
        device_list({})
    with pytest.raises(RuntimeError, match="expected a share above 0"):
        session(Layers(), (X,), device_list({FIRST: float("nan"), SECOND: 1.0}))


def test_a_device_that_takes_whole_programs_is_by_itself() -> None:
    executorch_ggml.devices.load("torch")
    with pytest.raises(RuntimeError, match="device torch takes programs as they are for the CPU; use it by itself"):
        session(Layers(), (X,), "torch,standin:cuda")


def test_the_same_list_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a loaded program, for those to come, in the environment, and to explain."""
    model, path = Layers(), tmp_path / "model.pte"
    executorch_ggml.export(model, (X,)).save(str(path))

    def graphs_of(module: executorch_ggml.Module) -> int:
        standin_device.reset()
        torch.testing.assert_close(module(X), model(X), rtol=1e-4, atol=1e-4)
        return standin_device.counters().graphs

    assert graphs_of(executorch_ggml.load(path)) == 0
    assert graphs_of(executorch_ggml.load(path, device={FIRST: 3, SECOND: 1})) == 2
    set_device([FIRST, SECOND])
    try:
        assert graphs_of(executorch_ggml.load(path)) == 2
        assert graphs_of(executorch_ggml.load(path, device="cpu")) == 0
    finally:
        set_device("")
    monkeypatch.setenv("EXECUTORCH_GGML_DEVICE", EVEN)
    assert graphs_of(executorch_ggml.load(path)) == 2
    text = str(executorch_ggml.explain(torch.export.export(model, (X,)), device={FIRST: 1, SECOND: 1}))
    assert f"devices {FIRST},{SECOND} compute 32 of ggml's 32 nodes, in 2 splits" in text
    assert f"[{FIRST}] 16 nodes in 1, 9,600 bytes of weights and states" in text
    with pytest.raises(RuntimeError, match="a list of 4000 characters"):
        executorch_ggml.load(path, device="x" * 4000)


# -------------------------------------------------------------------------------------------------------------- memory


def test_by_free_memory() -> None:
    model = Layers()
    with standin_device.memory(cuda=3 << 20, vulkan=1 << 20):
        program = session(model, (X,), f"{FIRST},{SECOND}")
        first, second = leaf_bytes(program.placement(X))
        assert first == 3 * second
        check(program.run(X), [model(X)])
    with standin_device.memory(cuda=3 << 20, vulkan=0):  # which does not tell
        first, second = leaf_bytes(session(model, (X,), f"{FIRST},{SECOND}").placement(X))
        assert first == second


def test_a_device_too_small() -> None:
    model = Layers(width=256)
    x = torch.randn(3, 256)
    needed = leaf_bytes(session(model, (x,), FIRST).placement(x))[0]
    room = needed * 3 // 4
    with standin_device.memory(cuda=room):
        with pytest.raises(
            RuntimeError, match=f"{FIRST} has {room} bytes of free memory, .* need {needed}; .* {FIRST},cpu"
        ):
            session(model, (x,), FIRST)
        with pytest.raises(RuntimeError, match=f"{FIRST} has {room} bytes of free memory"):
            session(model, (x,), f"{FIRST}=9,cpu=1")
        program = session(model, (x,), f"{FIRST},cpu")
        placement = program.placement(x)
        assert needed / 2 <= leaf_bytes(placement)[0] <= room
        assert sum(leaf_bytes(placement)) == needed
        assert placement.splits == 2
        check(program.run(x), [model(x)])
    everything = session(model, (x,), f"{FIRST},cpu").placement(x)
    assert leaf_bytes(everything) == [needed, 0]


class Waist(nn.Module):
    """Layers that are wide but for the one in the middle."""

    def __init__(self) -> None:
        super().__init__()
        widths = (64, 64, 64, 64, 4, 64, 64, 64)
        self.layers = nn.Sequential(*(nn.Linear(*ends, bias=False) for ends in itertools.pairwise(widths)))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layers(x)
        return result


def test_a_cut_moves_where_little_crosses_and_there_is_room() -> None:
    model, x = Waist(), torch.randn(5, 64)
    weights = [weight.nbytes for weight in model.parameters()]
    by_share, at_waist = sum(weights[:3]), sum(weights[:4])
    for free, on_first, width in ((16 << 30, at_waist, 4), (by_share + 4000, by_share, 64)):
        with standin_device.memory(cuda=free):
            program = session(model, (x,), EVEN)
            placement = program.placement(x)
            assert leaf_bytes(placement)[0] == on_first
            assert placement.devices[0].bytes_from == 5 * width * 4
            check(program.run(x), [model(x)])
    with (
        standin_device.memory(cuda=by_share - 4),
        pytest.raises(RuntimeError, match=f"{FIRST} has {by_share - 4} bytes of free memory, .* need {by_share}"),
    ):
        session(model, (x,), EVEN)


@functools.cache
def small_resnet() -> tuple[ExportedProgram, int]:
    """An exported ResNet, and how many images it takes."""
    resnet = zoo.load("resnet18", small=True)
    return executorch_ggml.export(resnet.module, resnet.args).exported_program("forward"), resnet.args[0].shape[0]


@pytest.mark.parametrize(
    ("shares", "most"),
    [((1, 9), 256 * 4 * 4), ((1, 3), 256 * 4 * 4), ((1, 1), 512 * 2 * 2), ((1, 1, 1), 256 * 4 * 4)],
)
def test_images_are_cut_between_blocks(shares: tuple[int, ...], most: int) -> None:
    """One block's output crosses: a cut by shares alone has an inner one beside it, or two."""
    program, images = small_resnet()
    names = dict(zip((FIRST, SECOND, "standin:rpc"), shares, strict=False))
    placement = executorch_ggml.partition.placement.placement(program, names)
    assert placement.splits == len(shares)
    assert placement.devices[0].bytes_from == images * most * 4
    assert [use.bytes_to for use in placement.devices][1:] == [use.bytes_from for use in placement.devices][:-1]
    for share, use in zip(shares, leaf_bytes(placement), strict=True):
        assert abs(use / sum(leaf_bytes(placement)) - share / sum(shares)) <= 1 / 8


# -------------------------------------------------------------------------------------------------------------- leaves


class Tied(nn.Module):
    """An embedding that is the head too."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(40, 24)
        self.layers = Layers()

    def forward(self, i: Tensor) -> Tensor:
        return self.layers(self.table(i)) @ self.table.weight.T


@pytest.mark.parametrize("names", [EVEN, f"{FIRST}=1,cpu=1", f"cpu=1,{FIRST}=1"])
def test_a_weight_at_both_ends_lies_at_both(names: str) -> None:
    model, i = Tied(), torch.tensor([3, 0, 39])
    program = session(model, (i,), names)
    placement = program.placement(i)
    table = model.table.weight.nbytes
    assert sum(leaf_bytes(placement)) == sum(p.nbytes for p in model.parameters()) + table
    assert placement.bytes_per_call < table
    assert placement.splits <= 3
    check(program.run(i), [model(i)])


class Counters(nn.Module):
    """Buffers at both ends that are written as a whole, the first with what is computed last."""

    first: Tensor
    last: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layers = Layers()
        self.register_buffer("first", torch.ones(24))
        self.register_buffer("last", torch.zeros(24))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.layers(x * self.first)
        result = y + self.last
        before = self.first.clone()
        self.last.add_(self.first)
        self.first.copy_(torch.tanh(y[0]))
        return result, before


@pytest.mark.parametrize("names", [EVEN, f"{FIRST}=1,cpu=1", f"cpu=1,{FIRST}=1", f"standin:rpc=1,{SECOND}=1"])
def test_states_of_several_devices(names: str) -> None:
    eager = Counters()
    program = session(Counters(), (X,), names)
    program.reset()
    for again in range(2):
        eager.first.fill_(1.0)
        eager.last.fill_(0.0)
        fresh = Counters()
        fresh.load_state_dict(eager.state_dict())
        if not again:
            program = session(fresh, (X,), names)
        for _ in range(3):
            check(program.run(X), list(eager(X)))
        program.reset()


def reads(layers: int, share_first: bool, count: int) -> bytes:
    """Products with weights, and rows that are added to a state which is read before or behind them."""
    build = Builder()
    total = build.state("total", DType.F32, (24, 2, 1, 1))
    y = build.input("x", DType.F32, (2, 24), (24, 2, 1, 1))
    for layer in range(layers):
        if share_first and layer == 0:
            y = build.emit("add", y, total)
        y = build.emit("mul_mat", build.constant(f"w{layer}", DType.F32, (24, 24, 1, 1)), y)
    if not share_first:
        y = build.emit("add", y, total)
    build.emit("write_state", build.emit("scale_bias", y, s=0.5, b=float(count)), total)
    build.output("y", y, (2, 24))
    return for_device(build)


def test_methods_agree_on_where_a_state_lies() -> None:
    weights = {f"w{i}": torch.randn(24, 24) / 5 for i in range(4)}
    states, constants = States(), {key: value.numpy() for key, value in weights.items()}
    at_end, at_begin = (
        Session(reads(4, first, count), constants, device=EVEN, states=states)
        for first, count in ((False, 1), (True, 2))
    )
    total = torch.zeros(2, 24)
    for step in range(4):
        x = torch.randn(2, 24)
        first = step % 2 == 1
        y = x + total if first else x
        for weight in weights.values():
            y = y @ weight.T
        y = y if first else y + total
        total = y * 0.5 + (2 if first else 1)
        check((at_begin if first else at_end).run(x), [y])
    # The state is on the second device, and so is all that comes behind what reads it.
    assert [use.leaf_bytes > 0 for use in at_end.placement(x).devices] == [True, True]
    assert [use.leaf_bytes > 0 for use in at_begin.placement(x).devices] == [False, True]


def adds_in_order(names: Sequence[str]) -> bytes:
    """Products with weights, and between them sums with states, which become these."""
    build = Builder()
    y = build.input("x", DType.F32, (2, 24), (24, 2, 1, 1))
    for name in names:
        state = build.state(name, DType.F32, (24, 2, 1, 1))
        y = build.emit("mul_mat", build.constant(f"w{name}", DType.F32, (24, 24, 1, 1)), y)
        y = build.emit("add", y, state)
        build.emit("write_state", y, state)
    build.output("y", y, (2, 24))
    return for_device(build)


@pytest.mark.parametrize("device", [EVEN, f"{FIRST}=1,cpu=1", f"cpu=1,{FIRST}=1"])
def test_methods_that_read_states_in_another_order(device: str) -> None:
    names = ("a", "b", "c", "d")
    weights = {f"w{name}": torch.randn(24, 24) / 5 for name in names}
    constants = {key: value.numpy() for key, value in weights.items()}
    states = States()
    orders = (names, tuple(reversed(names)), ("b", "d", "a"))
    methods = [Session(adds_in_order(order), constants, device=device, states=states) for order in orders]
    kept = {name: torch.zeros(2, 24) for name in names}
    for _ in range(3):
        for order, method in zip(orders, methods, strict=True):
            x = y = torch.randn(2, 24)
            for name in order:
                kept[name] = y = y @ weights[f"w{name}"].T + kept[name]
            torch.testing.assert_close(torch.as_tensor(method.run(x)[0]), y, rtol=1e-4, atol=1e-4)


# --------------------------------------------------------------------------------------------- states of the host


def adds_on_host(build: Builder) -> None:
    total = build.state("total", DType.F32, (4, 1, 1, 1))
    build.output("y", build.emit("scale_bias", total, s=2.0, b=0.0), (4,))
    on_host(build, *(node.output for node in build.graph.nodes))


def adds_on_device(build: Builder) -> None:
    total = build.state("total", DType.F32, (4, 1, 1, 1))
    x = build.input("x", DType.F32, (4,), (4, 1, 1, 1))
    summed = build.emit("add", total, x)
    build.emit("write_state", summed, total)
    build.output("y", build.emit("relu", summed), (4,))


def writes_on_host(build: Builder) -> None:
    total = build.state("total", DType.F32, (4, 1, 1, 1))
    more = build.emit("scale_bias", total, s=3.0, b=1.0)
    on_host(build, more, build.emit("write_state", more, total))


@pytest.mark.parametrize("device", [FIRST, SECOND, "standin:rpc", EVEN])
@pytest.mark.parametrize("device_first", [False, True])
def test_one_method_has_a_state_on_the_host_and_another_on_a_device(device: str, device_first: bool) -> None:
    states = States()
    sessions = {}
    makers = [adds_on_host, adds_on_device, writes_on_host]
    for maker in reversed(makers) if device_first else makers:
        if device_first and maker is writes_on_host:
            continue
        build = Builder()
        maker(build)
        sessions[maker] = Session(for_device(build), device=device, states=states)
    if device_first:
        build = Builder()
        writes_on_host(build)
        sessions[writes_on_host] = Session(for_device(build), device=device, states=states)
    total = torch.zeros(4)
    for _ in range(2):
        for _ in range(3):
            x = torch.randn(4)
            total = total + x
            check(sessions[adds_on_device].run(x), [torch.relu(total)])
            check(sessions[adds_on_host].run(), [total * 2])
            sessions[writes_on_host].run()
            total = total * 3 + 1
            check(sessions[adds_on_host].run(), [total * 2])
        states.reset()
        total = torch.zeros(4)


class Counting(nn.Module):
    """A buffer of integers, which an input's rows are multiplied with."""

    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layers = Layers(2)
        self.register_buffer("count", torch.tensor([1, 2, 3, 4, 5]))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.layers(x) * self.count[:, None]
        before = self.count + 0
        self.count.add_((y.sum(1) > 0).long() + 1)
        return y, before


@pytest.mark.parametrize("targets", [("cpu",), ("cpu", "ggml")])
@pytest.mark.parametrize("device", [FIRST, SECOND, "standin:rpc", EVEN])
def test_a_state_of_integers_that_devices_read(device: str, targets: tuple[str, ...], tmp_path: Path) -> None:
    exported = torch.export.export(Counting(), (X,))
    edge = to_edge_transform_and_lower(exported, partitioner=[GgmlPartitioner(targets=targets)])
    edge.to_executorch().save(str(tmp_path / "model.pte"))
    module = executorch_ggml.load(tmp_path / "model.pte", device=device)
    for _ in range(2):
        eager = Counting()
        eager.load_state_dict(exported.state_dict)
        for _ in range(3):
            x = torch.randn(5, 24)
            torch.testing.assert_close(module(x), eager(x), rtol=1e-4, atol=1e-4)
        module.reset_state()


# --------------------------------------------------------------------------------------------------- language models


def small_llama(layers: int) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=128,
        intermediate_size=192,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=64,
        max_position_embeddings=64,
        tie_word_embeddings=True,
    )
    return LlamaForCausalLM(config).eval()


CacheType = Literal["f32", "f16", "q8_0"]


@functools.cache
def exported_llama(
    cache: CacheType, *, layers: int = 2, targets: tuple[str, ...] = TARGETS
) -> tuple[LlamaForCausalLM, ExecutorchProgramManager]:
    """A model and its program, exported once for all tests of this file."""
    model = small_llama(layers)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("executorch_ggml.llm.program.GgmlPartitioner", partial(GgmlPartitioner, targets=targets))
        return model, llm.export(model, max_seq_len=64, chunk=16, cache_type=cache)


def check_generation(path: Path, device: DeviceNames, model: LlamaForCausalLM, bound: float) -> None:
    """The prompt, then token after token, then a reset and all of it again; and what does not fit is an error."""

    def logits(tokens: Sequence[int]) -> Tensor:
        with torch.no_grad():
            result: Tensor = model(torch.tensor([[token % 64 for token in tokens]])).logits[0, -1]
        return result

    generator = llm.Generator(path, device=device)
    prompt, following = [token % 64 for token in PROMPT], [token % 64 for token in NEXT]
    for _ in range(2):
        assert relative_error(generator.feed(prompt), logits(prompt)) < bound
        for count in range(1, len(following) + 1):
            assert (
                relative_error(generator.feed(following[count - 1 : count]), logits(prompt + following[:count])) < bound
            )
        generator.reset()


CACHES: dict[CacheType, float] = {"f32": 1e-3, "f16": 2e-2, "q8_0": 5e-2}


@pytest.mark.parametrize(("cache", "layers"), [("f32", 2), pytest.param("f16", 4, marks=pytest.mark.slow), ("q8_0", 2)])
def test_llama(cache: CacheType, layers: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, program = exported_llama(cache, layers=layers)
    program.save(str(tmp_path / "model.pte"))
    for names in (EVEN, f"{FIRST}=3,cpu=1"):
        check_generation(tmp_path / "model.pte", names, model, CACHES[cache])
    assert main(["inspect", "--summary", "--device", EVEN, str(tmp_path / "model.pte")]) == 0
    text = capsys.readouterr().out
    assert f"devices {FIRST},{SECOND} compute" in text
    assert "in 3 splits" in text
    assert f"[{SECOND}]" in text


@pytest.mark.parametrize(
    ("names", "angles", "attends"),
    [
        ({FIRST: 3, SECOND: 1}, 0, False),  # before the products of the last layer, behind its attention
        ({FIRST: 1, SECOND: 1}, 2, True),
        ({FIRST: 2, SECOND: 3}, 2, True),
    ],
)
def test_a_llama_is_cut_between_layers(names: dict[str, float], angles: int, attends: bool) -> None:
    """One hidden state crosses, and for layers that attend sines and cosines; mask and rows are the prologue's."""
    chunk = 16
    _, program = exported_llama("f16", layers=4)
    placement = executorch_ggml.partition.placement.placement(program.exported_program("forward"), names)
    first, second = placement.devices
    hidden, angle, mask, rows = chunk * 128 * 4, chunk * 64 * 4, chunk * 64 * 2, chunk * 4
    assert placement.splits == 3
    assert placement.on_device + placement.in_prologue == len(placement.nodes)
    assert first.bytes_from == hidden + angles * angle
    assert second.bytes_to == first.bytes_from + attends * (mask + rows)
    assert second.bytes_from == 64 * 4


@pytest.mark.parametrize("cache", ["f16", pytest.param("q8_0", marks=pytest.mark.slow)])
def test_a_llama_for_the_cpu_alone(cache: CacheType, tmp_path: Path) -> None:
    model, program = exported_llama(cache, targets=("cpu",))
    program.save(str(tmp_path / "model.pte"))
    for names in (FIRST, EVEN):
        check_generation(tmp_path / "model.pte", names, model, CACHES[cache])


@needs_rpc
def test_llama_on_two_servers(tmp_path: Path) -> None:
    model, program = exported_llama("f16", layers=4)
    program.save(str(tmp_path / "model.pte"))
    with server() as one, server() as other:
        names = {one.device: 1.0, other.device: 1.0}
        check_generation(tmp_path / "model.pte", names, model, CACHES["f16"])
        placement = executorch_ggml.partition.placement.placement(
            program.exported_program("forward"), [one.device, other.device]
        )
        assert placement.splits == 3
        assert placement.on_device + placement.in_prologue == len(placement.nodes)
        assert all(use.leaf_bytes > 0 for use in placement.devices)


def test_positions_out_of_range_write_nothing() -> None:
    build = Builder()
    caches = [build.state(f"cache{i}", DType.F32, (32, 6, 1, 1)) for i in range(2)]
    x = build.input("x", DType.F32, (2, 32), (32, 2, 1, 1))
    index = build.emit("to_index", build.input("at", DType.I64, (2,), (2, 1, 1, 1)), size=6, wrap=True)
    on_host(build, index)
    for i, cache in enumerate(caches):
        x = build.emit("mul_mat", build.constant(f"w{i}", DType.F32, (32, 32, 1, 1)), x)
        kept = build.emit("set_rows", cache, index, x)
        build.output(f"y{i}", build.emit("scale_bias", kept, s=1.0, b=0.0), (6, 32))
    weights = {f"w{i}": torch.randn(32, 32) / 6 for i in range(2)}
    program = Session(for_device(build), {key: value.numpy() for key, value in weights.items()}, device=EVEN)
    data = torch.randn(2, 32)
    rows = [data @ weights["w0"].T]
    rows.append(rows[0] @ weights["w1"].T)
    assert program.placement(data, np.array([0, 1])).splits == 3
    run(program, data, np.array([3, 4]))
    with pytest.raises(RuntimeError, match="index 6 is out of range for size 6"):
        program.run(data * 5, np.array([1, 6]))
    outputs, _ = run(program, data, np.array([2, -1]))
    for output, row in zip(outputs, rows, strict=True):
        expected = torch.zeros(6, 32)
        expected[[3, 4]], expected[[2, 5]] = row, row
        torch.testing.assert_close(output, expected, rtol=1e-4, atol=1e-4)
