from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import sympy
import torch
from tests.helpers import DYNAMIC, assert_all_same, lowered, rand, run_interpreter
from torch import Tensor, nn

from executorch_ggml.ir.builder import Builder
from executorch_ggml.ir.dims import same_dims
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.ir.graph import Graph, IRError, Node, Value, dense_strides
from executorch_ggml.ir.interpreter import Interpreter
from executorch_ggml.ir.printer import to_text
from executorch_ggml.ir.serialize import deserialize, payload, serialize, targets_of
from executorch_ggml.ir.target import Target
from executorch_ggml.ir.verify import verify


class Mixed(nn.Module):
    """Constants, symbols, expressions, every kind of attribute, several outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 6)
        self.convolution = nn.Conv2d(2, 3, 3, padding=1)

    def forward(self, x: Tensor, image: Tensor) -> tuple[Tensor, ...]:
        rows = x.shape[0]
        y = self.layer(x).relu()
        z = torch.cat([y[rows // 2 :], y[: rows // 2]]).clamp(-0.5, 0.5)
        place = torch.arange(rows)
        return z, place * 2 + rows, self.convolution(image).amax((2, 3)), (x > 0).any(1)


def mixed_graph() -> Graph:
    return lowered(Mixed(), (rand(4, 4), rand(1, 2, 5, 6)), ({0: DYNAMIC}, {3: DYNAMIC}))


def test_round_trip() -> None:
    graph = mixed_graph()
    data = serialize(graph)
    again = deserialize(data)
    verify(again)
    assert serialize(again) == data
    assert to_text(again) == to_text(graph)
    for a, b in zip(graph.values(), again.values(), strict=True):
        assert a.dtype == b.dtype
        assert [str(size) for size in a.ne] == [str(size) for size in b.ne]
    constants = {entry.key: entry.data() for entry in graph.constants if entry.data is not None}
    inputs = (rand(7, 4), rand(1, 2, 5, 9))
    made = Interpreter(again, constants).run(*inputs)
    assert_all_same(made, run_interpreter(graph, inputs))


def test_the_same_program_gives_the_same_bytes() -> None:
    torch.manual_seed(0)
    first = serialize(mixed_graph())
    torch.manual_seed(0)
    assert serialize(mixed_graph()) == first


def test_a_graph_for_each_target() -> None:
    cpu, ggml = mixed_graph(), mixed_graph()
    ggml.target = Target.GGML
    ggml.nodes[0].host = True
    data = serialize(cpu, ggml)
    assert targets_of(data) == [Target.CPU, Target.GGML]
    assert [node.host for node in deserialize(data).nodes] == [False] * len(cpu.nodes)
    again = deserialize(data, Target.GGML)
    assert again.target == Target.GGML
    assert [node.host for node in again.nodes] == [True] + [False] * (len(ggml.nodes) - 1)
    assert serialize(deserialize(data), again) == data
    assert deserialize(serialize(cpu), Target.GGML).target == Target.CPU
    assert deserialize(serialize(ggml)).target == Target.GGML


def test_graphs_of_one_program_agree() -> None:
    cpu, ggml = mixed_graph(), mixed_graph()
    with pytest.raises(IRError, match="graphs for targets CPU, CPU: expected one a target"):
        serialize(cpu, ggml)
    ggml.target = Target.GGML
    ggml.outputs[0] = dataclasses.replace(ggml.outputs[0], name="other")
    with pytest.raises(
        IRError, match=r"outputs of the graph for GGML are .*'other'.*, expected those of the graph for"
    ):
        serialize(cpu, ggml)


@pytest.mark.parametrize("value", [0.0, -0.0, 1.5, float("inf"), float("-inf"), float("nan"), 1e-45])
def test_every_float_arrives(value: float) -> None:
    build = Builder()
    build.output("y", build.scalar(value, DType.F32), ())
    made = deserialize(serialize(build.finish())).nodes[0].attrs["value"]
    expected = torch.tensor(value)
    torch.testing.assert_close(torch.tensor(made), expected, equal_nan=True, rtol=0, atol=0)
    assert torch.signbit(torch.tensor(made)) == torch.signbit(expected)


@pytest.mark.parametrize("value", [0, -1, 2**31, -(2**63), 2**63 - 1])
def test_every_integer_arrives(value: int) -> None:
    build = Builder()
    build.output("y", build.scalar(value, DType.I64), ())
    assert deserialize(serialize(build.finish())).nodes[0].attrs["integer"] == value


def test_damage_is_named() -> None:
    data = serialize(mixed_graph())
    with pytest.raises(IRError, match="shorter than its header"):
        payload(data[:7])
    with pytest.raises(IRError, match="not an executorch-ggml program"):
        payload(b"ELF!" + data[4:])
    with pytest.raises(IRError, match="checksum"):
        payload(data[:-1])
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 1
    with pytest.raises(IRError, match="checksum"):
        payload(bytes(flipped))


# ---------------------------------------------------------------------------------------------------------- verifier


def _spoil(graph: Graph, op: str, **changes: Any) -> Graph:
    """The graph with fields of its first node of an op replaced."""
    place = next(i for i, node in enumerate(graph.nodes) if node.op == op)
    graph.nodes[place] = dataclasses.replace(graph.nodes[place], **changes)
    return graph


def _node(graph: Graph, op: str) -> Node:
    return next(node for node in graph.nodes if node.op == op)


def test_a_graph_as_built_is_right() -> None:
    verify(mixed_graph())


def test_wrong_graphs_are_named() -> None:
    graph = mixed_graph()
    concat = _node(graph, "concat")
    with pytest.raises(IRError, match=r"concat .*1 inputs, expected 2"):
        verify(_spoil(mixed_graph(), "concat", inputs=concat.inputs[:1]))
    with pytest.raises(IRError, match="before it is made"):
        verify(_spoil(graph, "concat", inputs=(graph.nodes[-1].output, graph.nodes[-1].output)))
    graph = mixed_graph()
    wrong = Value(DType.F16, concat.output.ne, dense_strides(concat.output.ne))
    with pytest.raises(IRError, match="declared f16"):
        verify(_spoil(graph, "concat", output=wrong))
    graph = mixed_graph()
    graph.symbols.clear()
    with pytest.raises(IRError, match="read off no input"):
        verify(graph)
    graph = mixed_graph()
    graph.outputs[0].value = Value(DType.F32, (1, 1, 1, 1), (1, 1, 1, 1))
    with pytest.raises(IRError, match="computed by no node"):
        verify(graph)


# ----------------------------------------------------------------------------------------------- printer, interpreter


def test_text() -> None:
    build = Builder()
    x = build.input("x", DType.F32, (2, 3), (3, 2, 1, 1))
    w = build.constant("w", DType.F32, (3, 1, 1, 1), lambda: torch.ones(3))
    build.origin = "layer"
    build.output("y", build.emit("binary", x, w, kind=0), (2, 3))
    assert to_text(build.finish()) == (
        "input %x: f32[3, 2, 1, 1]\n"
        "constant @w: f32[3, 1, 1, 1]\n"
        "%0 = binary(%x, @w, kind=0): f32[3, 2, 1, 1]  # layer\n"
        "output y: %0 as [2, 3]"
    )


def test_the_interpreter_keeps_states() -> None:
    build = Builder()
    state = build.state("count", DType.I64, (1, 1, 1, 1), lambda: torch.tensor([5]))
    made = build.emit("binary", state, build.scalar(1, DType.I64), kind=18)
    build.emit("write_state", made, state)
    build.output("y", made, ())
    interpreter = Interpreter(build.finish())
    assert [int(interpreter.run()[0]) for _ in range(3)] == [6, 7, 8]


def test_the_interpreter_checks_the_op_table() -> None:
    build = Builder()
    build.output("y", build.emit("relu", build.input("x", DType.F32, (3,), (3, 1, 1, 1))), (3,))
    graph = build.finish()
    graph.nodes[0].output.ne = (4, 1, 1, 1)
    assert not same_dims(graph.nodes[0].output.ne, (3, 1, 1, 1))
    with pytest.raises(AssertionError, match="reference gives"):
        Interpreter(graph).run(rand(3))


def test_a_size_in_an_attribute_that_no_input_has() -> None:
    n = sympy.Symbol("n", integer=True)
    build = Builder()
    x = build.input("x", DType.F32, (4,), (4, 1, 1, 1))
    build.output("y", build.view(x, (n, 0, 0, 0), (1,)), (1,))
    with pytest.raises(IRError, match=r"view .*n.* are read off no input"):
        verify(build.finish())
