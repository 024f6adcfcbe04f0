"""Graph files: ``model.webnn``, JSON with the specification's names, and ``model.weights``, its constants' bytes.

A file may come from anywhere. Everything in it is checked before it is used: the structure here, and the graph by
:meth:`GraphInfo.verify`, which puts every operation to the checks that a builder makes.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from .data_types import DATA_TYPES, byte_length, pack, unpack
from .errors import GraphFileError
from .graph_info import Array, GraphInfo, Operand, Operation
from .operators import OPERATORS
from .operators.shapes import MAX_RANK, is_dimension
from .operators.spec import camel_case

T = TypeVar("T")
FORMAT = "webnn-graph"
VERSION = 1
ALIGNMENT = 64
_BY_SPEC_NAME = {spec.spec_name: spec for spec in OPERATORS.values()}
_SPECIAL = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}


def save(graph: GraphInfo, path: str | os.PathLike[str]) -> None:
    """Write a graph, and its constants (if it has any) beside it."""
    path = Path(path)
    weights = path.with_suffix(".weights")
    if weights == path:
        raise ValueError(f"{path} is the name of the weights' file: use another suffix, such as .webnn")
    places: list[dict[str, int]] = []
    if graph.constants:
        with weights.open("wb") as file:
            for operand, array in graph.constants.items():
                file.write(bytes(-file.tell() % ALIGNMENT))
                data = pack(graph.operands[operand].data_type, array)
                places.append({"operand": operand, "offset": file.tell(), "length": len(data)})
                file.write(data)
    path.write_text(json.dumps(_to_json(graph, weights.name if places else None, places), indent=1, allow_nan=False))


def _to_json(graph: GraphInfo, weights: str | None, places: list[dict[str, int]]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "operands": [{"dataType": item.data_type, "shape": list(item.shape)} for item in graph.operands],
        "inputs": dict(graph.inputs),
        "outputs": dict(graph.outputs),
        "weights": weights,
        "constants": places,
        "operations": [
            {
                "operator": OPERATORS[operation.name].spec_name,
                "operands": {camel_case(name): _plain(places) for name, places in operation.operands.items()},
                "options": {camel_case(name): _plain(value) for name, value in operation.options.items()},
                "outputs": list(operation.outputs),
                "label": operation.label,
            }
            for operation in graph.operations
        ],
    }


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def load(path: str | os.PathLike[str]) -> GraphInfo:
    """Read a graph. Raises GraphFileError for what is damaged, with the place in the file."""
    path = Path(path)
    try:
        document = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise GraphFileError(f"{path}: no JSON: {error}") from error
    try:
        graph = _from_json(document, path.parent)
        graph.verify()
    except (TypeError, GraphFileError) as error:
        raise GraphFileError(f"{path}: {error}") from error
    return graph


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _from_json(document: Any, folder: Path) -> GraphInfo:
    fields = _object(document, "the file", {
        "format": str, "version": int, "operands": list, "inputs": dict, "outputs": dict, "weights": (str, type(None)),
        "constants": list, "operations": list,
    })  # fmt: skip
    if fields["format"] != FORMAT or fields["version"] != VERSION:
        raise GraphFileError(f"format {fields['format']!r} version {fields['version']}, expected {FORMAT!r} {VERSION}")
    operands = tuple(_each(fields["operands"], "operands", _operand))
    return GraphInfo(
        operands=operands,
        operations=tuple(_each(fields["operations"], "operations", _operation)),
        inputs=_names(fields["inputs"], "inputs"),
        outputs=_names(fields["outputs"], "outputs"),
        constants=_constants(fields["constants"], fields["weights"], operands, folder),
    )


def _operand(entry: Any, where: str) -> Operand:
    fields = _object(entry, where, {"dataType": str, "shape": list})
    shape = tuple(_each(fields["shape"], f"{where}.shape", _count))
    if fields["dataType"] not in DATA_TYPES or len(shape) > MAX_RANK or not all(map(is_dimension, shape)):
        raise GraphFileError(f"{where} is {fields['dataType']!r}{list(shape)}, expected a data type and dimensions")
    return Operand(fields["dataType"], shape)


def _operation(entry: Any, where: str) -> Operation:
    fields = _object(entry, where, {"operator": str, "operands": dict, "options": dict, "outputs": list, "label": str})
    spec = _BY_SPEC_NAME.get(fields["operator"])
    if spec is None:
        raise GraphFileError(f"{where}: {fields['operator']!r} is no operator")
    tensors = {camel_case(tensor.name): tensor for tensor in spec.tensors}
    options = {camel_case(name): option for name, option in spec.option_by_name.items()}
    for given, known in ((fields["operands"], tensors), (fields["options"], options)):
        if not set(given) <= set(known):
            raise GraphFileError(f"{where}: {spec.spec_name} has no {sorted(set(given) - set(known))}")
    places = {
        tensors[name].name: tuple(_each(value, f"{where}.{name}", _count))
        if tensors[name].many
        else _count(value, f"{where}.{name}")
        for name, value in fields["operands"].items()
    }
    # In the table's order, whatever the file's.
    places = {tensor.name: places[tensor.name] for tensor in spec.tensors if tensor.name in places}
    plain = {
        option.name: _option(fields["options"][name], f"{where}.{name}")
        for name, option in options.items()
        if name in fields["options"]
    }
    outputs = tuple(_each(fields["outputs"], f"{where}.outputs", _count))
    return Operation(spec.name, places, plain, outputs, fields["label"])


def _option(value: Any, where: str) -> Any:
    if isinstance(value, list):
        return tuple(_option(item, where) for item in value)
    if isinstance(value, dict):
        raise GraphFileError(f"{where} is an object, expected a value")
    return _SPECIAL.get(value, value) if isinstance(value, str) else value


def _constants(entries: Any, weights: str | None, operands: tuple[Operand, ...], folder: Path) -> Mapping[int, Array]:
    if not entries:
        return {}
    if weights is None or Path(weights).name != weights or weights in ("", ".", ".."):
        raise GraphFileError(f"weights is {weights!r}, expected the name of a file in the same folder")
    try:
        data = np.memmap(folder / weights, np.uint8, "r")
    except (OSError, ValueError) as error:
        raise GraphFileError(f"weights {weights!r}: {error}") from error
    constants: dict[int, Array] = {}
    for index, entry in enumerate(entries):
        where = f"constants[{index}]"
        fields = _object(entry, where, {"operand": int, "offset": int, "length": int})
        place, offset, length = (_count(fields[name], where) for name in ("operand", "offset", "length"))
        if place >= len(operands) or place in constants:
            raise GraphFileError(f"{where} is operand {place}, which is none, or has its contents already")
        operand = operands[place]
        if length != byte_length(operand.data_type, operand.shape) or offset + length > data.size:
            raise GraphFileError(f"{where}: {length} bytes from {offset} of {data.size}, for {operand}")
        array = unpack(operand.data_type, data[offset : offset + length].data, operand.shape)
        array.flags.writeable = False
        constants[place] = array
    return constants


def _names(entries: dict[str, Any], where: str) -> dict[str, int]:
    return {name: _count(place, f"{where}.{name}") for name, place in entries.items()}


def _count(value: Any, where: str) -> int:
    if type(value) is not int or value < 0:
        raise GraphFileError(f"{where} is {value!r}, expected a whole number")
    return value


def _each(entries: Any, where: str, read: Callable[[Any, str], T]) -> list[T]:
    if not isinstance(entries, list):
        raise GraphFileError(f"{where} is no list")
    return [read(entry, f"{where}[{index}]") for index, entry in enumerate(entries)]


def _object(entry: Any, where: str, kinds: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(entry, dict) or set(entry) != set(kinds):
        raise GraphFileError(f"{where}: expected an object with just {', '.join(kinds)}")
    for name, kind in kinds.items():
        if not isinstance(entry[name], kind) or isinstance(entry[name], bool):
            raise GraphFileError(f"{where}.{name} is {entry[name]!r:.100}")
    return entry
