"""Graph files: written, read back, and damaged."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.webnn.calls import call, data_types
from tests.webnn.running import context, graph_of

from executorch_ggml import webnn
from executorch_ggml.webnn import GraphFileError, GraphInfo
from executorch_ggml.webnn.operators import OPERATORS


def same(a: GraphInfo, b: GraphInfo) -> None:
    assert (a.operands, a.operations, dict(a.inputs), dict(a.outputs)) == (
        b.operands,
        b.operations,
        dict(b.inputs),
        dict(b.outputs),
    )
    assert set(a.constants) == set(b.constants)
    for place, array in a.constants.items():
        np.testing.assert_array_equal(array, b.constants[place])
        assert array.dtype == b.constants[place].dtype


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_operator_comes_back(operator: str, tmp_path: Path) -> None:
    for data_type in data_types(operator):
        info, _ = graph_of(call(operator, data_type, 5), context("torch"))
        webnn.save(info, tmp_path / "graph.webnn")
        same(webnn.load(tmp_path / "graph.webnn"), info)


def test_constants_of_every_type_come_back(tmp_path: Path) -> None:
    b = context("torch").create_graph_builder()
    outputs = {}
    for i, data_type in enumerate(["float32", "float16", "int64", "uint64", "int8", "int4", "uint4"]):
        kind: Any = data_type
        array = np.array([[1, 2, 7], [0, 3, 4]], {"int4": "int8", "uint4": "uint8"}.get(kind, kind))
        outputs[f"y{i}"] = b.identity(b.constant(array, [2, 3], kind))
    graph = b.build(outputs)
    graph.save(tmp_path / "graph.webnn")
    again = context("torch").load(tmp_path / "graph.webnn")
    same(again.info, graph.info)
    assert (tmp_path / "graph.weights").stat().st_size < 400
    results = context("torch").compute(again, {})
    assert all(result.tolist() == [[1, 2, 7], [0, 3, 4]] for result in results.values())


def _document(tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    b = context("torch").create_graph_builder()
    image = b.input("x", [1, 2, 4, 4])
    y = b.conv2d(image, b.constant(np.ones((3, 2, 3, 3), np.float32)), padding=[1, 1, 1, 1])
    b.build({"y": b.clamp(y, min_value=0), "z": b.reduce_sum(y)}).save(tmp_path / "graph.webnn")
    document: dict[str, Any] = json.loads((tmp_path / "graph.webnn").read_text())
    return tmp_path / "graph.webnn", document


def test_a_list_of_no_operands(tmp_path: Path) -> None:
    b = context("torch").create_graph_builder()
    b.build({"y": b.concat([b.input("x", [2])], 0)}).save(tmp_path / "graph.webnn")
    document = json.loads((tmp_path / "graph.webnn").read_text())
    document["operations"][0]["operands"]["inputs"] = []
    (tmp_path / "graph.webnn").write_text(json.dumps(document))
    with pytest.raises(GraphFileError, match=r"concat: inputs is \[\]"):
        webnn.load(tmp_path / "graph.webnn")


def _set(*path: Any, to: Any) -> Callable[[dict[str, Any]], None]:
    def damage(document: Any) -> None:
        for step in path[:-1]:
            document = document[step]
        document[path[-1]] = to

    return damage


DAMAGE: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "format": (_set("format", to="onnx"), "format"),
    "version": (_set("version", to=2), "version"),
    "another field": (_set("extra", to=1), "expected an object with just"),
    "operand type": (_set("operands", 0, "dataType", to="float64"), "float64"),
    "dimension 0": (_set("operands", 0, "shape", to=[0]), r"operands\[0\]"),
    "dimension as text": (_set("operands", 0, "shape", to=["1"]), r"operands\[0\]"),
    "dimension too large": (_set("operands", 0, "shape", to=[2**31]), r"operands\[0\]"),
    "result's shape": (_set("operands", 2, "shape", to=[1, 3, 4, 5]), "conv2d"),
    "unknown operator": (_set("operations", 0, "operator", to="conv3d"), "conv3d"),
    "unknown option": (_set("operations", 0, "options", "pads", to=[1]), "pads"),
    "option's value": (_set("operations", 0, "options", "strides", to=[0, 1]), "strides"),
    "option left out": (_set("operations", 0, "options", to={}), "options"),
    "operand left out": (_set("operations", 0, "operands", to={}), "input is missing"),
    "operand out of range": (_set("operations", 0, "operands", "input", to=99), "99"),
    "operand not made yet": (_set("operations", 0, "operands", "input", to=3), "before it is made"),
    "operand negative": (_set("operations", 0, "operands", "input", to=-1), "-1"),
    "made twice": (_set("operations", 1, "outputs", to=[0]), "clamp"),
    "result out of range": (_set("operations", 1, "outputs", to=[99]), "99"),
    "no output": (_set("outputs", to={}), "no output"),
    "output is an input": (_set("outputs", "y", to=0), "no operation's result"),
    "input without a name": (lambda d: d.update(inputs={"": 0}), "no name"),
    "weights elsewhere": (_set("weights", to="../graph.weights"), "weights"),
    "weights missing": (_set("weights", to="other.weights"), "other.weights"),
    "constant beyond the file": (_set("constants", 0, "offset", to=10**9), "constants"),
    "constant's length": (_set("constants", 0, "length", to=4), "constants"),
    "constant twice": (lambda d: d["constants"].append(d["constants"][0]), "constants"),
    "constant as bool": (_set("constants", 0, "offset", to=True), "constants"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_told(damage: str, tmp_path: Path) -> None:
    path, document = _document(tmp_path)
    change, message = DAMAGE[damage]
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(GraphFileError, match=message):
        webnn.load(path)


@pytest.mark.parametrize("text", ["", "[]", "{", "null", "[" * 100_000, '{"format": NaN}'])
def test_no_graph_file(text: str, tmp_path: Path) -> None:
    path = tmp_path / "graph.webnn"
    path.write_text(text)
    with pytest.raises(GraphFileError):
        webnn.load(path)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in items for place in _places(item, (*path, key)))]


def test_random_damage_never_surprises(tmp_path: Path) -> None:
    path, document = _document(tmp_path)
    dice = random.Random(0)
    for _ in range(400):
        damaged = json.loads(json.dumps(document))
        place = dice.choice([place for place in _places(damaged) if place])
        _set(*place, to=dice.choice([None, True, -1, 2**70, 1.5, "x", [], {}, [1], 0, 3]))(damaged)
        path.write_text(json.dumps(damaged))
        with contextlib.suppress(GraphFileError):
            webnn.load(path).verify()
