"""Runs graphs on ggml, through the project's IR and native session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir.graph import Graph, IRError
from ...ir.serialize import serialize
from ...runtime import Session, list_devices
from ...targets import TARGETS, for_targets
from ...webnn.errors import BackendUnavailable, OperationError
from ...webnn.graph_info import Array, GraphInfo
from ...webnn.registry import Program
from . import convert

_ACCELERATORS = ("gpu", "igpu")


class GgmlExecutor:
    """ggml, on the CPU or its first GPU."""

    preferred_input_layout = "nhwc"  # channels innermost is how the kernels read images

    def __init__(self, *, accelerated: bool, power_preference: str) -> None:
        del power_preference
        reason = self.unavailable(accelerated)
        if reason is not None:
            raise BackendUnavailable(reason)
        self._device = _accelerators()[0] if accelerated else "cpu"

    @staticmethod
    def unavailable(accelerated: bool) -> str | None:
        """The CPU is always there."""
        return "ggml has no GPU here" if accelerated and not _accelerators() else None

    def prepare(self, graph: GraphInfo) -> Program:
        """The graph's program in a session."""
        try:
            made = convert(graph)
            graphs = for_targets(made, ("cpu",) if self._device == "cpu" else TARGETS)
            session = Session(serialize(*graphs), _constants(graphs), device=self._device)
        except OperationError:
            raise
        except (IRError, RuntimeError) as error:
            raise OperationError(f"ggml: {error}") from error
        into = [_carried(operand.data_type) for operand in graph.input_operands().values()]
        back = [_released(operand.data_type) for operand in graph.output_operands().values()]
        if not any(into) and not any(back):
            return lambda inputs: session.run(*inputs)

        def run(inputs: Sequence[Array]) -> Sequence[Array]:
            given = [array if change is None else change(array) for change, array in zip(into, inputs, strict=True)]
            results = session.run(*given)
            return [array if change is None else change(array) for change, array in zip(back, results, strict=True)]

        return run


Change = Callable[[Array], Array]


def _carried(data_type: str) -> Change | None:
    """From an array to the one that carries it in the IR's types."""
    if data_type == "uint32":
        return lambda array: array.astype(np.int64)
    return (lambda array: array.view(np.int64)) if data_type == "uint64" else None


def _released(data_type: str) -> Change | None:
    """The way back."""
    if data_type == "uint32":
        return lambda array: array.astype(np.uint32)
    return (lambda array: array.view(np.uint64)) if data_type == "uint64" else None


def _constants(graphs: Sequence[Graph]) -> dict[str, Any]:
    named = [constant for graph in graphs for constant in graph.named_constants()]
    return {constant.key: constant.stored() for constant in named if constant.data is not None}


def _accelerators() -> list[str]:
    return [device.name for device in list_devices() if device.kind in _ACCELERATORS]
