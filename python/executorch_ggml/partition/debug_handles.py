"""Which nodes of the Edge program each node of a delegate's graphs computes: what ExecuTorch's developer tools read."""

from __future__ import annotations

from collections.abc import Sequence, Set

import torch
from executorch.exir.backend.utils import DelegateMappingBuilder
from torch.export import ExportedProgram

from ..ir.graph import Graph


def debug_handles(graphs: Sequence[Graph], program: ExportedProgram) -> dict[int, tuple[int]]:
    """The debug handles of the Edge nodes that each node computes, by its number, counted through all graphs.

    A node has the name of the Edge node whose result it gives. Edge nodes that no node is named after were fused into
    those that read them, or are folded into constants.
    """
    edge = {node.name: node for node in program.graph.nodes}
    mapping = DelegateMappingBuilder()
    number = 0
    for graph in graphs:
        named = {node.name for node in graph.nodes if not _is_free(node.op)}
        for node in graph.nodes:
            handles = _handles(edge.get(node.name), named)
            if handles:
                mapping.insert_delegate_mapping_entry(handles=handles, identifier=number)
            number += 1
    found: dict[int, tuple[int]] = mapping.get_delegate_mapping()
    return found


def _is_free(op: str) -> bool:
    return op in ("reshape", "permute", "view")


def _handles(node: torch.fx.Node | None, named: Set[str]) -> list[int]:
    """Those of an Edge node, and of all that it is computed from up to others that nodes are named after."""
    handles: set[int] = set()
    waiting = [] if node is None else [node]
    seen = set(waiting)
    while waiting:
        current = waiting.pop()
        handles.update(_own_handles(current))
        for source in current.all_input_nodes:
            if source.op == "call_function" and source.name not in named and source not in seen:
                seen.add(source)
                waiting.append(source)
    return sorted(handles)


def _own_handles(node: torch.fx.Node) -> tuple[int, ...]:
    handle = node.meta.get("debug_handle")
    if handle is None:
        return ()
    return (handle,) if isinstance(handle, int) else tuple(handle)
