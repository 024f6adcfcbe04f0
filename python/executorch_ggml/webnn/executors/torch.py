"""Runs graphs in eager PyTorch, on the CPU: the reference."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..converters.torch import GraphModule
from ..errors import BackendUnavailable
from ..graph_info import Array, GraphInfo
from ..registry import Program


class TorchExecutor:
    """Eager PyTorch."""

    def __init__(self, *, accelerated: bool, power_preference: str) -> None:
        del power_preference
        reason = self.unavailable(accelerated)
        if reason is not None:
            raise BackendUnavailable(reason)

    @staticmethod
    def unavailable(accelerated: bool) -> str | None:
        """The CPU alone."""
        return "runs on the CPU only" if accelerated else None

    def prepare(self, graph: GraphInfo) -> Program:
        """The module, called."""
        module = GraphModule(graph).eval()

        def run(inputs: Sequence[Array]) -> Sequence[Array]:
            with torch.no_grad():
                results = module(*(_tensor(array) for array in inputs))
            return [result.contiguous().numpy() for result in results]

        return run


def _tensor(array: Array) -> torch.Tensor:
    return torch.from_numpy(array if array.flags.writeable else array.copy())
