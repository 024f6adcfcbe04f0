"""Rows written into a state instead of a copy of it, wherever nothing else reads what the state was before.

Given::

    %0 = scatter($state, %index, %src, kind=ASSIGN)    # reshapes may stand between
    %1 = write_state(%0, $state)

Result::

    %0 = update_state($state, %index, %src)
"""

from __future__ import annotations

from ..ir.graph import Graph, Node, Value
from ..ir.ops import OPS
from ..ir.ops.indexing import ScatterKind
from .rewrite import count_reads


def run(graph: Graph) -> Graph:
    """The graph with its states written in place."""
    reads = count_reads(graph)
    done = set()
    for write in graph.nodes:
        if write.op != "write_state":
            continue
        written, state = write.inputs
        path = _path(written, state)
        rows = [node for node in path if node.op == "scatter"]
        if not rows:
            continue
        assert state is not None
        reads[state] -= 1  # as what this write goes to
        before = [state, *(node.output for node in path[: path.index(rows[-1])])]
        if all(reads[value] == 1 for value in before):
            for node in rows:
                node.spec = OPS["update_state"]
                node.attrs = {attr.name: node.attrs[attr.name] for attr in node.spec.attrs}
            done.add(write)
        else:
            reads[state] += 1
    graph.nodes = [node for node in graph.nodes if node not in done]
    return graph


def _path(written: Value | None, state: Value | None) -> list[Node]:
    """The nodes from a state to what is written to it, in order, if all of them reshape it or write rows into it."""
    path: list[Node] = []
    while written is not state and written is not None and written.producer is not None:
        node = written.producer
        if node.op != "reshape" and not (node.op == "scatter" and node.attrs["kind"] == ScatterKind.ASSIGN):
            break
        path.insert(0, node)
        written = node.inputs[0]
    return path if written is state else []
