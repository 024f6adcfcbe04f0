"""Runs graphs in Core ML, on macOS."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from ..data_types import FLOATS, numpy_type
from ..errors import BackendUnavailable, OperationError
from ..graph_info import Array, GraphInfo
from ..registry import Program


class CoremlExecutor:
    """Core ML, on the CPU or on whatever it chooses."""

    def __init__(self, *, accelerated: bool, power_preference: str) -> None:
        reason = self.unavailable(accelerated)
        if reason is not None:
            raise BackendUnavailable(reason)
        if not accelerated:
            self._units = "CPU_ONLY"
        else:
            self._units = "CPU_AND_NE" if power_preference == "low-power" else "ALL"

    @staticmethod
    def unavailable(accelerated: bool) -> str | None:
        """Core ML is part of macOS."""
        del accelerated
        return None if sys.platform == "darwin" else f"Core ML runs on macOS, this is {sys.platform}"

    @staticmethod
    def data_types(operator: str, tensor: str, types: frozenset[str]) -> frozenset[str]:
        """Those that int32 and floats can carry; constants of other types whose numbers fit will do as well."""
        del operator, tensor
        return types - {"uint32", "int64", "uint64"}

    def prepare(self, graph: GraphInfo) -> Program:
        """The compiled model."""
        import coremltools as ct  # seconds, so not before it is needed

        from ..converters.coreml import convert, input_name, output_name

        try:
            spec = convert(graph)
            model = ct.models.MLModel(
                spec.get_spec(), weights_dir=spec.weights_dir, compute_units=ct.ComputeUnit[self._units]
            )
        except OperationError:
            raise
        except Exception as error:  # coremltools has no common base of its own
            raise OperationError(f"Core ML: {error}") from error
        inputs = [(input_name(name), item) for name, item in graph.input_operands().items()]
        outputs = [(output_name(graph, name), item) for name, item in graph.output_operands().items()]

        def run(arrays: Sequence[Array]) -> Sequence[Array]:
            given = {}
            for (name, item), array in zip(inputs, arrays, strict=True):
                carried = array if item.data_type in FLOATS else array.astype(np.int32)
                given[name] = carried.reshape(item.shape or (1,))
            results = model.predict(given)
            return [np.asarray(results[name], numpy_type(item.data_type)).reshape(item.shape) for name, item in outputs]

        return run
