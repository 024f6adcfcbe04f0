"""Folding where text cannot say what is special of a constant: where it is, its type, how it is to be kept."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import executorch_ggml
from executorch_ggml.ir.builder import Builder
from executorch_ggml.ir.codec import dequantize, quantize
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.ir.graph import Graph, Value
from executorch_ggml.ir.interpreter import Interpreter
from executorch_ggml.ir.storage import Storage, StorageLayout
from executorch_ggml.passes import run_passes

from ..helpers import assert_same, lowered, run_session, session

ROWS = torch.arange(12.0).reshape(3, 4) / 7


def times_exp(weight: Value, builder: Builder) -> Graph:
    """``x * exp(weight)``."""
    x = builder.input("x", DType.F32, (3, 4), (4, 3, 1, 1))
    builder.output("y", builder.emit("mul", x, builder.emit("exp", weight)), (3, 4))
    return builder.finish()


def folded(graph: Graph) -> Graph:
    return run_passes(graph, {"constant_folding"})


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def never() -> Tensor:
    raise AssertionError("the contents were asked for")


def test_contents_are_asked_for_when_the_program_is_written() -> None:
    builder = Builder()
    graph = folded(times_exp(builder.constant("w", DType.F32, (4, 3, 1, 1), never), builder))
    assert ops(graph) == ["mul"]
    with pytest.raises(AssertionError, match="the contents were asked for"):
        graph.constants[0].stored()


@pytest.mark.parametrize("kind", ["outside", "without data", "in blocks"])
def test_what_is_not_at_hand_or_would_be_a_second_copy_stays(kind: str) -> None:
    builder = Builder()
    data = None if kind == "without data" else lambda: ROWS
    weight = builder.constant("w", DType.F32, (4, 3, 1, 1), data, outside=kind == "outside")
    if kind == "in blocks":
        builder.graph.constants[0].storage = StorageLayout(Storage.MATRIX_BLOCKS)
    assert ops(folded(times_exp(weight, builder))) == ["exp", "mul"]


def test_rows_of_a_quantized_table() -> None:
    table = torch.randn(5, 64)
    blocks = quantize(table, DType.Q8_0)
    builder = Builder()
    rows = builder.constant("table", DType.Q8_0, (64, 5, 1, 1), lambda: blocks)
    numbers = builder.constant("numbers", DType.I64, (2, 1, 1, 1), lambda: torch.tensor([4, 1]))
    x = builder.input("x", DType.F32, (2, 64), (64, 2, 1, 1))
    picked = builder.emit("get_rows", rows, builder.emit("to_index", numbers, size=5, wrap=False))
    builder.output("y", builder.emit("add", x, picked), (2, 64))
    graph = folded(builder.finish())
    assert ops(graph) == ["add"]
    (result,) = Interpreter(graph).run(torch.zeros(2, 64))
    torch.testing.assert_close(result, dequantize(blocks, DType.Q8_0, (5, 64))[[4, 1]])


def test_a_turned_weight_is_kept_in_its_half_type() -> None:
    builder = Builder()
    weight = builder.constant("w", DType.F32, (3, 4, 1, 1), lambda: ROWS.reshape(4, 3))
    builder.keep_in(weight, DType.F16)
    x = builder.input("x", DType.F32, (2, 4), (4, 2, 1, 1))
    turned = builder.cont(builder.transpose(weight))
    builder.output("y", builder.emit("mul_mat", turned, x), (2, 3))
    graph = folded(builder.finish())
    assert ops(graph) == ["mul_mat"]
    assert graph.constants[0].kept_in == DType.F16
    torch.testing.assert_close(graph.constants[0].stored().reshape(3, 4), ROWS.reshape(4, 3).t())


def test_equal_computations_of_different_constants_are_two() -> None:
    builder = Builder()
    a = builder.constant("a", DType.F32, (4, 1, 1, 1), lambda: torch.ones(4))
    b = builder.constant("b", DType.F32, (4, 1, 1, 1), lambda: torch.full((4,), 2.0))
    x = builder.input("x", DType.F32, (4,), (4, 1, 1, 1))
    y = builder.emit("mul", builder.emit("add", x, builder.emit("sqr", a)), builder.emit("sqr", b))
    builder.output("y", y, (4,))
    graph = folded(builder.finish())
    assert ops(graph) == ["add", "mul"]
    assert len({constant.key for constant in graph.constants}) == 2
    torch.testing.assert_close(Interpreter(graph).run(torch.ones(4))[0], torch.full((4,), 8.0))


class Positions(torch.nn.Module):
    """Adds a table of sines, computed from a buffer as models do, which partitioning leaves alone."""

    frequencies: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("frequencies", torch.tensor([1.0, 0.1, float("inf")]))  # the last ones are NaN

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.sin(torch.arange(5)[:, None] * self.frequencies)


def test_a_model_computes_its_table_once(tmp_path: Any) -> None:
    model, x = Positions(), torch.randn(2, 5, 3)
    graph = lowered(model, (x,))
    assert ops(graph) == ["add"]
    assert_same(run_session(session(graph), (x,))[0], model(x))
    executorch_ggml.export(model, (x,)).save(str(tmp_path / "model.pte"))
    assert_same(executorch_ggml.load(str(tmp_path / "model.pte"))(x), model(x))
