"""``optimum-executorch`` with a recipe ``ggml``: ``python -m executorch_ggml.optimum export executorch --recipe ggml``.

``optimum`` finds only the recipes of its own package by itself. Importing this module registers ours, and running it
is ``optimum-cli`` with it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from executorch.exir import ExecutorchProgramManager
from torch.export import ExportedProgram

from ._export import check_kernels, to_executorch
from .partition import GgmlPartitioner
from .partition.edge import lowered_to_edge
from .partition.kernels import ANY_KERNEL
from .quant import GgmlQuantConfig

try:
    from optimum.exporters.executorch.recipe_registry import register_recipe
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "the recipe needs optimum-executorch: pip install optimum-executorch==1.1.0 torch==2.13.0"
    ) from error


def export_with_ggml(
    model: Any, quantize: str | Mapping[str, Any] | None = None, precision: str | None = None, layout: str | None = None
) -> dict[str, ExecutorchProgramManager]:
    """The programs of one of optimum's exportable modules, with its metadata; all that ggml computes right is its.

    ``quantize``, ``precision`` and ``layout`` are those of :func:`executorch_ggml.export`.
    """
    methods: dict[str, ExportedProgram] = model.export()
    if len(methods) == 1:
        methods = {"forward": next(iter(methods.values()))}
    weights = None if quantize is None else GgmlQuantConfig.of(quantize)
    partitioner = GgmlPartitioner(
        weights=weights, precision=precision, layout=layout, own_kernels=ANY_KERNEL, states_by_name=True
    )
    edge = lowered_to_edge(methods, partitioner, constant_methods=model.metadata)
    check_kernels(edge, partitioner)
    return {"model": to_executorch(edge)}


register_recipe("ggml")(export_with_ggml)


def main() -> int:
    """``optimum-cli``, which takes ``--recipe ggml`` here."""
    from optimum.commands.optimum_cli import main as optimum_cli

    optimum_cli()
    return 0


if __name__ == "__main__":
    sys.exit(main())
