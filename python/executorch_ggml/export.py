"""The short way from a module to a program."""

from __future__ import annotations

from typing import Any

import torch
from executorch.exir import ExecutorchProgramManager, to_edge_transform_and_lower

from .partition import GgmlPartitioner


def export(
    model: torch.nn.Module, args: tuple[Any, ...], *, kwargs: dict[str, Any] | None = None, dynamic_shapes: Any = None
) -> ExecutorchProgramManager:
    """Export a module, delegate to ggml all that it computes right, and make the ExecuTorch program.

    ``args``, ``kwargs`` and ``dynamic_shapes`` are those of ``torch.export.export``. Write the result with
    ``.save(path)`` and run it with :func:`executorch_ggml.load`.
    """
    program = torch.export.export(model, args, kwargs, dynamic_shapes=dynamic_shapes)
    edge = to_edge_transform_and_lower(program, partitioner=[GgmlPartitioner()])
    return edge.to_executorch()
