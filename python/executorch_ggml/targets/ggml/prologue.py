"""Index arithmetic on the host: what depends on integers alone, and leads to what only the CPU computes.

Given::

    %0 = binary(%position, %count, kind=LT)
    %1 = select(%0, @zero, @hidden)
    %2 = add(%scores, %1)

Result::

    host %0 = binary(%position, %count, kind=LT)
    host %1 = select(%0, @zero', @hidden')              # ': constants that stay in the host's memory
    %2 = add(%scores, %1)

The runtime computes the host's nodes first, then the device has the rest in one piece.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...ir.builder import needed_nodes
from ...ir.graph import Graph, Node, Value
from ...ir.op import Moves, Writes
from ...ir.ops import OPS, matrix, normalization, spatial

# What is worth a device, whatever its inputs are: it is no index arithmetic.
_FEATURE_MODULES = {module.__name__ for module in (matrix, normalization, spatial)}
_FEATURES = {name for name, spec in OPS.items() if spec.reference.__module__ in _FEATURE_MODULES}
_FEATURES |= {"get_rows", "take_rows"}


def run(graph: Graph) -> Graph:
    """The graph with its host nodes first, and with leaves of their own where others read the same."""
    host = _host_nodes(graph)
    on_host: dict[Value, Value] = {}  # by value of the graph, where host nodes find it
    crossing: dict[Value, Value] = {}  # and where others do
    first: list[Node] = []
    others: list[Node] = []
    for node in graph.nodes:
        if node in host:
            copy = _copied(node, on_host)
            first.append(copy)
            on_host[node.output] = copy.output
            if _is_for_host(node):
                crossing[node.output] = copy.output
                continue
        node.inputs = _mapped(node.inputs, crossing)
        others.append(node)
    graph.outputs = [replace(port, value=crossing.get(port.value, port.value)) for port in graph.outputs]
    first.sort(key=lambda node: node.spec.writes is Writes.WHOLE)  # after all that reads what the state was
    graph.nodes = [*first, *others]
    graph.nodes, _ = needed_nodes(graph)
    return _with_host_constants(graph)


def _host_nodes(graph: Graph) -> set[Node]:
    """The index arithmetic that the CPU alone computes, and what of it that depends on."""
    indices = _index_arithmetic(graph)
    wanted: set[Value] = set()
    found: set[Node] = set()
    for node in reversed(graph.nodes):
        if node in indices and (node.output in wanted or _is_for_host(node)):
            found.add(node)
            wanted.update(value for value in node.inputs if value is not None)
    return found


def _is_for_host(node: Node) -> bool:
    """Whether index arithmetic is the host's: no device computes it, or less crosses behind it."""
    return _narrows(node) or not _runs_on_devices(node)


def _narrows(node: Node) -> bool:
    (source,) = node.inputs if node.op == "convert" else (None,)
    return source is not None and source.producer is not None and node.output.dtype.itemsize < source.dtype.itemsize


def _runs_on_devices(node: Node) -> bool:
    """Whether a device may compute a node; a view lies where what it shows does."""
    if node.spec.moves is Moves.VIEW or node.spec.writes is not Writes.NO:
        return not _is_integer(node.output)
    return node.spec.has_stock_form(node.inputs, node.attrs)


def _index_arithmetic(graph: Graph) -> set[Node]:
    """The nodes that depend on constants and on integer inputs and states alone, and that compute no features."""
    known = {constant.value for constant in graph.constants}
    known |= {port.value for port in graph.inputs if _is_integer(port.value)}
    known |= {state.value for state in graph.states if _is_integer(state.value)}
    found = set()
    for node in graph.nodes:
        features = node.op in _FEATURES and not _is_integer(node.output)
        keeps_features = node.spec.writes is not Writes.NO and not _is_integer(node.output)
        of_known = all(value is None or value in known for value in node.inputs)
        if of_known and not features and not keeps_features:
            known.add(node.output)
            found.add(node)
    return found


def _is_integer(value: Value) -> bool:
    return not value.dtype.is_floating and not value.dtype.is_quantized


def _copied(node: Node, values: Mapping[Value, Value]) -> Node:
    """A host node of the same call."""
    output = replace(node.output, producer=None)
    copy = Node(node.spec, _mapped(node.inputs, values), dict(node.attrs), output, node.name, host=True)
    output.producer = copy
    return copy


def _mapped(inputs: tuple[Value | None, ...], values: Mapping[Value, Value]) -> tuple[Value | None, ...]:
    return tuple(None if value is None else values.get(value, value) for value in inputs)


def _with_host_constants(graph: Graph) -> Graph:
    """A constant that both read is two, of one key: each lies where its readers run."""
    on_device = {value for node in graph.nodes if not node.host for value in node.inputs}
    on_device |= {port.value for port in graph.outputs}
    read = {value for node in graph.nodes if node.host for value in node.inputs}
    copies: dict[Value, Value] = {}
    for constant in list(graph.constants):
        if constant.value in read and constant.value in on_device:
            copies[constant.value] = replace(constant.value)
            graph.constants.append(replace(constant, value=copies[constant.value]))
    for node in graph.nodes:
        if node.host:
            node.inputs = _mapped(node.inputs, copies)
    used = read | on_device | set(copies.values())
    graph.constants = [constant for constant in graph.constants if constant.value in used]
    return graph
