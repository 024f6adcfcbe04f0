"""The error of each layer: what ggml's nodes compute beside the values of the same ATen nodes in eager PyTorch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from executorch.exir.schema import DelegateCall, KernelCall, Tensor

from ..ir.arrays import as_torch
from ..ir.graph import Graph, Node, Port
from ..ir.serialize import deserialize, serialize
from ..precision_error import relative_error
from ..progress import counted
from ..pte import plan_of
from ..runtime.program_file import named_data
from ..runtime.session import Session
from .method import GGML, Refused, node_id, written_by

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Layer:
    """A node of a delegate that gives the value of an ATen node, and how far it is from another's."""

    id: str
    """The report's."""
    name: str
    """The ATen node's."""
    op: str
    shape: tuple[int, ...]
    """As ggml has it, outermost first."""
    error: float
    """The largest difference over the largest magnitude of the other value."""


def layer_errors(path: Path, expected: Values, inputs: Sequence[torch.Tensor], method: str) -> list[Layer]:
    """The layers of a program in their order, beside ``expected``: values of ATen nodes by name, eager's say.

    Each delegate runs on the inputs that it has in the program, except that results of nodes outside are those of
    ``expected``. Several nodes that one ATen node became are judged by their last; nodes that have no expected value of
    the same shape are left out. Raises ValueError where weights are in another file.
    """
    return [
        layer
        for delegate, graph, results in _delegates(path, expected, inputs, method)
        for layer in _layers(delegate, graph, results, expected)
    ]


def layer_values(path: Path, inputs: Sequence[torch.Tensor], method: str) -> dict[str, torch.Tensor]:
    """What a program's nodes give by the names of their ATen nodes, as far as nothing outside of ggml comes before."""
    found = _delegates(path, {}, inputs, method)
    return {node.name: value for _, _, results in found for node, value in results.items()}


def node_names(path: Path, method: str) -> set[str]:
    """The names of all nodes of a method's delegates."""
    plan, payloads = plan_of(path, method)
    graphs = [deserialize(payloads(delegate)) for delegate in plan.delegates if delegate.id == GGML]
    return {node.name for graph in graphs for node in graph.nodes}


def _delegates(
    path: Path, expected: Values, inputs: Sequence[torch.Tensor], method: str
) -> Iterator[tuple[int, Graph, dict[Node, torch.Tensor]]]:
    """Each delegate that has all its inputs, with its graph and what its nodes give."""
    plan, payloads = plan_of(path, method)
    refused = Refused(plan)
    values: dict[int, torch.Tensor] = dict(zip(plan.inputs, inputs, strict=True))
    for chain in plan.chains:
        for instruction in counted("running layer by layer", chain.instructions, _delegated):
            call = instruction.instr_args
            if isinstance(call, KernelCall):
                operator = plan.operators[call.op_index]
                name, _ = refused.next(f"{operator.name}.{operator.overload}" if operator.overload else operator.name)
                _take(plan, call, expected.get(name), values)
            elif isinstance(call, DelegateCall) and plan.delegates[call.delegate_index].id == GGML:
                payload = payloads(plan.delegates[call.delegate_index])
                graph = deserialize(payload)
                arguments = [values.get(index) for index in call.args[: len(graph.inputs)]]
                if any(argument is None for argument in arguments):
                    continue
                outputs, results = _run(path, graph, [a for a in arguments if a is not None])
                values.update(zip(call.args[len(graph.inputs) :], outputs, strict=False))
                yield call.delegate_index, graph, results


def _delegated(instruction: Any) -> float:
    """What an instruction is of the work: kernels outside of ggml are not run."""
    return float(isinstance(instruction.instr_args, DelegateCall))


def _take(plan: Any, call: KernelCall, value: Any, values: dict[int, torch.Tensor]) -> None:
    """Give what a kernel writes the expected values; without any, leave it unknown."""
    written = written_by(plan, call.args)
    several = value if isinstance(value, (list, tuple)) else [value]
    for index, item in zip(written, several, strict=False):
        values.pop(index, None)
        if isinstance(item, torch.Tensor) and isinstance(plan.values[index].val, Tensor):
            values[index] = item.contiguous()


def _run(path: Path, graph: Graph, inputs: list[torch.Tensor]) -> tuple[list[torch.Tensor], dict[Node, torch.Tensor]]:
    """The outputs of a graph, and what each of its nodes computes, where that lies dense."""
    last = {node.name: node for node in graph.nodes if node.output.is_contiguous}
    seen = [node for node in last.values() if not node.output.dtype.is_quantized]
    ports = [Port(f"value of {node.name}", node.output, tuple(reversed(node.output.ne))) for node in seen]
    watched = replace(graph, outputs=[*graph.outputs, *ports])
    session = Session(serialize(watched), _constants(path, graph))
    given = [tensor.to(port.value.dtype.torch).contiguous() for tensor, port in zip(inputs, graph.inputs, strict=True)]
    arrays = session.run(*given)
    tensors = [as_torch(array, port.value.dtype) for array, port in zip(arrays, watched.outputs, strict=True)]
    count = len(graph.outputs)
    return tensors[:count], dict(zip(seen, tensors[count:], strict=True))


def _constants(path: Path, graph: Graph) -> dict[str, np.ndarray[Any, Any]]:
    found = {}
    for constant in graph.named_constants():
        data = named_data(path, constant.key)
        if data is None:
            raise ValueError(f"{path}: {constant.key} is in another file: errors are for programs with their weights")
        found[constant.key] = np.frombuffer(data, np.uint8)
    return found


def _layers(delegate: int, graph: Graph, results: Mapping[Node, torch.Tensor], expected: Values) -> Iterator[Layer]:
    for number, node in enumerate(graph.nodes):
        value = expected.get(node.name)
        if node not in results or not isinstance(value, torch.Tensor) or value.numel() == 0:
            continue
        candidates = [seen for seen in _orders(results[node]) if _sizes(seen) == _sizes(value)]
        if candidates:
            flat = value.double().flatten()
            error = min(float(relative_error(seen.double().flatten(), flat)) for seen in candidates)
            yield Layer(node_id(delegate, number), node.name, node.op, tuple(results[node].shape), error)


def _orders(tensor: torch.Tensor) -> list[torch.Tensor]:
    """A result as it lies, and read with its innermost dim as channels: images are so on the CPU."""
    return [tensor, tensor.permute(0, 3, 1, 2)]


def _sizes(tensor: torch.Tensor) -> list[int]:
    return [size for size in tensor.shape if size != 1]
