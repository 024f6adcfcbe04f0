"""The module and the source line that each ATen node comes from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from executorch.exir.backend.partitioner import PartitionResult
from torch.export import ExportedProgram

from ..frontends.aten.source import source_line
from ..partition.control_flow import graph_modules
from ..partition.kernels import ANY_KERNEL
from ..partition.partitioner import GgmlPartitioner


class Origin(NamedTuple):
    """Where a node comes from, each "" where it is not known."""

    module: str = ""
    module_type: str = ""
    source: str = ""


Origins = Mapping[str, Origin]


def origins_of_etrecord(path: Path) -> dict[str, Origins]:
    """By method, then by the names of the nodes that the partitioner saw. Raises ValueError for another file."""
    from executorch.devtools.etrecord import parse_etrecord

    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    try:
        record = parse_etrecord(str(path))
    except Exception as error:
        raise ValueError(f"{path} is no ETRecord: {error}") from error
    edge = record.edge_dialect_program
    if edge is None:
        raise ValueError(f"{path}: this ETRecord has no Edge program; make it with generate_etrecord=True")
    programs = edge if isinstance(edge, Mapping) else {"forward": edge}
    return {method: _origins(program) for method, program in programs.items()}


def origins_of_model(exported: ExportedProgram) -> Origins:
    """By the names of the nodes that the partitioner sees when a program is exported by ``executorch_ggml.export``."""
    observer = _Observer()
    config = EdgeCompileConfig(_check_ir_validity=False)
    to_edge_transform_and_lower(exported, partitioner=[observer], compile_config=config)
    return observer.origins


class _Observer(GgmlPartitioner):
    """Notes where the nodes come from that a partitioner is given."""

    def __init__(self) -> None:
        super().__init__(own_kernels=ANY_KERNEL)
        self.origins: Origins = {}

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        self.origins = _origins(exported_program)
        return super().partition(exported_program)


def _origins(program: ExportedProgram) -> Origins:
    found: dict[str, Origin] = {}
    for module in graph_modules(program.graph_module):
        for node in module.graph.nodes:
            if node.op == "call_function":
                found[node.name] = _origin(node)
    return found


def _origin(node: torch.fx.Node) -> Origin:
    stack: Iterable[tuple[str, Any]] = (node.meta.get("nn_module_stack") or {}).values()
    path, kind = ([*stack] or [("", "")])[-1]
    name = kind if isinstance(kind, str) else getattr(kind, "__name__", str(kind))
    module = str(path).removeprefix("L['self']").removeprefix(".")
    return Origin(module, name.rpartition(".")[2], source_line(node))
