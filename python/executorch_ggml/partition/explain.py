"""Says of every node of a program whether ggml runs it, and if not, why."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from executorch.exir.backend.partitioner import PartitionResult
from executorch.exir.lowered_backend_module import executorch_call_delegate
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.export import ExportedProgram
from torch.fx import Node

from ..frontends.aten import Lowering
from ..frontends.aten.graph import is_size_node
from ..frontends.aten.ops.quantized import INTEGERS
from ..frontends.aten.registry import overload_of
from ..progress import stage
from ..runtime.session import DeviceNames, Placement
from .assertions import is_assertion
from .control_flow import graph_modules
from .grouping import between, groups
from .kernels import ANY_KERNEL, MissingKernel, missing_kernels
from .partitioner import GgmlPartitioner, computes, refusals
from .placement import placement


@dataclass(frozen=True)
class NodeVerdict:
    """One call: its name, its op, and why it is refused (None where ggml runs it).

    ``missing`` is the kernel that ExecuTorch would need for it and does not have: then the program cannot run.
    """

    node: str
    op: str
    reason: str | None
    missing: MissingKernel | None = None


@dataclass(frozen=True)
class Explanation:
    """The verdicts of one program; prints as a summary, refusals first and aggregated.

    ``delegates`` is how many parts ggml's share is cut into, and ``cuts`` are the calls that lie between two of them.
    ``buffers`` has the buffers that the module mutates and ExecuTorch keeps, with the reasons; ggml keeps the others.
    ``notes`` say what became of weights that torch quantized. ``placement`` says which of ggml's nodes a device
    computes and what crosses in a call, where ``explain`` was asked about one. ``failure`` is why the program cannot be
    lowered at all.
    """

    nodes: tuple[NodeVerdict, ...]
    delegates: int
    cuts: tuple[NodeVerdict, ...]
    buffers: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    placement: Placement | None = None
    failure: str | None = None

    @property
    def delegated(self) -> int:
        """How many calls ggml runs."""
        return sum(verdict.reason is None for verdict in self.nodes)

    @property
    def refused(self) -> tuple[NodeVerdict, ...]:
        """The calls that stay with ExecuTorch."""
        return tuple(verdict for verdict in self.nodes if verdict.reason is not None)

    @property
    def missing_kernels(self) -> tuple[MissingKernel, ...]:
        """The calls that neither ggml nor ExecuTorch can run: with one, the program cannot run."""
        return tuple(verdict.missing for verdict in self.nodes if verdict.missing is not None)

    def __str__(self) -> str:
        if self.failure is not None:
            return f"the program cannot be lowered: {self.failure}"
        plural = "" if self.delegates == 1 else "s"
        lines = [f"{self.delegated} of {len(self.nodes)} nodes run in ggml, in {self.delegates} delegate{plural}"]
        for what, found in (("left to ExecuTorch", self.refused), ("cuts ggml's part", self.cuts)):
            reasons = Counter((verdict.op, verdict.reason) for verdict in found)
            lines += [f"  [{what} x{count}] {op}: {reason}" for (op, reason), count in reasons.most_common()]
        lines += [f"  [left to ExecuTorch] buffer {name}: {reason}" for name, reason in self.buffers.items()]
        lines += [f"  [cannot run] {missing}: ExecuTorch has none" for missing in self.missing_kernels]
        lines += [f"  [note] {note}" for note in self.notes]
        if self.placement is not None:
            lines.append(str(self.placement))
        return "\n".join(lines)


def explain(program: Any, *, device: DeviceNames = "") -> Explanation:
    """Explain an ``ExportedProgram`` or an ``EdgeProgramManager`` (its method ``forward``, or its only one).

    A program before ``to_edge_transform_and_lower`` is brought to the form that the partitioner sees first. With
    ``device``, a name of one or several (see :func:`executorch_ggml.set_device`), it also says which nodes of the
    delegates each computes and what crosses in a call, for inputs of the sizes at export.

    A program that cannot be brought to that form is no error: ``failure`` of the explanation is the reason. Raises
    TypeError for what is no program.
    """
    if not isinstance(program, ExportedProgram) and not hasattr(program, "exported_program"):
        raise TypeError(f"explain takes an ExportedProgram or an EdgeProgramManager, got {type(program).__name__}")
    try:
        explained, lowered = _explained(program)
    except Exception as error:  # torch's and ExecuTorch's passes raise what they like
        lines = str(error).strip().splitlines() or ["no reason given"]
        return Explanation((), 0, (), failure=f"{type(error).__name__}: {lines[0]}")
    return _placed(explained, lowered, device)


def _explained(program: Any) -> tuple[Explanation, ExportedProgram]:
    """The explanation, and the Edge program that it is of."""
    if isinstance(program, ExportedProgram):
        is_edge = any("EdgeOpOverload" in type(node.target).__name__ for node in program.graph.nodes)
        return (explanation(program), program) if is_edge else _explanation_on_the_way(program)
    methods = list(program.methods)
    method = program.exported_program("forward" if "forward" in methods else methods[0])
    return explanation(method), method


def _placed(explained: Explanation, lowered: ExportedProgram, device: DeviceNames) -> Explanation:
    if not device:
        return explained
    return replace(explained, placement=placement(lowered, device))


def explanation(program: ExportedProgram) -> Explanation:
    """The verdict on each call of an Edge program as it stands; delegates that are there already count as ggml's."""
    refused = {node: reason for node, reason in refusals(program).items() if not _is_delegate(node)}
    missing = missing_kernels(program)
    nodes: list[NodeVerdict] = []
    cuts: list[NodeVerdict] = []
    delegates = 0
    for module in graph_modules(program.graph_module):
        graph = module.graph
        parts = groups(graph, refused)
        verdicts = {
            node: NodeVerdict(
                node.name, str(overload_of(node)), refused.get(node), missing.get(node) if node in refused else None
            )
            for node in graph.nodes
            if node.op == "call_function"
            and not (is_size_node(node) and node not in refused)
            and not (is_assertion(node) or _is_delegate(node))
        }
        made = [node for node in graph.nodes if node.target is executorch_call_delegate]
        inside = {node for part in parts for node in part} | set(made)
        nodes += verdicts.values()
        cuts += [verdicts[node] for node in between(graph, inside.__contains__) if node in verdicts]
        delegates += len(made) or sum(computes(part) for part in parts)
    return Explanation(tuple(nodes), delegates, tuple(cuts))


def _is_delegate(node: Node) -> bool:
    """Whether a node is a delegate's call, or one of its results."""
    source = node.args[0] if node.target is operator.getitem else node
    return isinstance(source, Node) and source.target is executorch_call_delegate


class _Observer(GgmlPartitioner):
    """Looks at the program that a partitioner is given: Edge ops, with the composites that ggml takes left whole."""

    seen: Explanation | None = None

    def __init__(self, integers: Mapping[str, torch.Tensor]) -> None:
        super().__init__(own_kernels=ANY_KERNEL)  # what is missing is part of the explanation
        self.integers = integers  # of the program as it was given: while it is partitioned, its constants are fake

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        seen = explanation(exported_program)
        with unset_fake_temporarily():
            notes = Lowering(exported_program).notes_on_integers(self.integers) if self.integers else ()
        result = super().partition(exported_program)
        self.seen = replace(seen, buffers=self.kept_buffers, notes=tuple(notes))
        return result


def _explanation_on_the_way(program: ExportedProgram) -> tuple[Explanation, ExportedProgram]:
    """The explanation, and the program as it was lowered."""
    observer = _Observer(_integers(program))
    # Without ExecuTorch's check, which raises for the first operator that is not in Core ATen.
    config = EdgeCompileConfig(_check_ir_validity=False)
    with stage("lowering"):
        lowered = to_edge_transform_and_lower(program, partitioner=[observer], compile_config=config)
    assert observer.seen is not None
    return observer.seen, lowered.exported_program()


def _integers(program: ExportedProgram) -> dict[str, torch.Tensor]:
    """The constants of a program that torch quantized; of others none."""
    constants = [*program.state_dict.values(), *program.constants.values()]
    tensors = [item for item in constants if isinstance(item, torch.Tensor)]
    if all(type(item) in (torch.Tensor, torch.nn.Parameter) and item.dtype not in INTEGERS for item in tensors):
        return {}
    flat = program.run_decompositions({})  # parts of tensor subclasses are constants of their own
    return {**flat.state_dict, **flat.constants}
