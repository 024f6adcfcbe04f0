"""Says of every node of a program whether ggml runs it, and if not, why."""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass
from typing import Any

from executorch.exir import to_edge_transform_and_lower
from executorch.exir.backend.partitioner import PartitionResult
from torch.export import ExportedProgram

from ..lower.graph import Lowering, is_size_node, overload_of
from .partitioner import GgmlPartitioner


@dataclass(frozen=True)
class NodeVerdict:
    """One call: its name, its op, and why it is refused (None where ggml runs it)."""

    node: str
    op: str
    reason: str | None


@dataclass(frozen=True)
class Explanation:
    """The verdicts of one program; prints as a summary, refusals first and aggregated."""

    nodes: tuple[NodeVerdict, ...]

    @property
    def delegated(self) -> int:
        """How many calls ggml runs."""
        return sum(verdict.reason is None for verdict in self.nodes)

    @property
    def refused(self) -> tuple[NodeVerdict, ...]:
        """The calls that stay with ExecuTorch."""
        return tuple(verdict for verdict in self.nodes if verdict.reason is not None)

    def __str__(self) -> str:
        lines = [f"{self.delegated} of {len(self.nodes)} nodes run in ggml"]
        reasons = Counter((verdict.op, verdict.reason) for verdict in self.refused)
        lines += [f"  [left to ExecuTorch x{count}] {op}: {reason}" for (op, reason), count in reasons.most_common()]
        return "\n".join(lines)


def explain(program: Any) -> Explanation:
    """Explain an ``ExportedProgram`` or an ``EdgeProgramManager`` (its method ``forward``, or its only one).

    A program before ``to_edge_transform_and_lower`` is brought to the form that the partitioner sees first.
    """
    return Explanation(_verdicts_of(program))


def verdicts(program: ExportedProgram) -> tuple[NodeVerdict, ...]:
    """The verdict on each call of a program as it stands."""
    lowering = Lowering(program)
    return tuple(
        NodeVerdict(node.name, str(overload_of(node)), lowering.refusal(node))
        for node in program.graph.nodes
        if node.op == "call_function" and not is_size_node(node)
    )


def _verdicts_of(program: Any) -> tuple[NodeVerdict, ...]:
    if isinstance(program, ExportedProgram):
        is_edge = any("EdgeOpOverload" in type(node.target).__name__ for node in program.graph.nodes)
        return verdicts(program) if is_edge else _verdicts_on_the_way(program)
    if hasattr(program, "exported_program"):
        methods = list(program.methods)
        return verdicts(program.exported_program("forward" if "forward" in methods else methods[0]))
    raise TypeError(f"explain takes an ExportedProgram or an EdgeProgramManager, got {type(program).__name__}")


class _Observer(GgmlPartitioner):
    """Looks at the program that a partitioner is given: Edge ops, with the composites that ggml takes left whole."""

    seen: tuple[NodeVerdict, ...] = ()

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        self.seen = verdicts(exported_program)
        return super().partition(exported_program)


def _verdicts_on_the_way(program: ExportedProgram) -> tuple[NodeVerdict, ...]:
    observer = _Observer()
    own = copy.copy(program)
    own._constants = dict(program.constants)  # lowering takes constants out of the dict, which is the caller's
    to_edge_transform_and_lower(own, partitioner=[observer])
    return observer.seen
