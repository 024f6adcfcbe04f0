"""Core ML programs: made here as anywhere, their shapes and (where MIL computes constants) their values checked.

Running one needs macOS.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from tests.webnn.calls import Call, Given, call, data_types
from tests.webnn.running import assert_close, context, graph_of, results_of

from executorch_ggml import webnn
from executorch_ggml.webnn.operators import OPERATORS

ct = pytest.importorskip("coremltools")

from executorch_ggml.webnn.converters.coreml import convert, to_program  # noqa: E402 - which needs coremltools


def constant(made: Call) -> Call:
    """The call with all operands constant, so that MIL computes what it can."""

    def given(operand: Any) -> Any:
        if isinstance(operand, list):
            return [given(item) for item in operand]
        return Given(operand.data_type, operand.contents, constant=True)

    return Call(made.operator, {name: given(operand) for name, operand in made.operands.items()}, made.options)


# Faults of coremltools where it computes constants.
KNOWN = {"cumulative_sum: coremltools: TypeError: Cannot construct a dtype from an array"}


def outputs_of(info: webnn.GraphInfo) -> Any:
    """The program's outputs; None where Core ML lacks something, which the error must say."""
    try:
        return to_program(info).functions["main"].outputs
    except webnn.OperationError as error:
        if "Core ML has" not in str(error) and str(error) not in KNOWN:
            raise
        return None


@pytest.mark.parametrize("operator", OPERATORS)
def test_programs_have_the_graph_s_shapes_and_values(operator: str) -> None:
    for data_type in data_types(operator):
        for seed in range(2):
            made = call(operator, data_type, seed)
            for version in (made, constant(made)):
                info, inputs = graph_of(version, context("torch"))
                outputs = outputs_of(info)
                if outputs is None:
                    continue
                shapes = [operand.shape or (1,) for operand in info.output_operands().values()]
                assert [tuple(output.shape) for output in outputs] == shapes, (data_type, seed)
                if inputs or operator == "pow":
                    continue
                expected = results_of(info, {}, "torch")
                for output, array in zip(outputs, expected.values(), strict=True):
                    if output.val is not None:
                        actual = np.asarray(output.val, array.dtype).reshape(array.shape)
                        assert_close(actual, array, "float16" if "float16" in str(info) else "float32")


def test_models_are_made_anywhere(tmp_path: Any) -> None:
    b = context("torch").create_graph_builder()
    x = b.input("the image", [1, 3, 8, 8])
    y = b.relu(b.conv2d(x, b.constant(np.ones((4, 3, 3, 3), np.float32))))
    model = convert(b.graph_info({"y": y, "total": b.reduce_sum(y)}))
    spec = model.get_spec()
    assert [output.name for output in spec.description.output] == ["y", "total"]
    assert spec.description.input[0].name.startswith("in_the_image_")


@pytest.mark.skipif(sys.platform == "darwin", reason="Core ML is there")
def test_running_needs_macos() -> None:
    with pytest.raises(webnn.BackendUnavailable, match="Core ML runs on macOS"):
        webnn.ML().create_context(backend="coreml")


def test_what_core_ml_lacks_is_refused_at_once() -> None:
    b = context("torch").create_graph_builder()
    x = b.input("x", [1, 1, 6, 6])
    pooled = b.max_pool2d(x, window_dimensions=[2, 2], dilations=[2, 2])
    info = b.graph_info({"y": pooled, "z": b.cast(x, "int64")})
    with pytest.raises(webnn.OperationError, match=r"dilated pooling.*no int64"):
        to_program(info)
