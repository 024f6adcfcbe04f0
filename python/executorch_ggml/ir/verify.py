"""The executable specification of a graph: run after every pass in tests, and before a program is written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .builder import _strides, _verify_call
from .dims import free_symbols, same_dims, unsupported_part
from .graph import Graph, IRError, Node, Value
from .op import Dim


def verify(graph: Graph) -> None:
    """Raise :class:`IRError` naming the first node or value that is not as the op table says."""
    known: set[Value] = {e.value for group in (graph.inputs, graph.constants, graph.states) for e in group}
    symbols = {entry.symbol for entry in graph.symbols}
    for node in graph.nodes:
        _verify_node(node, known)
        _verify_sizes(node, attribute_sizes(node), symbols)
        known.add(node.output)
    for port in graph.outputs:
        if port.value not in known:
            raise IRError(f"output {port.name}: its value is computed by no node")
        if not port.value.is_contiguous:
            raise IRError(f"output {port.name}: {port.value} is not dense")
    for value in graph.values():
        _verify_sizes(value, value.ne, symbols)


def _verify_sizes(of: Node | Value, sizes: Iterable[Dim], symbols: set[Any]) -> None:
    for size in sizes:
        if isinstance(size, int):
            continue
        what = f"{of.op} ({of.name})" if isinstance(of, Node) else str(of)
        if unbound := free_symbols([size]) - symbols:
            raise IRError(f"{what}: symbols {sorted(map(str, unbound))} are read off no input")
        if (part := unsupported_part(size)) is not None:
            raise IRError(f"{what}: the IR has no way to say {part}")


def attribute_sizes(node: Node) -> list[Dim]:
    """The sizes among a node's attributes."""
    given = {"dim": lambda value: [value], "dims": list}
    return [size for attr in node.spec.attrs if attr.kind in given for size in given[attr.kind](node.attrs[attr.name])]


def _verify_node(node: Node, known: set[Value]) -> None:
    if len(node.inputs) != len(node.spec.inputs):
        raise IRError(f"{node.op} ({node.name}): {len(node.inputs)} inputs, expected {len(node.spec.inputs)}")
    for value in node.inputs:
        if value is not None and value not in known:
            raise IRError(f"{node.op} ({node.name}): an input is used before it is made")
    _verify_call(node.op, node.inputs, node.attrs)
    dtype, ne = node.spec.result_of(node.spec.operands(node.inputs, node.attrs))
    if dtype != node.output.dtype or not same_dims(ne, node.output.ne):
        raise IRError(
            f"{node.op} ({node.name}): declared {node.output}, but the op gives {dtype.name.lower()}{list(ne)}"
        )
    if not same_dims(_strides(node.op, node.inputs, node.attrs, ne), node.output.strides):
        raise IRError(f"{node.op} ({node.name}): strides {node.output.strides} are not those of the op")
