"""What is no argument at all: a TypeError that names the call, whatever it is."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.webnn.calls import Given, call, data_types
from tests.webnn.running import context

from executorch_ggml import webnn
from executorch_ggml.webnn.operators import OPERATORS

HUGE = 10**400
JUNK = [
    None,
    HUGE,
    -(10**5000),
    Fraction(HUGE),
    math.nan,
    "text",
    b"bytes",
    object(),
    {},
    [],
    [None],
    [[1, 2], [3]],
    [HUGE, HUGE],
    np.array(["a"]),
    np.ones((2, 2)),
    np.array(None),
]


@pytest.mark.parametrize("operator", OPERATORS)
def test_operators(operator: str) -> None:
    """Each argument in turn."""
    made = call(operator, data_types(operator)[0], 1)

    def leaf(builder: webnn.MLGraphBuilder, name: str, given: Any) -> Any:
        if isinstance(given, list):
            return [leaf(builder, f"{name}{i}", item) for i, item in enumerate(given)]
        assert isinstance(given, Given)
        return builder.input(name, list(given.contents.shape), given.data_type)

    for argument in [*made.operands, *OPERATORS[operator].option_by_name, "label"]:
        for junk in JUNK:
            builder = context("torch").create_graph_builder()
            operands = {name: leaf(builder, name, given) for name, given in made.operands.items()}
            with contextlib.suppress(TypeError):  # some of it is an argument somewhere
                getattr(builder, operator)(**{**operands, **made.options, argument: junk})


def _graph() -> webnn.MLGraph:
    builder = context("torch").create_graph_builder()
    return builder.build({"y": builder.relu(builder.input("x", [2]))})


X = np.ones(2, np.float32)
CALLS: dict[str, Callable[[webnn.MLContext, Any], Any]] = {
    "compute graph": lambda on, junk: on.compute(junk, {}),
    "compute inputs": lambda on, junk: on.compute(_graph(), junk),
    "compute input": lambda on, junk: on.compute(_graph(), {"x": junk}),
    "compute outputs": lambda on, junk: on.compute(_graph(), {"x": X}, [junk]),  # type: ignore[arg-type] # tested
    "compute output": lambda on, junk: on.compute(_graph(), {"x": X}, {"y": junk}),
    "dispatch graph": lambda on, junk: on.dispatch(junk, {}, {}),
    "dispatch inputs": lambda on, junk: on.dispatch(_graph(), junk, {}),
    "dispatch input": lambda on, junk: on.dispatch(_graph(), {"x": junk}, {}),
    "dispatch outputs": lambda on, junk: on.dispatch(_graph(), {"x": on.create_tensor([2])}, junk),
    "prepare": lambda on, junk: on.prepare(junk),
    "read_tensor": lambda on, junk: on.read_tensor(junk),
    "read_tensor output": lambda on, junk: on.read_tensor(on.create_tensor([2], readable=True), [junk]),  # type: ignore[arg-type] # tested
    "write_tensor": lambda on, junk: on.write_tensor(junk, X),
    "write_tensor data": lambda on, junk: on.write_tensor(on.create_tensor([3], writable=True), junk),
    "create_tensor data_type": lambda on, junk: on.create_tensor([2], junk),
    "create_tensor readable": lambda on, junk: on.create_tensor([2], readable=junk),
    "create_constant_tensor": lambda on, junk: on.create_constant_tensor(junk, [3], "int32"),
    "input name": lambda on, junk: on.create_graph_builder().input([junk], [2]),  # type: ignore[arg-type] # tested
    "input data_type": lambda on, junk: on.create_graph_builder().input("x", [2], junk),
    "constant shape": lambda on, junk: on.create_graph_builder().constant(bytes(7), [junk], "int8"),
    "constant data_type": lambda on, junk: on.create_graph_builder().constant(X, [2], [junk]),  # type: ignore[arg-type] # tested
    "build": lambda on, junk: on.create_graph_builder().build(junk),
    "build output": lambda on, junk: on.create_graph_builder().build({"y": junk}),
    "create_context": lambda on, junk: webnn.ML().create_context(junk),
    "create_context accelerated": lambda on, junk: webnn.ML().create_context(accelerated=[junk]),  # type: ignore[arg-type] # tested
    "create_context backend": lambda on, junk: webnn.ML().create_context(backend=[junk]),  # type: ignore[arg-type] # tested
}


@pytest.mark.parametrize("name", CALLS)
def test_contexts_and_builders(name: str) -> None:
    for junk in JUNK:
        with pytest.raises(TypeError):
            CALLS[name](context("torch"), junk)


@pytest.mark.parametrize("value", [[[1, 2], [3]], [None, 1], {"a": 1}, [object()], [1, "a"]])
def test_constants(value: Any) -> None:
    builder = context("torch").create_graph_builder()
    with pytest.raises(TypeError, match="constant: "):
        builder.constant(value)
    with pytest.raises(TypeError, match=r"constant: value is .*, expected "):
        builder.constant(value, [2], "float32")


@pytest.mark.parametrize("value", [[300, 1], [1.5, 1], [-1, 2], ["1", "2"], None])
def test_numbers_that_the_type_lacks(value: Any) -> None:
    tensor = context("torch").create_tensor([2], "uint8", writable=True)
    with pytest.raises(TypeError, match=r"write_tensor: data is .*, expected an array or numbers of uint8\[2\]"):
        context("torch").write_tensor(tensor, value)


def test_limits_without_end() -> None:
    """A number that no float holds is an infinity, as the specification casts numbers."""
    builder = context("torch").create_graph_builder()
    x = builder.input("x", [2])
    with pytest.raises(TypeError, match=r"linear: alpha is 1000.*, expected a finite number"):
        builder.linear(x, alpha=HUGE)
    graph = builder.build({"y": builder.clamp(x, min_value=-HUGE, max_value=HUGE)})
    assert context("torch").compute(graph, {"x": X})["y"].tolist() == [1, 1]
    assert builder is not None
    assert context("torch").create_graph_builder().constant(HUGE, [1], "float32").shape == [1]
