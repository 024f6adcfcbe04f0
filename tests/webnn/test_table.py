"""The operator table, and what is generated from it."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest

from executorch_ggml.webnn import MLGraphBuilder, generate
from executorch_ggml.webnn.operators import OPERATORS
from executorch_ggml.webnn.operators.spec import snake_case

OPERATORS_OF_THE_SPECIFICATION = [
    "argMin",
    "argMax",
    "batchNormalization",
    "cast",
    "clamp",
    "concat",
    "conv2d",
    "convTranspose2d",
    "cumulativeSum",
    "add",
    "sub",
    "mul",
    "div",
    "max",
    "min",
    "pow",
    "equal",
    "notEqual",
    "greater",
    "greaterOrEqual",
    "lesser",
    "lesserOrEqual",
    "logicalNot",
    "logicalAnd",
    "logicalOr",
    "logicalXor",
    "isNaN",
    "isInfinite",
    "abs",
    "ceil",
    "cos",
    "erf",
    "exp",
    "floor",
    "identity",
    "log",
    "neg",
    "reciprocal",
    "roundEven",
    "sin",
    "sign",
    "sqrt",
    "tan",
    "dequantizeLinear",
    "quantizeLinear",
    "elu",
    "expand",
    "gather",
    "gatherElements",
    "gatherND",
    "gelu",
    "gemm",
    "gru",
    "gruCell",
    "hardSigmoid",
    "hardSwish",
    "instanceNormalization",
    "layerNormalization",
    "leakyRelu",
    "linear",
    "lstm",
    "lstmCell",
    "matmul",
    "pad",
    "averagePool2d",
    "l2Pool2d",
    "maxPool2d",
    "prelu",
    "reduceL1",
    "reduceL2",
    "reduceLogSum",
    "reduceLogSumExp",
    "reduceMax",
    "reduceMean",
    "reduceMin",
    "reduceProduct",
    "reduceSum",
    "reduceSumSquare",
    "relu",
    "resample2d",
    "reshape",
    "reverse",
    "scatterElements",
    "scatterND",
    "sigmoid",
    "slice",
    "softmax",
    "softplus",
    "softsign",
    "split",
    "tanh",
    "tile",
    "transpose",
    "triangular",
    "where",
]


def test_every_operator_has_a_row() -> None:
    assert len(OPERATORS_OF_THE_SPECIFICATION) == 95
    assert sorted(spec.spec_name for spec in OPERATORS.values()) == sorted(OPERATORS_OF_THE_SPECIFICATION)


def test_names_are_in_snake_case() -> None:
    assert OPERATORS["is_nan"].spec_name == "isNaN"
    assert {"gather_nd", "reduce_log_sum_exp", "average_pool2d", "conv_transpose2d", "l2_pool2d"} <= set(OPERATORS)
    assert all(name == snake_case(spec.spec_name) for name, spec in OPERATORS.items())


@pytest.mark.parametrize("name", OPERATORS)
def test_methods_have_the_table_s_parameters(name: str) -> None:
    spec, method = OPERATORS[name], getattr(MLGraphBuilder, name)
    parameters = inspect.signature(method).parameters
    assert [p for p in parameters if p not in ("self", "label")] == sorted(
        (p.name for p in spec.parameters), key=list(parameters).index
    )
    assert all(p.kind is not p.VAR_KEYWORD for p in parameters.values())
    assert method.__doc__


def test_methods_are_up_to_date() -> None:
    assert generate.formatted(generate.methods()) == generate.METHODS.read_text()


def test_limits_are_json() -> None:
    from tests.webnn.running import context

    limits = json.loads(json.dumps(context("torch").op_support_limits()))
    assert limits["preferredInputLayout"] == "nchw"
    assert limits["conv2d"]["filter"] == {
        "dataTypes": ["float32", "float16"],
        "rankRange": {"min": 4, "max": 4},
    }
    assert limits["gatherND"]["indices"]["dataTypes"] == ["int32", "uint32", "int64"]
    assert limits["dequantizeLinear"]["output"]["dataTypes"] == ["float32", "float16"]
    assert limits["lstm"]["output2"]["rankRange"] == {"min": 4, "max": 4}
    assert set(OPERATORS_OF_THE_SPECIFICATION) < set(limits)


def test_the_cases_of_the_specification_pass() -> None:
    """All executors, where the cases are at hand: see ``make wpt``."""
    from tests.webnn.wpt.__main__ import verdicts
    from tests.webnn.wpt.cases import FOLDER

    if not Path(FOLDER).is_dir():
        pytest.skip(f"no conformance cases in {FOLDER}")
    found = verdicts("torch", FOLDER, ("abs", "gemm", "conv_transpose2d", "reduce_l2", "gru_cell"))
    assert found
    assert all(verdict.passed for verdict in found)
