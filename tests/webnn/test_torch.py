"""The torch reference: shapes as the operator table says, values as numpy and torch's own modules say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tests.webnn.calls import Array, Call, Dice, Given, call, data_types
from tests.webnn.running import context, graph_of, results_of

from executorch_ggml.webnn.data_types import integer_range, numpy_type
from executorch_ggml.webnn.decompositions import DECOMPOSITIONS, decompose
from executorch_ggml.webnn.operators import OPERATORS

UNSIGNED = ["uint8", "uint32", "uint64"]
INTEGERS = [*UNSIGNED, "int8", "int32", "int64"]


def computed(operator: str, operands: dict[str, tuple[str, Any]], **options: Any) -> Array:
    given = {name: Given(kind, np.asarray(value, numpy_type(kind))) for name, (kind, value) in operands.items()}
    info, inputs = graph_of(Call(operator, dict(given), options), context("torch"))
    return results_of(info, inputs, "torch")["y0"]


@pytest.mark.parametrize("operator", OPERATORS)
def test_results_are_as_inferred(operator: str) -> None:
    for data_type in data_types(operator):
        for seed in range(6):
            info, inputs = graph_of(call(operator, data_type, seed), context("torch"))
            results = results_of(info, inputs, "torch")
            for name, operand in info.output_operands().items():
                assert results[name].shape == operand.shape, (data_type, seed)
                assert results[name].dtype == numpy_type(operand.data_type), (data_type, seed)


@pytest.mark.parametrize("data_type", INTEGERS)
@pytest.mark.parametrize(
    ("operator", "function"),
    [
        ("add", np.add),
        ("sub", np.subtract),
        ("mul", np.multiply),
        ("max", np.maximum),
        ("min", np.minimum),
        ("greater", np.greater),
        ("lesser_or_equal", np.less_equal),
        ("equal", np.equal),
    ],
)
def test_integers_wrap_and_compare(operator: str, function: Callable[..., Array], data_type: str) -> None:
    dice = Dice(1)
    a, b = dice.array(data_type, [200]), dice.array(data_type, [200])
    with np.errstate(over="ignore"):
        expected = function(a, b)
    actual = computed(operator, {"a": (data_type, a), "b": (data_type, b)})
    np.testing.assert_array_equal(actual, expected.astype(actual.dtype))


@pytest.mark.parametrize("data_type", INTEGERS)
def test_integer_quotients_are_truncated(data_type: str) -> None:
    dice = Dice(2)
    low, high = integer_range(data_type)
    a = np.concatenate([dice.array(data_type, [300]), np.array([high, high, high - 1, low], numpy_type(data_type))])
    b = np.concatenate([dice.array(data_type, [300]), np.array([high, 3, high, 7], numpy_type(data_type))])
    b[b == 0] = 1
    keep = ~((a == low) & (b.astype(object) == -1))
    a, b = a[keep], b[keep]
    expected = [abs(int(m)) // abs(int(n)) * (-1 if (m < 0) != (n < 0) else 1) for m, n in zip(a, b, strict=True)]
    np.testing.assert_array_equal(computed("div", {"a": (data_type, a), "b": (data_type, b)}), expected)


@pytest.mark.parametrize("to_type", INTEGERS)
@pytest.mark.parametrize("from_type", INTEGERS)
def test_integer_casts_keep_the_low_bits(from_type: str, to_type: str) -> None:
    x = Dice(3).array(from_type, [100])
    actual = computed("cast", {"input": (from_type, x)}, data_type=to_type)
    np.testing.assert_array_equal(actual, x.astype(to_type))


@pytest.mark.parametrize("to_type", [*INTEGERS, "int4", "uint4"])
def test_floats_beyond_an_integer_type_become_its_end(to_type: str) -> None:
    low, high = integer_range(to_type)
    actual = computed("cast", {"input": ("float32", [-1e30, 1e30, np.inf, -np.inf, np.nan, 1.9])}, data_type=to_type)
    assert [int(n) for n in actual] == [low, high, high, low, 0, 1]


def test_uint64_as_float_is_the_nearest() -> None:
    x = np.array([2**64 - 1, 2**63, 2**63 + 1, 2**63 + 2**39, 2**63 + 2**39 + 1, 2**40 + 1, 5], np.uint64)
    actual = computed("cast", {"input": ("uint64", x)}, data_type="float32")
    np.testing.assert_array_equal(actual, x.astype(np.float32))


def test_sign_of_nan_is_zero() -> None:
    np.testing.assert_array_equal(computed("sign", {"input": ("float32", [np.nan, -0.0, 3, -2])}), [0, 0, 1, -1])


def test_nearest_pixel_of_a_half_is_the_lower() -> None:
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 1, 4)
    actual = computed("resample2d", {"input": ("float32", x)}, sizes=[1, 2])
    np.testing.assert_array_equal(actual.ravel(), [0, 2])


def test_linear_resampling_of_the_specification() -> None:
    rows = [[0, 1, 2, 3], [0, 1, 2, 3], [12, 13, 14, 15], [12, 13, 14, 15]]
    actual = computed("resample2d", {"input": ("float32", np.array([[rows]]))}, mode="linear", scales=[2.0, 2.0])
    first = [0, 0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3]
    starts = [0, 0, 0, 3, 9, 12, 12, 12]
    np.testing.assert_allclose(actual[0, 0], [[start + n for n in first] for start in starts])


def _recurrent(name: str, seed: int, **options: Any) -> tuple[Call, dict[str, Array]]:
    """A network with all weights, in torch's own order of gates."""
    dice, steps, batch, features, hidden = Dice(seed), 3, 2, 4, 5
    gates = 3 if name == "gru" else 4
    dirs = 2 if options["direction"] == "both" else 1
    shapes = {
        "input": [steps, batch, features],
        "weight": [dirs, gates * hidden, features],
        "recurrent_weight": [dirs, gates * hidden, hidden],
        "bias": [dirs, gates * hidden],
        "recurrent_bias": [dirs, gates * hidden],
        "initial_hidden_state": [dirs, batch, hidden],
    }
    if name == "lstm":
        shapes["initial_cell_state"] = [dirs, batch, hidden]
    operands = {key: dice.given("float32", shape, -1, 1) for key, shape in shapes.items()}
    contents = {key: given.contents for key, given in operands.items()}
    return Call(name, dict(operands), {"steps": steps, "hidden_size": hidden, **options}), contents


@pytest.mark.parametrize("direction", ["forward", "backward", "both"])
@pytest.mark.parametrize("name", ["gru", "lstm"])
def test_recurrent_networks_are_those_of_torch(name: str, direction: str) -> None:
    layout = "rzn" if name == "gru" else "ifgo"
    made, arrays = _recurrent(name, 7, direction=direction, layout=layout, return_sequence=True)
    info, inputs = graph_of(made, context("torch"))
    results = list(results_of(info, inputs, "torch").values())
    module = getattr(torch.nn, name.upper())(4, 5, bidirectional=direction == "both")
    parts = {"weight_ih": "weight", "weight_hh": "recurrent_weight", "bias_ih": "bias", "bias_hh": "recurrent_bias"}
    for own, ours in parts.items():
        for d, suffix in enumerate(["_l0", "_l0_reverse"][: len(arrays[ours])]):
            getattr(module, own + suffix).data = torch.from_numpy(arrays[ours][d])
    x = torch.from_numpy(arrays["input"])
    states = [torch.from_numpy(arrays[key]) for key in ("initial_hidden_state", "initial_cell_state") if key in arrays]
    backward = direction == "backward"
    sequence, last = module(x.flip(0) if backward else x, states[0] if name == "gru" else tuple(states))
    sequence = sequence.flip(0) if backward else sequence
    sequence = sequence.reshape(3, 2, -1, 5).permute(0, 2, 1, 3)
    expected = [last, sequence] if name == "gru" else [*last, sequence]
    for actual, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(actual, wanted.detach().numpy(), atol=1e-6)


@pytest.mark.parametrize("operator", DECOMPOSITIONS)
def test_decompositions_are_valid_graphs(operator: str) -> None:
    for seed in range(8):
        info, _ = graph_of(call(operator, "float16", seed), context("torch"))
        made = decompose(info)
        made.verify()
        assert made.input_operands() == info.input_operands()
        assert made.output_operands() == info.output_operands()


def test_export_takes_the_module() -> None:
    """So that a graph can go to .pte as well."""
    for name in ("conv2d", "layer_normalization", "gru", "resample2d", "average_pool2d", "gather_nd", "softmax"):
        info, inputs = graph_of(call(name, "float32", 1), context("torch"))
        module = context("torch").convert(info, "torch").eval()
        args = tuple(torch.from_numpy(inputs[key].copy()) for key in info.inputs)
        program = torch.export.export(module, args)
        for actual, wanted in zip(program.module()(*args), module(*args), strict=True):
            torch.testing.assert_close(actual, wanted)
