"""Builds graphs: leaves and results. The operators' own methods are in :mod:`.methods`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .arrays import array_of
from .data_types import DATA_TYPES, cast_number, element_count, numpy_type
from .errors import InvalidStateError
from .graph_info import Array, GraphInfo, Operand, Operation
from .methods import Operators
from .operand import MLOperand
from .operators import OPERATORS
from .operators.shapes import MAX_RANK, Shape, is_dimension
from .operators.spec import Integers, MismatchError, described, fault
from .tensor import MLTensor

_SHAPE = Integers("shape")


class GraphBuilder(Operators):
    """Makes a graph: operands by calling operators on operands, and at the end :meth:`graph_info`.

    Constant tensors are taken from ``context`` alone.
    """

    def __init__(self, context: object = None) -> None:
        self._context = context
        self._operands: list[Operand] = []
        self._operations: list[Operation] = []
        self._maker: dict[int, int] = {}
        self._inputs: dict[str, int] = {}
        self._constants: dict[int, Array] = {}
        self._built = False

    # ------------------------------------------------------------------------------------------------- leaves

    def input(self, name: str, shape: Sequence[int], data_type: str = "float32") -> MLOperand:
        """A tensor that is given when the graph is computed."""
        self._check_open()
        if not isinstance(name, str) or not name:
            raise TypeError(fault("input", "name", described(name), "a text that is not empty"))
        if name in self._inputs:
            raise TypeError(fault("input", "name", described(name), "another name than the inputs before"))
        operand = self._append(described_operand("input", shape, data_type), name)
        self._inputs[name] = operand._id
        return operand

    def constant(self, value: Any, shape: Sequence[int] | None = None, data_type: str | None = None) -> MLOperand:
        """A tensor known now.

        ``value`` is a numpy array (or what becomes one), whose type is the data type; or bytes, with ``shape`` and
        ``data_type``; or a number, float32 or int32 without ``data_type``; or a constant :class:`MLTensor`. 4-bit
        integers are an array of int8 or uint8, an element each, or packed bytes. The specification's order
        ``constant(data_type, number)`` will do as well.
        """
        self._check_open()
        if isinstance(value, str):
            return self.constant(shape, (), value)
        if isinstance(value, MLTensor):
            array, operand = value._constant_for(self._context)
        else:
            array, operand = _constant(value, shape, data_type)
        made = self._append(operand)
        self._constants[made._id] = array
        return made

    # --------------------------------------------------------------------------------------------- operations

    def _add(self, name: str, operands: dict[str, Any], options: dict[str, Any], label: str) -> list[MLOperand]:
        self._check_open()
        if not isinstance(label, str):
            raise TypeError(fault(name, "label", described(label), "a text"))
        operand_ids: dict[str, int | tuple[int, ...]] = {}
        infos: dict[str, Any] = {}
        known = self._operands
        for tensor in OPERATORS[name].tensors:
            operand = operands[tensor.name]
            if operand is None and tensor.optional:
                continue
            if tensor.many:
                if not isinstance(operand, (list, tuple)) or not operand:
                    raise TypeError(fault(name, tensor.name, described(operand), "a list of operands", label))
                many = tuple(self._place(name, tensor.name, item, label) for item in operand)
                operand_ids[tensor.name], infos[tensor.name] = many, [known[place] for place in many]
            else:
                place = self._place(name, tensor.name, operand, label)
                operand_ids[tensor.name], infos[tensor.name] = place, known[place]
        results, plain = OPERATORS[name].check(infos, options, label)
        made = [self._append(Operand(data_type, shape)) for data_type, shape in results]
        outputs = tuple(operand._id for operand in made)
        for place in outputs:
            self._maker[place] = len(self._operations)
        self._operations.append(Operation(name, operand_ids, plain, outputs, label))
        return made

    def _place(self, operator: str, argument: str, operand: Any, label: str) -> int:
        if not isinstance(operand, MLOperand):
            raise TypeError(fault(operator, argument, described(operand), "an operand", label))
        if operand._builder is not self:
            raise TypeError(fault(operator, argument, "of another builder", "an operand of this one", label))
        return operand._id

    def _append(self, operand: Operand, name: str = "") -> MLOperand:
        self._operands.append(operand)
        return MLOperand(self, len(self._operands) - 1, operand, name)

    def _check_open(self) -> None:
        if self._built:
            raise InvalidStateError("this builder has built its graph: make another with create_graph_builder()")

    # ------------------------------------------------------------------------------------------------- result

    def graph_info(self, outputs: Mapping[str, MLOperand]) -> GraphInfo:
        """The graph that computes ``outputs``, as plain data: what they need and nothing else."""
        self._check_open()
        if not isinstance(outputs, Mapping) or not outputs:
            raise TypeError(fault("build", "outputs", described(outputs), "operands by name"))
        roots: dict[str, int] = {}
        for name, operand in outputs.items():
            if not isinstance(name, str) or not name:
                raise TypeError(fault("build", "outputs", described(name), "names that are not empty"))
            roots[name] = self._place("build", f"output {name!r}", operand, "")
            if roots[name] not in self._maker:
                raise TypeError(fault("build", f"output {name!r}", "an input or constant", "an operator's result"))
        return self._pruned(roots)

    def _pruned(self, roots: dict[str, int]) -> GraphInfo:
        needed: set[int] = set()
        wanted = set(roots.values())
        for index in range(len(self._operations) - 1, -1, -1):
            operation = self._operations[index]
            if not wanted.isdisjoint(operation.outputs):
                needed.add(index)
                wanted.update(operation.reads())
        operations = [operation for i, operation in enumerate(self._operations) if i in needed]
        kept = sorted(wanted.union(*(operation.outputs for operation in operations)))
        place = {old: new for new, old in enumerate(kept)}
        return GraphInfo(
            operands=tuple(self._operands[old] for old in kept),
            operations=tuple(_renumbered(operation, place) for operation in operations),
            inputs={name: place[i] for name, i in self._inputs.items() if i in place},
            outputs={name: place[i] for name, i in roots.items()},
            constants={place[i]: array for i, array in self._constants.items() if i in place},
        )


def _renumbered(operation: Operation, place: Mapping[int, int]) -> Operation:
    operands = {
        name: place[old] if isinstance(old, int) else tuple(place[i] for i in old)
        for name, old in operation.operands.items()
    }
    return Operation(
        operation.name, operands, operation.options, tuple(place[i] for i in operation.outputs), operation.label
    )


def described_operand(caller: str, shape: Any, data_type: Any) -> Operand:
    """An operand of a type and shape that the caller gives, checked."""
    if not isinstance(data_type, str) or data_type not in DATA_TYPES:
        raise TypeError(fault(caller, "data_type", described(data_type), f"one of {', '.join(DATA_TYPES)}"))
    try:
        sizes: Shape = _SHAPE.check(shape, data_type)
    except MismatchError as mismatch:
        raise TypeError(fault(caller, "shape", described(shape), str(mismatch))) from None
    if not all(map(is_dimension, sizes)) or not is_dimension(element_count(sizes)):
        raise TypeError(fault(caller, "shape", described(sizes), "dimensions from 1 to 2**31 - 1, elements to as many"))
    if len(sizes) > MAX_RANK:
        raise TypeError(fault(caller, "shape", described(sizes), f"at most {MAX_RANK} dimensions"))
    return Operand(data_type, sizes)


def _constant(value: Any, shape: Sequence[int] | None, data_type: str | None) -> tuple[Array, Operand]:
    if isinstance(value, (bytes, bytearray, memoryview)):
        if shape is None or data_type is None:
            raise TypeError("constant: value is bytes, which need a shape and a data_type")
        operand = described_operand("constant", shape, data_type)
        return array_of("constant", "value", value, operand, copy=True), operand
    if isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and data_type is not None:
        operand = described_operand("constant", () if shape is None else shape, data_type)
        number = cast_number(value if isinstance(value, (int, float)) else value.item(), data_type)
        return np.full(operand.shape, number, numpy_type(data_type)), operand
    array = value if isinstance(value, np.ndarray) else _array_of_numbers(value)
    operand = described_operand(
        "constant", array.shape if shape is None else shape, array.dtype.name if data_type is None else data_type
    )
    return array_of("constant", "value", array, operand, copy=True), operand


def _array_of_numbers(value: Any) -> Array:
    """What is no array as one: Python's numbers become float32 or int32."""
    try:
        array = np.asarray(value)
    except ValueError as error:  # lists of different lengths
        raise TypeError(f"{fault('constant', 'value', described(value), 'an array or numbers')}: {error}") from None
    if hasattr(value, "dtype") or hasattr(value, "__array__"):
        return array
    if array.dtype == np.float64:
        return array.astype(np.float32)
    fits = array.dtype == np.int64 and array.size and array.min() >= -(2**31) and array.max() < 2**31
    return array.astype(np.int32) if fits else array
