"""From a graph to a Core ML program (ML Program, iOS 17): made anywhere, run on macOS.

Core ML has float32, float16, int32 and bool, and no scalars at its boundary. 8-bit and 4-bit integers are carried in
int32, of which results keep the type's bits; a scalar is a tensor of one element outside. Wider and unsigned 32-bit
integers are refused, but for constants whose numbers fit.
"""

from __future__ import annotations

from typing import Any

import coremltools as ct
from coremltools.converters.mil.mil import Builder as mb
from coremltools.converters.mil.mil import Function, Program

from ...decompositions import decompose
from ...errors import OperationError
from ...graph_info import GraphInfo, Operation
from . import elementwise, indexing, movement, spatial, tensors
from .emitter import EMITTERS, CannotError, Emitter, constant_of, placeholder_of

__all__ = ["convert", "elementwise", "indexing", "movement", "spatial", "tensors", "to_program"]

TARGET = ct.target.iOS17


def convert(graph: GraphInfo) -> Any:
    """The model, not loaded. Raises OperationError, with all reasons, for what Core ML lacks."""
    return ct.convert(
        to_program(graph),
        convert_to="mlprogram",
        minimum_deployment_target=TARGET,
        compute_precision=ct.precision.FLOAT32,
        skip_model_load=True,
    )


def to_program(graph: GraphInfo) -> Program:
    """The graph in Core ML's intermediate language, MIL."""
    graph = decompose(graph)
    reasons: dict[str, None] = {}
    placeholders = _placeholders(graph, reasons)
    with Function(placeholders, opset_version=TARGET) as function:
        values: dict[int, Any] = {}
        for name, place in graph.inputs.items():
            value = function.inputs[input_name(name)]
            values[place] = value if graph.operands[place].shape else mb.squeeze(x=value)
        for place, array in graph.constants.items():
            try:
                values[place] = constant_of(array)
            except CannotError as cannot:
                reasons[f"a constant: {cannot}"] = None
        for operation in graph.operations:
            if all(place in values for place in operation.reads()):  # else something before it is refused
                _emit(graph, operation, values, reasons)
        if reasons:
            raise OperationError("; ".join(reasons))
        outputs = []
        for name, place in graph.outputs.items():
            value = values[place] if graph.operands[place].shape else mb.expand_dims(x=values[place], axes=[0])
            outputs.append(mb.identity(x=value, name=output_name(graph, name)))
        function.set_outputs(outputs)
    program = Program()
    program.add_function("main", function)
    return program


def _placeholders(graph: GraphInfo, reasons: dict[str, None]) -> dict[str, Any]:
    placeholders = {}
    for name, place in graph.inputs.items():
        try:
            placeholders[input_name(name)] = placeholder_of(graph.operands[place])
        except CannotError as cannot:
            reasons[f"input {name!r}: {cannot}"] = None
    if reasons:
        raise OperationError("; ".join(reasons))
    return placeholders


def _emit(graph: GraphInfo, operation: Operation, values: dict[int, Any], reasons: dict[str, None]) -> None:
    operands = operation.operands_from(values.__getitem__)
    first = next(operation.reads())
    emitter = Emitter(graph.operands[first], [graph.operands[place] for place in operation.outputs])
    try:
        made = EMITTERS[operation.name](emitter, **operands, **operation.options)
        results = made if isinstance(made, (list, tuple)) else [made]
        values.update(zip(operation.outputs, map(emitter.finished, results, range(len(results))), strict=True))
    except CannotError as cannot:
        reasons[f"{operation.name}: {cannot}"] = None
    except Exception as error:  # coremltools computes constants as it goes, and not all of it works
        reasons[f"{operation.name}: coremltools: {type(error).__name__}: {error}"] = None


def input_name(name: str) -> str:
    """An input's name as Core ML allows it."""
    kept = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in name)
    return kept if kept == name and not kept[0].isdigit() else f"in_{kept}_{name.encode().hex()}"


def output_name(graph: GraphInfo, name: str) -> str:
    """An output's name as Core ML allows it, other than the inputs'."""
    made = input_name(name)
    return f"{made}_output" if made in {input_name(other) for other in graph.inputs} else made
