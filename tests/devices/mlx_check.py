"""What the tests of the MLX device share: a graph run by MLX and by the IR's interpreter must agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tests.helpers import assert_same, run_interpreter
from tests.native.corpus_program import Program
from torch import Tensor

from executorch_ggml.devices.mlx import MlxDevice
from executorch_ggml.ir.arrays import as_numpy, as_torch
from executorch_ggml.ir.graph import Graph

TOLERANCE = 1e-5


def built(make: Callable[[Program], None]) -> tuple[Graph, list[Tensor]]:
    """A program's graph and the tensors that it is run on."""
    program = Program()
    make(program)
    return program.build.finish(), program.inputs


def computed(graph: Graph, inputs: Sequence[Tensor], device: MlxDevice | None = None) -> list[Tensor]:
    """The outputs of MLX, from arrays that may not be written to."""
    return run_plan((device or MlxDevice()).plan(graph), graph, inputs)


def run_plan(
    plan: Callable[..., Sequence[np.ndarray[Any, Any]]], graph: Graph, inputs: Sequence[Tensor]
) -> list[Tensor]:
    """A plan's outputs as tensors."""
    arrays = [as_numpy(tensor.contiguous()) for tensor in inputs]
    for array in arrays:
        array.flags.writeable = False
    outputs = zip(plan(arrays), graph.outputs, strict=True)
    return [as_torch(output.copy(), port.value.dtype) for output, port in outputs]


def check_graph(
    graph: Graph,
    inputs: Sequence[Tensor],
    *,
    tolerance: float = TOLERANCE,
    device: MlxDevice | None = None,
    expected: Sequence[Tensor] | None = None,
) -> None:
    """MLX agrees with the interpreter, or with what is expected, relative to the magnitude."""
    wanted = run_interpreter(graph, tuple(inputs)) if expected is None else expected
    for number, (made, want) in enumerate(zip(computed(graph, inputs, device), wanted, strict=True)):
        producer = graph.outputs[number].value.producer
        what = "leaf" if producer is None else f"{producer.op} {producer.attrs}"
        assert_same(made, want, tolerance, f"output {number}, {what}")
