"""Runs graphs in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence

import onnxruntime

from ..converters.onnx import convert
from ..errors import BackendUnavailable, OperationError
from ..graph_info import Array, GraphInfo
from ..registry import Program

_CPU = "CPUExecutionProvider"
_LACKING = {"div": frozenset({"uint64"}), "max_pool2d": frozenset({"int64", "uint64"})}


class OnnxExecutor:
    """ONNX Runtime, on the CPU or the first of its other providers."""

    def __init__(self, *, accelerated: bool, power_preference: str) -> None:
        del power_preference
        reason = self.unavailable(accelerated)
        if reason is not None:
            raise BackendUnavailable(reason)
        self._providers = [*(_accelerators() if accelerated else []), _CPU]

    @staticmethod
    def unavailable(accelerated: bool) -> str | None:
        """Whether this build of ONNX Runtime has a provider for it."""
        return "ONNX Runtime has no GPU or NPU here" if accelerated and not _accelerators() else None

    @staticmethod
    def data_types(operator: str, tensor: str, types: frozenset[str]) -> frozenset[str]:
        """Those that ONNX Runtime has a way for."""
        del tensor
        return types - _LACKING.get(operator, frozenset())

    def prepare(self, graph: GraphInfo) -> Program:
        """A session."""
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        try:
            model = convert(graph).SerializeToString()
            session = onnxruntime.InferenceSession(model, options, providers=self._providers)
        except OperationError:
            raise
        except Exception as error:  # ONNX Runtime's own classes have no common base
            raise OperationError(f"ONNX Runtime: {error}") from error
        names = list(graph.inputs)

        def run(inputs: Sequence[Array]) -> Sequence[Array]:
            results: Sequence[Array] = session.run(None, dict(zip(names, inputs, strict=True)))
            return results

        return run


def _accelerators() -> list[str]:
    known = ("TensorrtExecutionProvider", "CUDAExecutionProvider", "ROCMExecutionProvider", "DmlExecutionProvider")
    return [name for name in onnxruntime.get_available_providers() if name in known]
