"""A graph as plain data: what a builder makes, what converters read, what graph files hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .data_types import numpy_type
from .operators import OPERATORS
from .operators.shapes import Shape, is_dimension

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor of the graph: its data type and its dimensions, outermost first."""

    data_type: str
    shape: Shape

    def __str__(self) -> str:
        return f"{self.data_type}{list(self.shape)}"


@dataclass(frozen=True, slots=True)
class Operation:
    """A call of an operator. Operands are places in :attr:`GraphInfo.operands`; every option has its value."""

    name: str
    operands: Mapping[str, int | tuple[int, ...]]
    options: Mapping[str, Any]
    outputs: tuple[int, ...]
    label: str = ""

    def reads(self) -> Iterator[int]:
        """The operands that it reads, in order."""
        for operand in self.operands.values():
            if isinstance(operand, int):
                yield operand
            else:
                yield from operand

    def operands_from(self, value_of: Callable[[int], Any]) -> dict[str, Any]:
        """Its operands by name: the value of each place, or a list of them where there are several."""
        return {
            name: value_of(place) if isinstance(place, int) else [value_of(i) for i in place]
            for name, place in self.operands.items()
        }


@dataclass(frozen=True, eq=False)
class GraphInfo:
    """A graph. Operations are in an order in which they can run.

    Constants are arrays of their operand's shape; 4-bit integers are in arrays of int8 or uint8, an element each.
    """

    operands: tuple[Operand, ...]
    operations: tuple[Operation, ...]
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]
    constants: Mapping[int, Array] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"input {name}: %{i} {self.operands[i]}" for name, i in self.inputs.items()]
        lines += [f"constant %{i} {self.operands[i]}" for i in self.constants]
        for operation in self.operations:
            given = [f"{k}={_places(v)}" for k, v in operation.operands.items()]
            given += [f"{k}={v!r}" for k, v in operation.options.items()]
            made = ", ".join(f"%{i} {self.operands[i]}" for i in operation.outputs)
            lines.append(f"{made} = {operation.name}({', '.join(given)})")
        lines += [f"output {name}: %{i}" for name, i in self.outputs.items()]
        return "\n".join(lines)

    def input_operands(self) -> dict[str, Operand]:
        """The inputs by name."""
        return {name: self.operands[i] for name, i in self.inputs.items()}

    def output_operands(self) -> dict[str, Operand]:
        """The outputs by name."""
        return {name: self.operands[i] for name, i in self.outputs.items()}

    def verify(self) -> None:
        """Check everything that a builder checks: for graphs from elsewhere. Raises TypeError."""
        defined: set[int] = set()
        for name, i in self.inputs.items():
            _expect(bool(name), f"input {i} has no name")
            self._define(defined, i, f"input {name!r}")
        for i, array in self.constants.items():
            self._define(defined, i, f"constant {i}")
            operand = self.operands[i]
            _expect(
                array.dtype == numpy_type(operand.data_type) and array.shape == operand.shape,
                f"constant {i} is {array.dtype.name}{list(array.shape)}, expected {operand}",
            )
        leaves = frozenset(defined)
        for operation in self.operations:
            self._verify_operation(operation, defined)
        _expect(len(defined) == len(self.operands), "an operand is no input, constant or result")
        _expect(bool(self.outputs), "the graph has no output")
        for name, i in self.outputs.items():
            _expect(bool(name) and i in defined and i not in leaves, f"output {name!r} is no operation's result")

    def _define(self, defined: set[int], i: int, what: str) -> None:
        _expect(
            0 <= i < len(self.operands) and i not in defined, f"{what} is operand {i}, which is none, or made already"
        )
        _expect(all(map(is_dimension, self.operands[i].shape)), f"{what} is {self.operands[i]}: a dimension of 0")
        defined.add(i)

    def _verify_operation(self, operation: Operation, defined: set[int]) -> None:
        spec = OPERATORS.get(operation.name)
        if spec is None:
            raise TypeError(f"{operation.name!r} is no operator")
        for i in operation.reads():
            _expect(i in defined, f"{spec.name}: reads operand {i} before it is made")
        tensors, options = {tensor.name for tensor in spec.tensors}, set(spec.option_by_name)
        _expect(
            set(operation.operands) <= tensors, f"{spec.name}: operands {sorted(set(operation.operands) - tensors)}"
        )
        _expect(set(operation.options) == options, f"{spec.name}: options {sorted(operation.options)}")
        operands = operation.operands_from(self.operands.__getitem__)
        results, plain = spec.check(operands, operation.options, operation.label)
        _expect(plain == dict(operation.options), f"{spec.name}: options {operation.options}, expected {plain}")
        _expect(
            len(results) == len(operation.outputs), f"{spec.name}: {len(operation.outputs)} results, not {len(results)}"
        )
        for i, (data_type, shape) in zip(operation.outputs, results, strict=True):
            self._define(defined, i, f"{spec.name}'s result")
            _expect(self.operands[i] == Operand(data_type, shape), f"{spec.name}: result {i} is {self.operands[i]}")


def _places(operand: int | Sequence[int]) -> str:
    return f"%{operand}" if isinstance(operand, int) else "[" + ", ".join(f"%{i}" for i in operand) + "]"


def _expect(holds: bool, message: str) -> None:
    if not holds:
        raise TypeError(message)
