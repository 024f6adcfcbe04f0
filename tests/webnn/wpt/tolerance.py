"""How far a result may be from the expected one: the upstream tests' rules, from tolerances.json.

What that file leaves open is decided here. Operators without an entry: those that only select or round are exact, a
cell's limit is its network's. A data type without an entry: integers are exact, floats have the other float type's
limit. webnn-baseline's expected values are written with few digits, so there a relative difference of 1e-5 passes too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from tests.webnn.wpt.cases import FOLDER, Array, Case, array

FILL_COMPARED = 1000
BASELINE = "webnn-baseline"
BASELINE_RELATIVE = 1e-5
_NO_ENTRY: dict[str, tuple[str, float]] = {
    "gruCell": ("ULP", 3),
    "lstmCell": ("ULP", 1),
    "isNaN": ("ULP", 0),
    "isInfinite": ("ULP", 0),
    "roundEven": ("ULP", 0),
    "sign": ("ULP", 0),
    "triangular": ("ULP", 0),
}


@cache
def _table(folder: Path) -> dict[str, Any]:
    operators: dict[str, Any] = json.loads((folder / "tolerances.json").read_text())["operators"]
    return operators


# ------------------------------------------------------------------------------------------------------- formulas


class _Operation:
    """An operation of a case, for the formulas."""

    def __init__(self, case: Case, operation: dict[str, Any]) -> None:
        self.args = {key: value for key, value in operation["args"].items() if key != "options"}
        self.options = operation["args"].get("options", {})
        self._inputs = case.data["inputs"]

    def shape(self, name: str) -> list[int]:
        """An operand's shape, where it is one of the case's inputs."""
        shape: list[int] = self._inputs[self.args[name]["ref"]]["shape"]
        return shape

    def sizes(self, name: str, layout_option: str, default: str) -> dict[str, int]:
        """Sizes by letter."""
        return dict(zip(self.options.get(layout_option, default), self.shape(name), strict=True))


def _convolution(op: _Operation, filter_layout: str) -> float:
    window, channels = op.sizes("filter", "filterLayout", filter_layout), op.sizes("input", "inputLayout", "nchw")["c"]
    return 2 * window["h"] * window["w"] * channels / op.options.get("groups", 1)


def _pool(op: _Operation) -> float:
    sizes = op.sizes("input", "layout", "nchw")
    return math.prod(op.options.get("windowDimensions", (sizes["h"], sizes["w"]))) + 2


def _gemm(op: _Operation) -> float:
    inner = op.shape("a")[0 if op.options.get("aTranspose") else 1]
    alpha, beta = op.options.get("alpha", 1), op.options.get("beta", 1)
    uses_c = "c" in op.options and beta != 0
    return 2 * inner + (alpha != 1) + uses_c + (uses_c and beta != 1)


def _count(op: _Operation) -> int:
    shape = op.shape("input")
    return math.prod(shape[axis] for axis in op.options.get("axes", range(len(shape))))


def _linear_mode(limit: float) -> Callable[[_Operation], float]:
    return lambda op: limit if op.options.get("mode") == "linear" else 0


_FORMULAS: dict[str, Callable[[_Operation], float]] = {
    "windowH*windowW + 2": _pool,
    "input.shape[axis] - 1": lambda op: op.shape("input")[op.args["axis"]] - 1,
    "2*K, +1 if alpha given and not 1, +1 if c used (c given and beta != 0), "
    "+1 more if c used and beta given and not 1": _gemm,
    "2 * a.shape[last]": lambda op: 2 * op.shape("a")[-1],
    "n": _count,
    "2n": lambda op: 2 * _count(op),
    "2n + 2": lambda op: 2 * _count(op) + 2,
    "n + 2": lambda op: _count(op) + 2,
    "n + 18": lambda op: _count(op) + 18,
    "2n + 18": lambda op: 2 * _count(op) + 18,
    "84 if mode linear else 0": _linear_mode(84),
    "10 if mode linear else 0": _linear_mode(10),
    "1 if mode linear else 0": _linear_mode(1),
    "3*input.shape[axis] + 3": lambda op: 3 * op.shape("input")[op.args["axis"]] + 3,
}  # fmt: skip
_CONVOLUTION = "2 * filterHeight * filterWidth * inputChannels / groups"


def _value(entry: Any, op: _Operation, name: str) -> float:
    if not isinstance(entry, str):
        return float(entry)
    if entry == _CONVOLUTION:
        return _convolution(op, "oihw" if name == "conv2d" else "iohw")
    return _FORMULAS[entry](op)


def limit(case: Case, folder: Path = FOLDER) -> tuple[str, float]:
    """The metric, ULP or ATOL, and how much of it a case allows: the sum over its operations."""
    data_type = next(iter(case.data["expected"].values()))["dtype"]
    metric, total = "ULP", 0.0
    for operation in case.data["operators"]:
        entry = _table(folder).get(operation["name"], {"metric": None})
        if entry["metric"] is None:
            metric, value = _NO_ENTRY.get(operation["name"], (metric, 0))
        else:
            metric = entry["metric"]
            value = _value(_of_type(entry["limit"], data_type), _Operation(case, operation), operation["name"])
        total += value
    return metric, total


def _of_type(limits: dict[str, Any], data_type: str) -> Any:
    for name in (data_type, "any", "other"):
        if name in limits:
            return limits[name]
    other = {"float16": "float32", "float32": "float16"}.get(data_type)
    return limits.get(other, 0) if other else 0


# ----------------------------------------------------------------------------------------------------- comparison


def superseded(case: Case) -> str | None:
    """Why the specification has a TypeError where the case, which is older, has a result; None where it has not."""
    if case.suite != BASELINE:
        return None
    operation = _Operation(case, case.data["operators"][0])
    if case.operator == "expand":
        shape, target = operation.shape("input"), operation.args["newShape"]
        padded = [1] * (len(target) - len(shape)) + shape
        if len(padded) > len(target) or any(n not in (1, m) for n, m in zip(padded, target, strict=True)):
            return "an expanded input must broadcast to the new shape"
    if case.operator == "layer_normalization" and "axes" in operation.options:
        shape = operation.shape("input")
        wanted = [shape[axis] for axis in operation.options["axes"]]
        for name in {"scale", "bias"} & set(operation.options):
            if case.data["inputs"][operation.options[name]["ref"]]["shape"] != wanted:
                return "scale and bias have the sizes of the axes in their order"
    return None


def fault(case: Case, results: dict[str, Array], folder: Path = FOLDER) -> str | None:
    """What is wrong with a case's results; None where they pass."""
    metric, allowed = limit(case, folder)
    for name, tensor in case.data["expected"].items():
        expected, actual = array(tensor), results[name]
        if actual.dtype != expected.dtype or actual.shape != expected.shape:
            return f"{name} is {actual.dtype}{list(actual.shape)}, expected {expected.dtype}{list(expected.shape)}"
        count = FILL_COMPARED if "fill" in tensor else None
        a, e = actual.ravel()[:count], expected.ravel()[:count]
        distance = _atol(a, e) if metric == "ATOL" else _ulps(a, e)
        wrong = ~_equal(a, e) & ~(distance <= allowed)
        if case.suite == BASELINE and e.dtype.kind == "f":
            wide_a, wide_e = a.astype(np.float64), e.astype(np.float64)
            with np.errstate(invalid="ignore"):
                wrong &= ~(np.abs(wide_a - wide_e) <= BASELINE_RELATIVE * np.maximum(1, np.abs(wide_e)))
        if wrong.any():
            at = int(np.argmax(np.where(wrong, distance, -1)))
            return f"{name}[{at}] is {a[at]}, expected {e[at]}: {distance[at]:g} of {allowed:g} {metric}"
    return None


def _equal(a: Array, e: Array) -> Array:
    both_nan = np.isnan(a) & np.isnan(e) if a.dtype.kind == "f" else False
    same: Array = (a == e) | both_nan
    return same


def _atol(a: Array, e: Array) -> Array:
    with np.errstate(invalid="ignore"):
        difference: Array = np.abs(a.astype(np.float64) - e.astype(np.float64))
    return difference


def _ulps(a: Array, e: Array) -> Array:
    if a.dtype == np.float32:
        return np.abs(_ordered(a) - _ordered(e)).astype(np.float64)
    if a.dtype == np.float16:
        apart = np.abs(a.view(np.uint16).astype(np.int64) - e.view(np.uint16).astype(np.int64))
        return np.where((a == 0) & (e == 0), 0, apart).astype(np.float64)
    return np.array([abs(int(m) - int(n)) for m, n in zip(a, e, strict=True)], np.float64)


def _ordered(x: Array) -> Array:
    """Bits of the magnitude as an integer with the number's sign."""
    bits = x.view(np.uint32).astype(np.int64)
    return np.where(bits >> 31 != 0, -(bits & 0x7FFFFFFF), bits)
