"""Runs the calls of :mod:`tests.webnn.calls`."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from tests.webnn.calls import Array, Call, Given

from executorch_ggml import webnn


@cache
def context(backend: str) -> webnn.MLContext:
    """A context, one for all tests."""
    return webnn.ML().create_context(backend=backend)


def graph_of(call: Call, made_with: webnn.MLContext) -> tuple[webnn.GraphInfo, dict[str, Array]]:
    """The call as a graph with outputs ``y0``, ``y1``, and the inputs to give it."""
    builder = made_with.create_graph_builder()
    inputs: dict[str, Array] = {}

    def operand(name: str, given: Any) -> Any:
        if isinstance(given, list):
            return [operand(f"{name}{i}", item) for i, item in enumerate(given)]
        assert isinstance(given, Given)
        if given.constant:
            return builder.constant(given.contents, list(given.contents.shape), given.data_type)
        inputs[name] = given.contents
        return builder.input(name, list(given.contents.shape), given.data_type)

    operands = {name: operand(name, given) for name, given in call.operands.items()}
    made = getattr(builder, call.operator)(**operands, **call.options)
    results = made if isinstance(made, list) else [made]
    return builder.graph_info({f"y{i}": result for i, result in enumerate(results)}), inputs


def results_of(info: webnn.GraphInfo, inputs: dict[str, Array], backend: str) -> dict[str, Array]:
    """What a backend computes of a graph."""
    where = context(backend)
    return where.compute(where.prepare(info), {name: inputs[name] for name in info.inputs})


def assert_close(actual: Array, expected: Array, data_type: str, tolerance: float = 2e-5) -> None:
    """Equal integers; floats near to each other in relation to the largest."""
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    if actual.dtype.kind != "f":
        np.testing.assert_array_equal(actual, expected)
        return
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(e)
    np.testing.assert_array_equal(np.where(finite, 0, a), np.where(finite, 0, e))
    scale = max(1.0, float(np.abs(e[finite]).max(initial=0)))
    limit = scale * (tolerance if data_type == "float32" else 2e-3)
    np.testing.assert_allclose(a[finite], e[finite], rtol=0, atol=limit)
