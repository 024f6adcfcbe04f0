"""Groups the nodes that ggml runs into as few delegates as the order of the program allows."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection

from torch.fx import Graph, Node


def groups(graph: Graph, refused: Collection[Node]) -> list[list[Node]]:
    """The calls that are not refused, in groups that can each be one delegate, first to last.

    A node's level is how often the way to it leaves ggml and comes back. One group takes all nodes of a level,
    connected or not: what they need was computed at lower levels, or outside on the way. No grouping has fewer, since
    the way with the most returns needs a delegate for each of them.
    """
    inside = [node for node in graph.nodes if node.op == "call_function" and node not in refused]
    levels = _late(inside, _levels(graph, set(inside)))
    found: dict[int, list[Node]] = {}
    for node in inside:
        found.setdefault(levels[node], []).append(node)
    return [found[level] for level in sorted(found)]


def _levels(graph: Graph, inside: Collection[Node]) -> dict[Node, int]:
    levels: dict[Node, int] = {}
    left: set[Node] = set()  # the calls outside that need a result of ggml; the others come before all of it
    for node in graph.nodes:
        sources = node.all_input_nodes
        levels[node] = max((levels[source] + (node in inside and source in left) for source in sources), default=0)
        if node not in inside and any(source in inside or source in left for source in sources):
            left.add(node)
    return levels


def _late(inside: list[Node], levels: dict[Node, int]) -> dict[Node, int]:
    """What needs nothing but the program's inputs and constants is computed where it is first used.

    The results of an op of several stay with it: between delegates only tensors pass.
    """
    rooted: set[Node] = set()
    for node in inside:
        if all(source.op != "call_function" or source in rooted for source in node.all_input_nodes):
            rooted.add(node)
    for node in reversed(inside):
        readers = _readers(node)
        if node in rooted and readers and all(reader.op == "call_function" for reader in readers):
            levels[node] = min(levels[reader] for reader in readers)
    for node in inside:
        if node.target is operator.getitem:
            levels[node] = levels[node.all_input_nodes[0]]
    return levels


def _readers(node: Node) -> list[Node]:
    """What reads a node's results."""
    return [reader for user in node.users for reader in (user.users if user.target is operator.getitem else [user])]


def between(graph: Graph, is_inside: Callable[[Node], bool]) -> list[Node]:
    """The calls outside of all groups that lie between two of them: without these, there would be fewer."""
    after: set[Node] = set()  # what needs a group's result
    for node in graph.nodes:
        if any(is_inside(source) or source in after for source in node.all_input_nodes):
            after.add(node)
    before: set[Node] = set()  # what a group needs
    for node in reversed(graph.nodes):
        if any(is_inside(user) or user in before for user in node.users):
            before.add(node)
    return [
        node
        for node in graph.nodes
        if node.op == "call_function" and node in after and node in before and not is_inside(node)
    ]
