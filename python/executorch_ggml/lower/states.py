"""States that are changed in a few rows are changed where they lie, as a KV cache is by each token."""

from __future__ import annotations

from collections import Counter

from ..ir.graph import Graph, Node, Value
from ..ir.ops import OPS
from ..ir.ops.indexing import ScatterKind


def update_in_place(graph: Graph) -> None:
    """Write rows into a state instead of a copy of it, wherever nothing else reads what the state was before.

    Given::

        a = scatter(state, index, src, kind=ASSIGN)    # reshapes may stand between
        write_state(a, state)

    Result::

        a = update_state(state, index, src)
    """
    reads: Counter[Value | None] = Counter(value for node in graph.nodes for value in node.inputs)
    reads.update(port.value for port in graph.outputs)
    done = set()
    for write in graph.nodes:
        if write.op != "write_state":
            continue
        made, state = write.inputs
        path = _path(made, state)
        rows = [node for node in path if node.op == "scatter"]
        if not rows:
            continue
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


def _path(made: Value | None, state: Value | None) -> list[Node]:
    """The nodes from a state to what is written to it, in order, if all of them reshape it or write rows into it."""
    path: list[Node] = []
    while made is not state and made is not None and made.producer is not None:
        node = made.producer
        if node.op != "reshape" and not (node.op == "scatter" and node.attrs["kind"] == ScatterKind.ASSIGN):
            break
        path.insert(0, node)
        made = node.inputs[0]
    return path if made is state else []
