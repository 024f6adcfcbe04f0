"""Prints a graph the way people read one: a line per leaf, a line per node."""

from __future__ import annotations

import dataclasses
from typing import Any

from .graph import Graph, Node, Symbol, Value
from .storage import PLAIN, StorageLayout


def to_text(graph: Graph) -> str:
    """The graph as text. Shapes are in ggml order, innermost first."""
    names: dict[Value, str] = {}
    lines = [_symbol(entry) for entry in graph.symbols]
    for port in graph.inputs:
        names[port.value] = f"%{port.name}"
        lines.append(f"input %{port.name}: {port.value}")
    for constant in graph.constants:
        names[constant.value] = f"@{constant.key}"
        lines.append(f"constant @{constant.key}: {constant.value}{_storage(constant.storage)}")
    for state in graph.states:
        names[state.value] = f"${state.key}"
        lines.append(f"state ${state.key}: {state.value}")
    for number, node in enumerate(graph.nodes):
        names[node.output] = f"%{number}"
        where = "host " if node.host else ""
        lines.append(f"{where}%{number} = {_call(node, names)}: {node.output}  # {node.name}")
    lines += [f"output {port.name}: {names[port.value]} as {list(port.shape)}" for port in graph.outputs]
    return "\n".join(lines)


def _symbol(s: Symbol) -> str:
    return f"symbol {s.symbol}: input {s.input} dim {s.dim}, {s.min} to {s.max}{', batch' if s.batch else ''}"


def _storage(layout: StorageLayout) -> str:
    groups = f", groups={layout.groups}" if layout.groups != 1 else ""
    return "" if layout == PLAIN else f" stored as {layout.kind.name}{groups}"


def _call(node: Node, names: dict[Value, str]) -> str:
    inputs = ["none" if value is None else names[value] for value in node.inputs]
    return f"{node.op}({', '.join(filter(None, [*inputs, attributes_text(node)]))})"


def attributes_text(node: Node) -> str:
    """A node's attributes, like "eps=1e-05, axis=0"."""
    return ", ".join(f"{name}={_text(value)}" for name, value in node.attrs.items())


def _text(value: Any) -> str:
    if dataclasses.is_dataclass(value):
        changed = [f for f in dataclasses.fields(value) if getattr(value, f.name) != f.default]
        return f"{{{', '.join(f'{f.name}: {_text(getattr(value, f.name))}' for f in changed)}}}"
    return value.name if hasattr(value, "name") and hasattr(value, "value") else str(value)
