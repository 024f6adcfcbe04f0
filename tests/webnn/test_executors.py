"""Every operator on every executor: random calls, compared with the torch reference."""

from __future__ import annotations

import numpy as np
import pytest
from tests.webnn.calls import call, data_types
from tests.webnn.running import assert_close, context, graph_of, results_of

from executorch_ggml.webnn import BackendUnavailable, OperationError
from executorch_ggml.webnn.operators import OPERATORS
from executorch_ggml.webnn.registry import names

SEEDS = range(3)
OTHERS = [name for name in names("executor") if name != "torch"]
# What an executor may refuse: (operator, data type of the first operand). Everything else must agree.
REFUSED = {
    "onnx": {("div", "uint64"), ("max_pool2d", "int64"), ("max_pool2d", "uint64")},
}
# Powers of integers overflow, and no executor says how.
UNDEFINED = {("pow", data_type) for data_type in data_types("pow") if "int" in data_type}


@pytest.mark.parametrize("executor", OTHERS)
@pytest.mark.parametrize("operator", OPERATORS)
def test_agrees_with_torch(executor: str, operator: str) -> None:
    try:
        context(executor)
    except BackendUnavailable as reason:
        pytest.skip(str(reason))
    for data_type in data_types(operator):
        for seed in SEEDS:
            made = call(operator, data_type, seed)
            info, inputs = graph_of(made, context("torch"))
            expected = results_of(info, inputs, "torch")
            try:
                actual = results_of(info, inputs, executor)
            except OperationError:
                assert (operator, data_type) in REFUSED.get(executor, ())
                continue
            if (operator, data_type) in UNDEFINED:
                continue
            for name, place in info.outputs.items():
                kind = info.operands[place].data_type
                if operator == "resample2d" and kind in ("int8", "uint8"):  # rounding may go either way
                    assert np.abs(actual[name].astype(int) - expected[name].astype(int)).max() <= 1
                    continue
                narrow = "float16" if "float16" in {operand.data_type for operand in info.operands} else kind
                try:
                    assert_close(actual[name], expected[name], narrow)
                except AssertionError as error:
                    raise AssertionError(f"{operator} {data_type} seed {seed}: {made.options}\n{error}") from error
