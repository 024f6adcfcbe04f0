"""The module and the source line that each ATen node comes from."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from executorch.exir.backend.partitioner import PartitionResult
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils._pytree import tree_map_only

from ..frontends.aten.source import source_line
from ..partition.control_flow import graph_modules
from ..partition.edge import lowered_to_edge
from ..partition.functional import FunctionalProgram
from ..partition.kernels import ANY_KERNEL
from ..partition.partitioner import GgmlPartitioner
from ..progress import stage

_Program = TypeVar("_Program", bound=ExportedProgram)


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
    return _observed(exported, None, frozenset()).origins


def eager_values(
    exported: ExportedProgram, inputs: Sequence[torch.Tensor], names: Set[str] = frozenset()
) -> tuple[Origins, dict[str, Any]]:
    """The same, and each node's value in eager PyTorch for these inputs.

    ``names`` are those of a program's nodes. Where they are not such as ``executorch_ggml.export`` gives, they are
    those of an Edge program: of one with an ETRecord, or of ``to_edge_transform_and_lower``.
    """
    observer = _observed(exported, inputs, names)
    return observer.origins, observer.values


def _observed(exported: ExportedProgram, inputs: Sequence[torch.Tensor] | None, names: Set[str]) -> _Observer:
    with stage("lowering"):
        for generate_etrecord in (False, True):
            observer = _Observer(inputs)
            lowered_to_edge({"forward": exported}, observer, generate_etrecord=generate_etrecord)
            if 2 * len(names & observer.origins.keys()) >= len(names):
                break
    return observer


class _Observer(GgmlPartitioner):
    """Notes where the nodes come from that a partitioner is given, and their values for some inputs."""

    def __init__(self, inputs: Sequence[torch.Tensor] | None) -> None:
        super().__init__(own_kernels=ANY_KERNEL)
        self.inputs = inputs
        self.origins: Origins = {}
        self.values: dict[str, Any] = {}
        self._constants: dict[str, Any] = {}

    def transform_for_pre_decomposition(self, exported_program: ExportedProgram) -> ExportedProgram:
        return self._noted(super().transform_for_pre_decomposition(exported_program))

    def core_aten(self, exported_program: ExportedProgram) -> FunctionalProgram:
        return self._noted(super().core_aten(exported_program))

    def _noted(self, program: _Program) -> _Program:
        self._constants = {**program.state_dict, **program.constants}  # while it is partitioned, some are fake
        return program

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        self.origins = _origins(exported_program)
        if self.inputs is not None:
            nodes = len(exported_program.graph.nodes)
            with unset_fake_temporarily(), torch.no_grad(), stage("running eager PyTorch by layers", nodes) as advance:
                recorder = _Recorder(exported_program.graph_module, advance)
                recorder.run(*_arguments(exported_program, self._constants, self.inputs))
            self.values = recorder.values
        return super().partition(exported_program)


class _Recorder(torch.fx.Interpreter):
    """Keeps what each call returns, and tells of each node that is done."""

    def __init__(self, module: torch.fx.GraphModule, advance: Callable[[float], None]) -> None:
        super().__init__(module)
        self._advance = advance
        self.values: dict[str, Any] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        self._advance(1)
        if n.op == "call_function":
            copy: Any = tree_map_only(torch.Tensor, torch.Tensor.clone, result)  # later nodes may write to it
            self.values[n.name] = copy
        return result


def _arguments(program: ExportedProgram, real: Mapping[str, Any], inputs: Sequence[torch.Tensor]) -> list[Any]:
    """What the placeholders of a program stand for: parameters, buffers, constants, and the caller's inputs."""
    users = iter(inputs)
    constants = {**program.state_dict, **program.constants, **real}
    specs = program.graph_signature.input_specs
    values = [next(users) if spec.kind == InputKind.USER_INPUT else constants[spec.target or ""] for spec in specs]
    return [_own(value) for value in values]


def _own(value: Any) -> Any:
    """A copy of a tensor, of a fake one's contents where it has them: those of scalars."""
    if isinstance(value, FakeTensor):
        value = value.constant
    return value.clone() if isinstance(value, torch.Tensor) else value


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
    return Origin(module, name.rpartition(".")[2], source_line(node).removeprefix(f"{Path.cwd()}{os.sep}"))
