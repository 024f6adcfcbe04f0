"""Runs a graph with the op table's torch references: the oracle of every lowering test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ._lazy import sympy, torch
from .codec import dequantize
from .dims import evaluate
from .graph import Graph, Node, Port, Value
from .ops.movement import shape_of


class Interpreter:
    """Holds a graph's constants and states as torch tensors, and runs it."""

    def __init__(self, graph: Graph, constants: Mapping[str, torch.Tensor] | None = None) -> None:
        self.graph = graph
        given = constants or {}
        self._leaves: dict[Value, torch.Tensor] = {}
        for constant in graph.constants:
            data = given[constant.key] if constant.data is None else constant.data()
            self._leaves[constant.value] = _values(data, constant.value)
        for state in graph.states:
            shape = shape_of(state.value.ne)
            first = None if state.init is None or state.init.data is None else state.init.data().reshape(shape).clone()
            self._leaves[state.value] = torch.zeros(shape, dtype=state.value.dtype.torch) if first is None else first

    def run(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        """The outputs for these inputs, in the callers' shapes."""
        bindings = bind(self.graph, inputs)
        values = dict(self._leaves)
        for port, tensor in zip(self.graph.inputs, inputs, strict=True):
            values[port.value] = tensor.reshape(tuple(evaluate(n, bindings) for n in reversed(port.value.ne)))
        for node in self.graph.nodes:
            values[node.output] = self._call(node, values, bindings)
        return [self._shaped(port, values, bindings) for port in self.graph.outputs]

    def contents(self, leaf: Value) -> torch.Tensor:
        """What a constant or a state holds now, in ggml's dims reversed."""
        return self._leaves[leaf]

    def _call(
        self, node: Node, values: dict[Value, torch.Tensor], bindings: Mapping[sympy.Symbol, int]
    ) -> torch.Tensor:
        kinds = {attr.name: attr.kind for attr in node.spec.attrs}
        attrs = {name: _concrete(value, kinds[name], bindings) for name, value in node.attrs.items()}
        result: torch.Tensor = node.spec.reference(*(None if v is None else values[v] for v in node.inputs), **attrs)
        expected = tuple(evaluate(n, bindings) for n in reversed(node.output.ne))
        if tuple(result.shape) != expected or result.dtype != node.output.dtype.torch:
            raise AssertionError(
                f"{node.op} ({node.name}): reference gives {result.dtype}{list(result.shape)}, not {expected}"
            )
        return result

    def _shaped(
        self, port: Port, values: dict[Value, torch.Tensor], bindings: Mapping[sympy.Symbol, int]
    ) -> torch.Tensor:
        return values[port.value].reshape(tuple(evaluate(n, bindings) for n in port.shape)).clone()


def _values(data: torch.Tensor, value: Value) -> torch.Tensor:
    """A constant as the references see it: a quantized one dequantized."""
    shape = shape_of(value.ne)
    return (
        dequantize(data, value.dtype, shape) if value.dtype.is_quantized else data.to(value.dtype.torch).reshape(shape)
    )


def bind(graph: Graph, inputs: Sequence[torch.Tensor]) -> dict[sympy.Symbol, int]:
    """The symbols' values for these inputs."""
    bindings = {}
    for entry in graph.symbols:
        tensor = inputs[entry.input]
        size = int(tensor) if entry.dim < 0 else tensor.shape[entry.dim]
        bindings[entry.symbol] = (size - entry.offset) // entry.scale
    return bindings


def _concrete(value: Any, kind: str, bindings: Mapping[sympy.Symbol, int]) -> Any:
    if kind == "dims":
        return tuple(evaluate(n, bindings) for n in value)
    return evaluate(value, bindings) if kind == "dim" else value
