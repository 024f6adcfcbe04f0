"""Which nodes of the Edge program each node of a delegate's graphs computes: what ExecuTorch's developer tools read."""

from __future__ import annotations

import operator
from collections.abc import Sequence, Set

import torch
from torch.export import ExportedProgram

from ..ir.graph import Graph


def debug_handles(graphs: Sequence[Graph], program: ExportedProgram) -> dict[int, tuple[int, ...]]:
    """The debug handles of the Edge nodes that each node computes, by its number, counted through all graphs.

    A node has the name of the Edge node whose result it gives, and that one's handle comes last. Edge nodes that no
    node is named after were fused into the first of those that read them, or are folded into constants. Every node is
    there, in order: for a number that is not, ExecuTorch's Inspector takes the last whose digits are a part of it.
    """
    edge = {node.name: node for node in program.graph.nodes}
    found: dict[int, tuple[int, ...]] = {}
    number = 0
    for graph in graphs:
        named = {node.name for node in graph.nodes if not _is_free(node.op)}
        own = {handle for name in named if name in edge for handle in _own_handles(edge[name])}
        fused: dict[str, list[int]] = {}
        for node in graph.nodes:
            found[number] = ()
            if node.name in edge and not _is_free(node.op):
                if node.name not in fused:
                    fused[node.name] = sorted(_fused_handles(edge[node.name], named) - own)
                    own.update(fused[node.name])
                found[number] = (*fused[node.name], *_own_handles(edge[node.name]))
            number += 1
    return found


def mark_traced(graphs: Sequence[Graph], program: ExportedProgram) -> None:
    """Say of nodes in which form their outputs are what the Edge nodes give that they are named after.

    Several Edge nodes have one handle where one ATen node became all of them; the last one's result is the ATen node's.
    """
    last = _last_of_handles(program)
    for graph in graphs:
        computing = {node.output: node for node in graph.nodes}
        for name, traced in graph.traced.items():
            node = computing.get(traced.value)
            if node is not None and node.name == name and name in last and not _is_free(node.op):
                node.traced = traced.form


def _last_of_handles(program: ExportedProgram) -> Set[str]:
    names: dict[int, str] = {}
    for node in program.graph.nodes:
        handles = _own_handles(node)
        if node.op == "call_function" and node.target is not operator.getitem and len(handles) == 1:
            names[handles[0]] = node.name
    return frozenset(names.values())


def _is_free(op: str) -> bool:
    return op in ("reshape", "permute", "view")


def _fused_handles(node: torch.fx.Node, named: Set[str]) -> set[int]:
    """Those of all that an Edge node is computed from, up to others that nodes are named after."""
    handles: set[int] = set()
    waiting = [node]
    seen = set(waiting)
    while waiting:
        for source in waiting.pop().all_input_nodes:
            if source.op == "call_function" and source.name not in named and source not in seen:
                seen.add(source)
                waiting.append(source)
                handles.update(_own_handles(source))
    return handles


def _own_handles(node: torch.fx.Node) -> tuple[int, ...]:
    handle = node.meta.get("debug_handle")
    if handle is None:
        return ()
    return (handle,) if isinstance(handle, int) else tuple(handle)
