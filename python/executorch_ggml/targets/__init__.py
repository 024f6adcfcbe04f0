"""Targets: what a graph becomes for where it runs. A program holds a graph for each, over one copy of the weights.

``cpu`` has the runtime's own kernels: channels innermost, weights in blocks, epilogues in the layers. ``ggml`` has
stock ops of ggml alone, which all its devices know.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from ..ir.graph import Graph, IRError
from . import cpu, ggml

_RUN: dict[str, Callable[[Graph], Graph]] = {"cpu": cpu.run, "ggml": ggml.run}
TARGETS = tuple(_RUN)


def for_targets(graph: Graph, names: Collection[str] = TARGETS) -> list[Graph]:
    """The graph for each of the targets of these names, ``cpu`` first.

    All of them read the same constants, as the passes left them: other devices than the CPU convert what is stored for
    its kernels while they upload it. IRError for a node that a target has no form of.
    """
    return [_computable(_RUN[name](graph), name) for name in check_targets(names)]


def _computable(graph: Graph, target: str) -> Graph:
    for node in graph.nodes:
        if not node.spec.has_form(node.inputs, node.attrs):
            raise IRError(f"node {node.name} ({node.op}): the target {target} has no form of it")
    return graph


def check_targets(names: Collection[str]) -> list[str]:
    """The names in order; ValueError for none, or for one that is no target's."""
    if isinstance(names, str) or not names or set(names) - set(TARGETS):
        raise ValueError(f"targets: {names!r}, expected one or more of {TARGETS}")
    return [name for name in TARGETS if name in names]


__all__ = ["TARGETS", "check_targets", "cpu", "for_targets", "ggml"]
