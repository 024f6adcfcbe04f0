"""A report made of a program's file, and of what more is known: where its nodes come from, times, errors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import __version__
from ..profiling.records import Profile
from ..pte import read_program
from .memory import delegate_arena, outside_arenas
from .method import GGML, Refused, method_of, node_id, outside_id
from .model import Kind, Measured, Method, Node, Refusal, Report
from .origins import Origins

MODULES_FROM_NAMES = (
    "Modules are those of the weights that nodes read, by the weights' names; nodes without weights count as the "
    "whole model's. An ETRecord (--etrecord) or the model (--against) says more, and has the source lines."
)
OF_ERRORS = (
    "Errors add up from layer to layer within ggml; what ExecuTorch computes outside is taken from eager. Nodes "
    "without an error have no counterpart in eager of the same shape."
)


def report_of(
    path: Path,
    origins: Mapping[str, Origins] | None = None,
    measured: Mapping[str, Measured] | None = None,
    *,
    memory: bool = True,
) -> Report:
    """What a program's file says.

    ``origins`` has each method's modules and source lines, ``measured`` its times and errors; without ``memory`` no
    delegate is opened to plan its own. Raises ValueError for a file that is no program.
    """
    program, payloads = read_program(path)
    methods = []
    for plan in program.execution_plan:
        method = method_of(plan, payloads, (origins or {}).get(plan.name, {}))
        method.arenas += outside_arenas(plan)
        if memory:
            ours = [(i, delegate) for i, delegate in enumerate(plan.delegates) if delegate.id == GGML]
            method.arenas += [delegate_arena(payloads(delegate), i) for i, delegate in ours]
        _add_measured(method, (measured or {}).get(plan.name, Measured()))
        method.refusals = refusals_of(method, plan)
        methods.append(method)
    notes = [] if origins else [MODULES_FROM_NAMES]
    if any(node.error is not None for method in methods for node in method.nodes):
        notes.append(OF_ERRORS)
    return Report(path.name, path.stat().st_size, __version__, methods, notes)


def _add_measured(method: Method, measured: Measured) -> None:
    method.microseconds = measured.microseconds
    for node in method.nodes:
        node.microseconds = measured.times.get(node.id)
        node.error = measured.errors.get(node.id)
        node.joined_to = measured.joined.get(node.id, "")


def refusals_of(method: Method, plan: Any) -> list[Refusal]:
    """The reasons why nodes stayed outside, those of most nodes first, with what these cost."""
    by_name: dict[str, Node] = {node.name: node for node in method.nodes if node.kind == Kind.OUTSIDE and node.name}
    grouped: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for row in Refused(plan).rows:
        grouped[row["op"], row["reason"]].append(row["node"])
    unexplained = [node for node in method.nodes if node.kind == Kind.OUTSIDE and not node.name]
    rows = [
        _refusal(op, reason, [by_name[name] for name in names if name in by_name], len(names))
        for (op, reason), names in grouped.items()
    ]
    for op in dict.fromkeys(node.op for node in unexplained):
        nodes = [node for node in unexplained if node.op == op]
        rows.append(_refusal(op, "added by ExecuTorch, or after the partitioner", nodes, len(nodes)))
    return sorted(rows, key=lambda row: -row.count)


def _refusal(op: str, reason: str, nodes: list[Node], count: int) -> Refusal:
    times = [node.microseconds for node in nodes if node.microseconds is not None]
    return Refusal(
        op,
        reason,
        tuple(node.id for node in nodes),
        count,
        sum(node.boundary_bytes for node in nodes),
        sum(times) if times else None,
    )


def times_of(profile: Profile) -> Measured:
    """The median times of a profile's nodes, and of a call that nobody traced."""
    times = {
        outside_id(node.node) if node.delegate is None else node_id(node.delegate, node.node): node.median_ns / 1000
        for node in profile.nodes
    }
    joined = {
        node_id(node.delegate, number): node_id(node.delegate, node.node)
        for node in profile.nodes
        if node.delegate is not None
        for number in node.joined_nodes
    }
    return Measured(times, profile.untraced_median_ns / 1000, joined=joined)
