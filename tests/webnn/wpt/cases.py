"""Reads the cases, and runs one on a context."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tests.webnn.wpt.half import half

from executorch_ggml import webnn
from executorch_ggml.webnn.data_types import element_count, numpy_type
from executorch_ggml.webnn.operators.spec import snake_case

ROOT = Path(__file__).resolve().parents[3]
FOLDER = Path(os.environ.get("WEBNN_CASES", ROOT.parent / "shared" / "webnn"))
LARGE = 1 << 24
"""Elements from which a case is left out: it needs gigabytes."""

_SPECIAL = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """One case: inputs, operations, and what is expected of which output."""

    suite: str  # where it comes from: wpt or webnn-baseline
    operator: str  # the file's, in snake_case
    name: str
    data: dict[str, Any]

    @property
    def is_large(self) -> bool:
        """Whether a tensor has too many elements for a small machine."""
        return any(element_count(item["shape"]) > LARGE for item in self.data["inputs"].values())


def cases(folder: Path = FOLDER, operators: tuple[str, ...] = ()) -> Iterator[Case]:
    """All cases of a folder, or those of some operators."""
    for path in sorted(folder.glob("*/*.json")):
        if operators and path.stem not in operators:
            continue
        for case in json.loads(path.read_text())["cases"]:
            yield Case(case["source"], path.stem, case["name"], case)


def array(tensor: dict[str, Any]) -> Array:
    """A tensor of a case."""
    dtype = numpy_type(tensor["dtype"])
    data = [tensor["fill"]] if "fill" in tensor else tensor["data"]
    numbers: list[Any] = [_SPECIAL.get(number, number) if isinstance(number, str) else number for number in data]
    flat = half(numbers) if tensor["dtype"] == "float16" else np.array(numbers, dtype)
    if "fill" in tensor:
        return np.broadcast_to(flat, tensor["shape"]).copy()
    return flat.reshape(tensor["shape"])


def run(case: Case, context: webnn.MLContext) -> dict[str, Array]:
    """Build the case's graph and compute it."""
    builder = context.create_graph_builder()
    operands: dict[str, webnn.MLOperand] = {}
    inputs: dict[str, Array] = {}
    for name, tensor in case.data["inputs"].items():
        if tensor.get("constant"):
            operands[name] = builder.constant(array(tensor), tensor["shape"], tensor["dtype"])
        else:
            operands[name] = builder.input(name, tensor["shape"], tensor["dtype"])
            inputs[name] = array(tensor)

    def plain(value: Any) -> Any:
        if isinstance(value, dict) and set(value) == {"ref"}:
            return operands[value["ref"]]
        if isinstance(value, list):
            return [plain(item) for item in value]
        return _SPECIAL.get(value, value) if isinstance(value, str) else value

    for operation in case.data["operators"]:
        args = dict(operation["args"])
        args |= args.pop("options", {})
        given = {snake_case(name): plain(value) for name, value in args.items()}
        made = getattr(builder, snake_case(operation["name"]))(**given)
        operands.update(zip(operation["outputs"], made if isinstance(made, list) else [made], strict=True))
    graph = builder.build({name: operands[name] for name in case.data["expected"]})
    return context.compute(graph, {name: value for name, value in inputs.items() if name in graph.input_names})
