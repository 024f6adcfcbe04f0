"""Writes an ONNX model node by node, with the type and shape of every value at hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ...data_types import FLOATS, FOUR_BITS, element_count, numpy_type, pack
from ...graph_info import Array, GraphInfo, Operand

OPSET = 21
IR_VERSION = 10

ELEMENTS = {
    "float32": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "float64": TensorProto.DOUBLE,
    "int32": TensorProto.INT32,
    "uint32": TensorProto.UINT32,
    "int64": TensorProto.INT64,
    "uint64": TensorProto.UINT64,
    "int8": TensorProto.INT8,
    "uint8": TensorProto.UINT8,
    "bool": TensorProto.BOOL,
    "int4": TensorProto.INT8,
    "uint4": TensorProto.UINT8,
}
WIDE = {"float16": "float32", "int8": "int32", "uint8": "int32", "int4": "int32", "uint4": "int32", "uint32": "int64"}
WIDE |= {"uint64": "int64"}
SIGN = np.int64(-(2**63))


class CannotError(Exception):
    """Why an operation cannot be had."""


@dataclass(frozen=True)
class Value:
    """A value of the model."""

    name: str
    data_type: str
    shape: tuple[int, ...]
    contents: Array | None = None

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def is_float(self) -> bool:
        """Whether it is of floats."""
        return self.data_type in FLOATS or self.data_type == "float64"


Emitter = Callable[..., "Value | list[Value]"]
EMITTERS: dict[str, Emitter] = {}


def emits(*names: str) -> Callable[[Emitter], Emitter]:
    """Register the function that writes operators: it takes the writer, operands and options by name.

    Its results may be of another type than the operator's: they are cast.
    """

    def add(function: Emitter) -> Emitter:
        for name in names:
            EMITTERS[name] = function
        return function

    return add


class Writer:
    """A model being written."""

    def __init__(self, graph: GraphInfo) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: list[onnx.TensorProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], Value] = {}
        self._casts: dict[tuple[str, str], Value] = {}
        self._taken = set(graph.inputs)
        self._prefix = "v"
        while any(name.startswith(self._prefix) for name in (*graph.inputs, *graph.outputs)):
            self._prefix += "_"
        self._count = 0
        self.results: Sequence[Operand] = ()  # of the operation at hand

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the first result of the operation at hand."""
        return self.results[0].shape

    @property
    def data_type(self) -> str:
        """Data type of the first result of the operation at hand."""
        return self.results[0].data_type

    # ------------------------------------------------------------------------------------------------- leaves

    def input(self, name: str, operand: Operand) -> Value:
        """An input of the model."""
        self._inputs.append(helper.make_tensor_value_info(name, ELEMENTS[operand.data_type], operand.shape))
        return Value(name, operand.data_type, operand.shape)

    def operand_constant(self, array: Array, operand: Operand) -> Value:
        """A constant of the graph."""
        if operand.data_type in FOUR_BITS and array.size:
            kind = TensorProto.INT4 if operand.data_type == "int4" else TensorProto.UINT4
            name = self._name()
            packed = pack(operand.data_type, array)
            self._initializers.append(helper.make_tensor(name, kind, operand.shape, packed, raw=True))
            value = Value(name, "packed", operand.shape, array)
            made = self.call(
                "Cast", value, data_type=operand.data_type, shape=operand.shape, to=ELEMENTS[operand.data_type]
            )
            return Value(made.name, operand.data_type, operand.shape, array)
        return self._constant(np.asarray(array, order="C"), operand.data_type)

    def constant(self, array: Any, data_type: str) -> Value:
        """A small constant: equal ones are one."""
        contents = np.asarray(array, np.dtype(data_type) if data_type in ("bool", "float64") else numpy_type(data_type))
        key = (data_type, contents.shape, contents.tobytes())
        if key not in self._constants:
            self._constants[key] = self._constant(contents, data_type)
        return self._constants[key]

    def _constant(self, contents: Array, data_type: str) -> Value:
        name = self._name()
        self._initializers.append(numpy_helper.from_array(contents, name))
        return Value(name, data_type, contents.shape, contents)

    def ints(self, numbers: Sequence[int]) -> Value:
        """Sizes, axes and the like."""
        return self.constant(list(numbers), "int64")

    def scalar(self, number: float, like: Value) -> Value:
        """A number of another value's type."""
        return self.constant(number, like.data_type)

    # -------------------------------------------------------------------------------------------------- nodes

    def call(
        self,
        op: str,
        *inputs: Value | None,
        data_type: str | None = None,
        shape: Sequence[int] | None = None,
        **attributes: Any,
    ) -> Value:
        """Append a node of one result, which is like the first input unless said otherwise."""
        first = next(value for value in inputs if value is not None) if inputs else None
        made = Value(
            self._name(),
            data_type or (first.data_type if first else self.data_type),
            tuple(shape) if shape is not None else first.shape if first else (),
        )
        self.node(op, inputs, [made], attributes)
        return made

    def node(
        self, op: str, inputs: Sequence[Value | None], results: Sequence[Value], attributes: dict[str, Any]
    ) -> None:
        """Append a node."""
        names = ["" if value is None else value.name for value in inputs]
        self._nodes.append(helper.make_node(op, names, [result.name for result in results], **attributes))

    def fresh(self, data_type: str, shape: Sequence[int]) -> Value:
        """A value for a node to make."""
        return Value(self._name(), data_type, tuple(shape))

    def cast(self, value: Value, data_type: str) -> Value:
        """A value as another type."""
        if value.data_type == data_type:
            return value
        if ELEMENTS[value.data_type] == ELEMENTS[data_type]:
            return Value(value.name, data_type, value.shape, value.contents)
        key = (value.name, data_type)
        if key not in self._casts:
            self._casts[key] = self.call("Cast", value, data_type=data_type, to=ELEMENTS[data_type])
        return self._casts[key]

    def wide(self, value: Value) -> Value:
        """A value in the type that its own is computed in."""
        return self.cast(value, WIDE.get(value.data_type, value.data_type))

    def ordered(self, value: Value) -> Value:
        """The same, with uint64 put in the order of int64."""
        made = self.wide(value)
        return self.call("Add", made, self.constant(SIGN, "int64")) if value.data_type == "uint64" else made

    def unordered(self, value: Value) -> Value:
        """The way back of uint64: adding the sign bit again."""
        return self.call("Add", value, self.constant(SIGN, "int64")) if self.data_type == "uint64" else value

    def broadcast(self, op: str, a: Value, b: Value, data_type: str | None = None) -> Value:
        """A node of two inputs that are broadcast."""
        return self.call(op, a, b, data_type=data_type, shape=np.broadcast_shapes(a.shape, b.shape))

    def extreme(self, op: str, a: Value, b: Value) -> Value:
        """Max or Min. Of integers a choice: ONNX Runtime 1.31 broadcasts its nodes for int64 wrongly."""
        if a.is_float:
            return self.broadcast(op, a, b)
        first = self.broadcast("Greater" if op == "Max" else "Less", a, b, "bool")
        return self.call("Where", first, a, b, data_type=a.data_type, shape=first.shape)

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """A value in another shape."""
        if value.shape == tuple(shape):
            return value
        return self.call("Reshape", value, self.ints(shape), shape=shape)

    def transpose(self, value: Value, permutation: Sequence[int]) -> Value:
        """Dimension ``permutation[i]`` becomes dimension ``i``."""
        if list(permutation) == list(range(value.rank)):
            return value
        shape = [value.shape[axis] for axis in permutation]
        return self.call("Transpose", value, shape=shape, perm=list(permutation))

    def turned(self, value: Value, layout: str, wanted: str) -> Value:
        """A value in another layout, of the same letters."""
        return self.transpose(value, [layout.index(letter) for letter in wanted])

    def _name(self) -> str:
        self._count += 1
        return f"{self._prefix}{self._count}"

    # -------------------------------------------------------------------------------------------------- model

    def output(self, name: str, value: Value) -> None:
        """An output of the model; it gets another name where an input has this one."""
        while name in self._taken:
            name += "_output"
        self._taken.add(name)
        self._nodes.append(helper.make_node("Identity", [value.name], [name]))
        self._outputs.append(helper.make_tensor_value_info(name, ELEMENTS[value.data_type], value.shape))

    def model(self) -> onnx.ModelProto:
        """The model, checked."""
        graph = helper.make_graph(self._nodes, "webnn", self._inputs, self._outputs, self._initializers)
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="executorch-ggml",
        )
        onnx.checker.check_model(model)
        return model


def count(value: Value) -> int:
    """Number of elements."""
    return element_count(value.shape)
