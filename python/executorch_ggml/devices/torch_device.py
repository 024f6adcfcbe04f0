"""The op table's own torch functions as a device: the first one, and the example."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..ir.arrays import as_numpy, as_torch
from ..ir.interpreter import Interpreter
from .device import GgmlDevice

if TYPE_CHECKING:
    from ..ir.graph import Graph, Node
    from .device import Plan


class TorchDevice(GgmlDevice):
    """Computes with PyTorch, one op after the other."""

    name = "torch"
    description = f"PyTorch {torch.__version__}"

    def supports(self, node: Node) -> bool:
        """Every op of the table has a torch function."""
        return True

    def plan(self, graph: Graph) -> Plan:
        """The interpreter of the IR."""
        interpreter = Interpreter(graph)
        dtypes = [port.value.dtype for port in graph.inputs]

        def run(inputs: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
            with torch.inference_mode():
                given = [as_torch(array, dtype) for array, dtype in zip(inputs, dtypes, strict=True)]
                return [as_numpy(output) for output in interpreter.run(*given)]

        return run
