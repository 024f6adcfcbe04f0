"""A graph as a ``torch.nn.Module`` that exporters can trace: real weights, sizes that are numbers."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ...ir.builder import needed_nodes
from ...ir.codec import dequantize
from ...ir.dtypes import DType
from ...ir.graph import Graph, Node, Port, Value
from ...ir.ops.movement import shape_of
from . import translations
from .compilers.compiler import CompileError
from .translations import Trace, call, refusal


def unsupported(graph: Graph) -> list[str]:
    """Why a graph cannot be exported: a reason each, none of them where it can."""
    reasons = [f"state {state.key!r}" for state in graph.states]
    if graph.symbols:
        reasons.append("sizes that depend on the inputs")
    values = [port.value for port in (*graph.inputs, *graph.outputs)]
    if any(value.dtype == DType.F64 or value.dtype.is_quantized for value in values):
        reasons.append("inputs or outputs of float64 or of a quantized type")
    if any(0 in value.ne for value in graph.values() if not graph.symbols):
        reasons.append("an empty tensor")
    if not graph.outputs:
        reasons.append("no outputs")
    reasons += [reason for node in graph.nodes if (reason := refusal(node)) is not None]
    return list(dict.fromkeys(reasons))


def fold(graph: Graph) -> dict[Value, Tensor]:
    """The integers that no input decides: positions and masks, small ones, computed by the op table's references."""
    known = {
        constant.value: constant_tensor(constant.data, constant.value)
        for constant in graph.constants
        if _foldable(constant.value)
    }
    for node in graph.nodes:
        if _foldable(node.output) and all(value in known for value in node.inputs) and refusal(node) is None:
            with contextlib.suppress(IndexError):  # which a run then reports
                inputs = [known[value] for value in node.inputs if value is not None]
                known[node.output] = node.spec.reference(*inputs, **node.attrs)
    return known


def _foldable(value: Value) -> bool:
    return value.dtype in _INTEGERS and int(value.count) <= _FOLDED


_INTEGERS = frozenset({DType.I8, DType.U8, DType.I16, DType.I32, DType.I64, DType.BOOL})
_FOLDED = 1 << 20  # elements


def is_guarded(graph: Graph, folded: dict[Value, Tensor]) -> bool:
    """Whether a run needs something of its data."""
    return any(translations.is_guarded(node) for node in graph.nodes if node.output not in folded)


def needed(graph: Graph) -> tuple[Graph, list[int]]:
    """What the outputs depend on, and which of the inputs that leaves, by number. Writes to states stay."""
    nodes, read = needed_nodes(graph)
    kept = [number for number, port in enumerate(graph.inputs) if port.value in read]
    return replace(graph, inputs=[graph.inputs[at] for at in kept], nodes=nodes), kept


def boundary_dtype(value: Value) -> torch.dtype:
    """The type of an input or output of the module: bfloat16, which numpy lacks, goes as float32 without loss."""
    return torch.float32 if value.dtype == DType.BF16 else value.dtype.torch


class GraphModule(nn.Module):
    """Computes a graph by its op table, in the forms of :mod:`translations`.

    ``forward`` takes and gives the graph's inputs and outputs in the ports' shapes. Where a node needs something of the
    data (indices in range), one more output follows: int32, one element, which is 1 where that did not hold and the
    other outputs mean nothing (``guarded``).
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        if reasons := unsupported(graph):
            raise CompileError("cannot be exported: " + "; ".join(reasons))
        self._graph = graph
        folded = fold(graph)
        self.guarded = is_guarded(graph, folded)
        nodes = self._nodes = [node for node in graph.nodes if node.output not in folded]
        self._buffers_of: dict[Value, str] = {}
        read = {port.value for port in graph.outputs}
        read.update(value for node in nodes for value in node.inputs if value is not None)
        for constant in graph.constants:
            value = constant.value
            if value in read and value not in folded:
                self._keep(value, constant_tensor(constant.data, value))
        for value, tensor in folded.items():
            if value in read:
                self._keep(value, tensor)

    def _keep(self, value: Value, tensor: Tensor) -> None:
        name = f"weight_{len(self._buffers_of)}"
        self._buffers_of[value] = name
        self.register_buffer(name, tensor)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """The outputs for these inputs."""
        trace = Trace()
        values = {value: getattr(self, name) for value, name in self._buffers_of.items()}
        for port, tensor in zip(self._graph.inputs, inputs, strict=True):
            values[port.value] = tensor.reshape(shape_of(port.value.ne)).to(port.value.dtype.torch)
        for node in self._nodes:
            values[node.output] = self._call(trace, node, values)
        outputs = [_shaped(port, values) for port in self._graph.outputs]
        return (*outputs, trace.failed()) if trace.failures else tuple(outputs)

    def _call(self, trace: Trace, node: Node, values: dict[Value, Tensor]) -> Tensor:
        result = call(trace, node, *(None if value is None else values[value] for value in node.inputs))
        expected = shape_of(node.output.ne)
        if tuple(result.shape) != expected or result.dtype != node.output.dtype.torch:
            raise CompileError(
                f"{node.op} ({node.name}): its translation gives {result.dtype}{list(result.shape)}, not {expected}"
            )
        return result


def _shaped(port: Port, values: dict[Any, Tensor]) -> Tensor:
    shape = tuple(int(n) for n in port.shape)
    return values[port.value].reshape(shape).to(boundary_dtype(port.value)).clone()


def constant_tensor(data: Any, value: Value) -> Tensor:
    """A constant as translations see it: of a quantized type, dequantized."""
    if data is None:
        raise CompileError("a constant has no data")
    tensor: Tensor = data()
    shape = shape_of(value.ne)
    return dequantize(tensor, value.dtype, shape) if value.dtype.is_quantized else tensor.reshape(shape)


def example_inputs(graph: Graph) -> tuple[Tensor, ...]:
    """Inputs to trace with: ones, by which an integer can be divided."""
    return tuple(
        torch.ones(tuple(int(n) for n in port.shape), dtype=boundary_dtype(port.value)) for port in graph.inputs
    )
