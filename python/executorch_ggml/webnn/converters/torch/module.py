"""The module: a list of calls, each of a function that one of the files beside this one registers.

torch lacks most functions of unsigned integers, and 4-bit types. In the module uint32 is carried in int64, uint64 in
int64 of the same bits, and 4-bit integers in 8 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ...decompositions import decompose
from ...graph_info import GraphInfo, Operation

Function = Callable[..., "torch.Tensor | list[torch.Tensor]"]

CARRIERS = {
    "float32": torch.float32,
    "float16": torch.float16,
    "int32": torch.int32,
    "uint32": torch.int64,
    "int64": torch.int64,
    "uint64": torch.int64,
    "int8": torch.int8,
    "uint8": torch.uint8,
    "int4": torch.int8,
    "uint4": torch.uint8,
}
OWN = {"uint32": torch.uint32, "uint64": torch.uint64}
SIGN = -(2**63)  # flips the order of signed integers to that of unsigned ones, and back


@dataclass(frozen=True)
class Implementation:
    """How torch computes an operator."""

    function: Function
    moves: bool  # elements are moved as they are: nothing is computed
    ordered: bool  # elements are compared, so that uint64 has to be put in order
    typed: bool  # it is told the operands' and results' data types


IMPLEMENTATIONS: dict[str, Implementation] = {}


def computes(
    *names: str, moves: bool = False, ordered: bool = False, typed: bool = False
) -> Callable[[Function], Function]:
    """Register the function of operators: it takes their operands and options by name.

    Float operands come in float32 at least, and results are rounded to their type.
    """

    def add(function: Function) -> Function:
        for name in names:
            IMPLEMENTATIONS[name] = Implementation(function, moves, ordered, typed)
        return function

    return add


class GraphModule(torch.nn.Module):
    """A graph as a module: from its inputs to its outputs, each in the graph's order."""

    def __init__(self, graph: GraphInfo) -> None:
        super().__init__()
        self.graph_info = graph
        self._graph = decompose(graph)
        for place, array in self._graph.constants.items():
            contents = torch.from_numpy(array.copy())
            self.register_buffer(f"constant{place}", _carried(contents, self._graph.operands[place].data_type))
        self._last_use = _last_uses(self._graph)

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Run the operations in order."""
        graph = self._graph
        values: dict[int, torch.Tensor] = {
            place: _carried(tensor, graph.operands[place].data_type)
            for tensor, place in zip(inputs, graph.inputs.values(), strict=True)
        }
        for place in graph.constants:
            values[place] = getattr(self, f"constant{place}")
        for index, operation in enumerate(graph.operations):
            values.update(zip(operation.outputs, _run(graph, operation, values), strict=True))
            for place in self._last_use.get(index, ()):
                del values[place]
        return tuple(_released(values[place], graph.operands[place].data_type) for place in graph.outputs.values())


def _run(graph: GraphInfo, operation: Operation, values: dict[int, torch.Tensor]) -> list[torch.Tensor]:
    how = IMPLEMENTATIONS[operation.name]

    def ready(place: int) -> torch.Tensor:
        value = values[place]
        if how.moves:
            return value
        if value.dtype == torch.float16:
            return value.float()
        return value ^ SIGN if how.ordered and graph.operands[place].data_type == "uint64" else value

    operands = operation.operands_from(ready)
    types: dict[str, Any] = {}
    if how.typed:
        first = next(operation.reads())
        types = {
            "from_type": graph.operands[first].data_type,
            "to_type": graph.operands[operation.outputs[0]].data_type,
        }
    made = how.function(**operands, **operation.options, **types)
    results = made if isinstance(made, (list, tuple)) else [made]
    if how.moves:
        return [result.contiguous() if result.dim() else result for result in results]
    return [
        _fitted(result, graph.operands[place].data_type, how.ordered)
        for result, place in zip(results, operation.outputs, strict=True)
    ]


def _fitted(result: torch.Tensor, data_type: str, ordered: bool) -> torch.Tensor:
    """A result in its carrier: rounded, or wrapped to the type's bits."""
    if data_type == "uint64" and ordered:
        result ^= SIGN
    if data_type == "uint32" and result.dtype == torch.int64:
        return result & 0xFFFFFFFF
    return result.to(CARRIERS[data_type])


def _carried(tensor: torch.Tensor, data_type: str) -> torch.Tensor:
    if data_type == "uint32":
        return tensor.to(torch.int64)
    return tensor.view(torch.int64) if data_type == "uint64" else tensor


def _released(tensor: torch.Tensor, data_type: str) -> torch.Tensor:
    if data_type == "uint32":
        return tensor.to(torch.uint32)
    return tensor.view(torch.uint64) if data_type == "uint64" else tensor


def _last_uses(graph: GraphInfo) -> dict[int, list[int]]:
    """For each operation the operands that nothing reads after it."""
    last = {
        place: index
        for index, operation in enumerate(graph.operations)
        for place in (*operation.outputs, *operation.reads())
    }
    uses: dict[int, list[int]] = {}
    for place, index in last.items():
        if place not in graph.outputs.values():
            uses.setdefault(index, []).append(place)
    return uses
