"""The builder: what it takes, what it refuses and with which words, and the graph that it makes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from timeit import timeit
from typing import Any

import numpy as np
import pytest
from tests.webnn.running import context

from executorch_ggml.webnn import InvalidStateError, MLGraphBuilder, MLOperand

Make = Callable[[MLGraphBuilder], Any]


@pytest.fixture
def b() -> MLGraphBuilder:
    return context("torch").create_graph_builder()


def x(b: MLGraphBuilder, *shape: int, dtype: str = "float32") -> MLOperand:
    return b.input(f"i{len(b._operands)}", list(shape), dtype)


def loose(value: Any) -> Any:
    """A value that no type checker would let through."""
    return value


SHAPES: dict[str, tuple[Make, list[int]]] = {
    "conv2d with dilation, stride and padding": (
        lambda b: b.conv2d(
            x(b, 1, 4, 9, 8), x(b, 6, 2, 3, 2), groups=2, padding=[1, 0, 2, 1], strides=[2, 3], dilations=[2, 1]
        ),
        [1, 6, 3, 4],
    ),
    "conv2d nhwc": (
        lambda b: b.conv2d(x(b, 1, 5, 5, 3), x(b, 3, 3, 3, 8), input_layout="nhwc", filter_layout="hwio"),
        [1, 3, 3, 8],
    ),
    "conv_transpose2d with output_padding": (
        lambda b: b.conv_transpose2d(x(b, 1, 1, 3, 3), x(b, 1, 2, 3, 3), strides=[3, 2], output_padding=[1, 1]),
        [1, 2, 10, 8],
    ),
    "conv_transpose2d with output_sizes": (
        lambda b: b.conv_transpose2d(x(b, 1, 1, 3, 3), x(b, 1, 2, 3, 3), strides=[3, 2], output_sizes=[10, 8]),
        [1, 2, 10, 8],
    ),
    "conv_transpose2d with groups": (
        lambda b: b.conv_transpose2d(x(b, 1, 2, 2, 2), x(b, 2, 3, 2, 2), groups=2),
        [1, 6, 3, 3],
    ),
    "pool rounding down": (
        lambda b: b.max_pool2d(x(b, 1, 1, 5, 5), window_dimensions=[2, 2], strides=[2, 2]),
        [1, 1, 2, 2],
    ),
    "pool rounding up": (
        lambda b: b.max_pool2d(
            x(b, 1, 1, 5, 5), window_dimensions=[2, 2], strides=[2, 2], output_shape_rounding="ceil"
        ),
        [1, 1, 3, 3],
    ),
    "pool of the whole image": (lambda b: b.average_pool2d(x(b, 2, 3, 5, 7)), [2, 3, 1, 1]),
    "reduce without axes": (lambda b: b.reduce_sum(x(b, 2, 3)), []),
    "reduce over no axes": (lambda b: b.reduce_sum(x(b, 2, 3), axes=[]), [2, 3]),
    "reduce keeping dimensions": (lambda b: b.reduce_sum(x(b, 2, 3, 4), axes=[2, 0], keep_dimensions=True), [1, 3, 1]),
    "gather of a scalar": (lambda b: b.gather(x(b, 2, 3, 4), x(b, dtype="int32"), axis=1), [2, 4]),
    "gather_elements": (lambda b: b.gather_elements(x(b, 2, 3), x(b, 7, 3, dtype="int64")), [7, 3]),
    "gather_nd": (lambda b: b.gather_nd(x(b, 2, 3, 4), x(b, 5, 6, 2, dtype="uint32")), [5, 6, 4]),
    "matmul": (lambda b: b.matmul(x(b, 5, 1, 2, 3), x(b, 4, 3, 6)), [5, 4, 2, 6]),
    "slice rounding up": (lambda b: b.slice(x(b, 7), [1], [5], strides=[2]), [3]),
    "resample2d by scales rounds down": (lambda b: b.resample2d(x(b, 1, 1, 3, 3), scales=[1.5, 0.5]), [1, 1, 4, 1]),
    "transpose": (lambda b: b.transpose(x(b, 2, 3, 4)), [4, 3, 2]),
    "tile": (lambda b: b.tile(x(b, 2, 3), [2, 1]), [4, 3]),
    "pad": (lambda b: b.pad(x(b, 2, 3), [1, 0], [2, 3]), [5, 6]),
    "arg_max": (lambda b: b.arg_max(x(b, 2, 3), 0), [3]),
    "lstm sequence": (
        lambda b: b.lstm(x(b, 5, 2, 3), x(b, 2, 16, 3), x(b, 2, 16, 4), 5, 4, direction="both", return_sequence=True)[
            2
        ],
        [5, 2, 2, 4],
    ),
    "split into equal parts": (lambda b: b.split(x(b, 6, 2), 3)[1], [2, 2]),
    "dequantize by blocks": (
        lambda b: b.dequantize_linear(x(b, 4, 6, dtype="int8"), x(b, 2, 3), x(b, 2, 3, dtype="int8")),
        [4, 6],
    ),
}


@pytest.mark.parametrize("case", SHAPES)
def test_shapes(b: MLGraphBuilder, case: str) -> None:
    make, shape = SHAPES[case]
    assert make(b).shape == shape


def test_result_types(b: MLGraphBuilder) -> None:
    assert b.equal(x(b, 2), x(b, 2)).data_type == "uint8"
    assert b.arg_min(x(b, 2), 0, output_data_type="int64").data_type == "int64"
    assert b.cast(x(b, 2), "uint32").data_type == "uint32"
    quantized = b.quantize_linear(x(b, 2), x(b, 1), x(b, 1, dtype="uint4"))
    assert quantized.data_type == "uint4"
    assert b.dequantize_linear(quantized, x(b, 1, dtype="float16"), x(b, 1, dtype="uint4")).data_type == "float16"


# Each with what the message must have: the operator, the argument, the value.
REFUSED: dict[str, tuple[Make, str]] = {
    "data type": (lambda b: b.relu(x(b, 2, dtype="uint8")), r"relu: input is uint8\[2\], expected data type float32"),
    "types that differ": (lambda b: b.add(x(b, 2), x(b, 2, dtype="float16")), r"add: b is float16\[2\], .*float32"),
    "rank": (lambda b: b.conv2d(x(b, 2, 2), x(b, 1, 1, 1, 1)), r"conv2d: input is float32\[2, 2\], expected rank 4"),
    "broadcast": (lambda b: b.add(x(b, 2, 3), x(b, 2)), r"add: b is float32\[2\], .*\[2, 3\]"),
    "negative axis": (lambda b: b.softmax(x(b, 2), axis=-1), r"softmax: axis is -1, expected an integer from 0"),
    "axis beyond the rank": (lambda b: b.softmax(x(b, 2), axis=1), r"softmax: axis is 1, expected below the rank, 1"),
    "axis as float": (lambda b: b.softmax(x(b, 2), axis=loose(0.0)), r"softmax: axis is 0.0"),
    "axis as bool": (lambda b: b.softmax(x(b, 2), axis=True), r"softmax: axis is True"),
    "axes twice": (lambda b: b.reduce_max(x(b, 2, 2), axes=[1, 1]), r"reduce_max: axes is \[1, 1\]"),
    "strides of 0": (
        lambda b: b.conv2d(x(b, 1, 1, 3, 3), x(b, 1, 1, 1, 1), strides=[0, 1]),
        r"conv2d: strides is \[0, 1\]",
    ),
    "padding of 2": (
        lambda b: b.conv2d(x(b, 1, 1, 3, 3), x(b, 1, 1, 1, 1), padding=[1, 1]),
        r"conv2d: padding is \[1, 1\]",
    ),
    "groups": (lambda b: b.conv2d(x(b, 1, 4, 3, 3), x(b, 3, 2, 1, 1), groups=2), r"conv2d: groups is 2"),
    "channels": (lambda b: b.conv2d(x(b, 1, 4, 3, 3), x(b, 2, 3, 1, 1)), r"conv2d: filter is float32\[2, 3, 1, 1\]"),
    "window too large": (
        lambda b: b.conv2d(x(b, 1, 1, 3, 3), x(b, 1, 1, 4, 1)),
        r"conv2d: filter is .*at most 3 pixels",
    ),
    "bias": (
        lambda b: b.conv2d(x(b, 1, 1, 3, 3), x(b, 2, 1, 1, 1), bias=x(b, 1)),
        r"conv2d: bias is float32\[1\].*\[2\]",
    ),
    "layout": (
        lambda b: b.conv2d(x(b, 1, 1, 3, 3), x(b, 1, 1, 1, 1), input_layout=loose("chwn")),
        r"input_layout is 'chwn'",
    ),
    "output_padding": (
        lambda b: b.conv_transpose2d(x(b, 1, 1, 3, 3), x(b, 1, 1, 1, 1), output_padding=[1, 0]),
        r"conv_transpose2d: output_padding is \[1, 0\], expected less than the strides",
    ),
    "output_sizes": (
        lambda b: b.conv_transpose2d(x(b, 1, 1, 3, 3), x(b, 1, 1, 3, 3), strides=[3, 2], output_sizes=[8, 7]),
        r"conv_transpose2d: output_sizes is \[8, 7\], expected 9 to 11 along h",
    ),
    "pool output_sizes": (
        lambda b: b.max_pool2d(x(b, 1, 1, 5, 5), window_dimensions=[2, 2], strides=[2, 2], output_sizes=[2, 3]),
        r"max_pool2d: output_sizes is \[2, 3\], expected \[2, 2\] or \[3, 3\]",
    ),
    "expand": (lambda b: b.expand(x(b, 2, 3), [3]), r"expand: new_shape is \[3\]"),
    "reshape": (lambda b: b.reshape(x(b, 2, 3), [7]), r"reshape: new_shape is \[7\].*6 elements"),
    "reshape with -1": (lambda b: b.reshape(x(b, 2, 3), [-1]), r"reshape: new_shape is \[-1\]"),
    "slice beyond": (lambda b: b.slice(x(b, 4), [2], [3]), r"slice: sizes is \[3\]"),
    "slice of nothing": (lambda b: b.slice(x(b, 4), [2], [0]), r"slice: sizes is \[0\]"),
    "split": (lambda b: b.split(x(b, 5), 2), r"split: splits is 2, expected a divisor of 5"),
    "split sizes": (lambda b: b.split(x(b, 5), [2, 2]), r"split: splits is \[2, 2\]"),
    "transpose": (lambda b: b.transpose(x(b, 2, 3), permutation=[0, 0]), r"transpose: permutation is \[0, 0\]"),
    "pad reflecting too much": (
        lambda b: b.pad(x(b, 2), [2], [0], mode="reflection"),
        r"pad: beginning_padding is \[2\]",
    ),
    "clamp": (lambda b: b.clamp(x(b, 2), min_value=2, max_value=1), r"clamp: min_value is 2.0, .*1.0"),
    "gather indices": (
        lambda b: b.gather(x(b, 2), x(b, 2)),
        r"gather: indices is float32\[2\], expected data type int32",
    ),
    "concat": (
        lambda b: b.concat([x(b, 2, 3), x(b, 3, 2)], 0),
        r"concat: inputs is \[float32\[2, 3\], float32\[3, 2\]\]",
    ),
    "concat of nothing": (lambda b: b.concat([], 0), r"concat: inputs is \[\]"),
    "lstm weight": (
        lambda b: b.lstm(x(b, 5, 2, 3), x(b, 1, 12, 3), x(b, 1, 16, 4), 5, 4),
        r"lstm: weight is float32\[1, 12, 3\], expected shape \[1, 16, 3\]",
    ),
    "gru steps": (lambda b: b.gru(x(b, 5, 2, 3), x(b, 1, 12, 3), x(b, 1, 12, 4), 4, 4), r"gru: steps is 4.*5"),
    "activations": (
        lambda b: b.gru(x(b, 5, 2, 3), x(b, 1, 12, 3), x(b, 1, 12, 4), 5, 4, activations=["tanh"]),
        r"gru: activations is \['tanh'\], expected 2 of",
    ),
    "scale of layer_normalization": (
        lambda b: b.layer_normalization(x(b, 2, 3, 4), scale=x(b, 3, 4), axes=[2, 1]),
        r"layer_normalization: scale is float32\[3, 4\], expected shape \[4, 3\]",
    ),
    "quantized blocks": (
        lambda b: b.dequantize_linear(x(b, 5, dtype="int8"), x(b, 2), x(b, 2, dtype="int8")),
        r"dequantize_linear: scale is float32\[2\]",
    ),
    "alpha": (lambda b: b.elu(x(b, 2), alpha=float("nan")), r"elu: alpha is nan, expected a finite number"),
    "result too large": (lambda b: b.tile(x(b, 2**16), [2**16]), r"tile: the result's shape is \[4294967296\]"),
    "result with too many elements": (lambda b: b.expand(x(b, 1), [2**16, 2**16]), r"expand: the result's shape is"),
    "result with too many dimensions": (lambda b: b.reshape(x(b, 1), [1] * 9), r"reshape: the result's shape is"),
    "no operand": (lambda b: b.relu(loose(np.zeros(2))), r"relu: input is array.*expected an operand"),
    "another builder's": (
        lambda b: b.relu(x(context("torch").create_graph_builder(), 2)),
        r"relu: input is of another builder",
    ),
    "label": (lambda b: b.softmax(x(b, 2), 3, label="head\u202e"), r"softmax 'head\\u202e': axis is 3"),
    "input without name": (lambda b: b.input("", [1]), r"input: name is ''"),
    "input dimension 0": (lambda b: b.input("x", [0]), r"input: shape is \[0\]"),
    "input type": (lambda b: b.input("x", [1], "float64"), r"input: data_type is 'float64'"),
    "input too large": (lambda b: b.input("x", [2**20, 2**20]), r"input: shape is"),
    "constant type": (lambda b: b.constant(np.zeros(2)), r"constant: data_type is 'float64'"),
    "constant shape": (lambda b: b.constant(np.zeros(2, np.float32), [3]), r"constant: value is float32\[2\]"),
    "constant bytes": (lambda b: b.constant(b"123", [1], "float32"), r"constant: value is 3 bytes, expected 4"),
    "constant of 4 bits": (
        lambda b: b.constant(np.array([9], np.int8), [1], "int4"),
        r"constant: value is values from 9 to 9, expected -8 to 7",
    ),
    "nothing to build": (lambda b: b.build({}), r"build: outputs is \{\}"),
    "an input as output": (lambda b: b.build({"y": x(b, 2)}), r"build: output 'y' is an input or constant"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(b: MLGraphBuilder, case: str) -> None:
    make, message = REFUSED[case]
    with pytest.raises(TypeError, match=message):
        make(b)


def test_names_of_inputs_differ(b: MLGraphBuilder) -> None:
    b.input("x", [1])
    with pytest.raises(TypeError, match="name is 'x'"):
        b.input("x", [1])


def test_options_follow_from_the_operands(b: MLGraphBuilder) -> None:
    y = b.reduce_sum(b.average_pool2d(x(b, 1, 2, 5, 6)))
    info = b.graph_info({"y": y})
    assert info.operations[0].options["window_dimensions"] == (5, 6)
    assert info.operations[1].options["axes"] == (0, 1, 2, 3)


def test_numbers_are_cast_to_the_operand_s_type(b: MLGraphBuilder) -> None:
    half = b.elu(x(b, 2, dtype="float16"), alpha=0.1)
    large = b.clamp(x(b, 2, dtype="uint64"), min_value=2**64 - 1)
    whole = b.clamp(x(b, 2, dtype="int8"), min_value=-1.5, max_value=2.5)
    info = b.graph_info({"a": half, "b": large, "c": whole})
    options = [operation.options for operation in info.operations]
    assert options[0]["alpha"] == float(np.float16(0.1))
    assert options[1] == {"min_value": 2**64 - 1, "max_value": 2**64 - 1}
    assert options[2] == {"min_value": -2, "max_value": 2}


def test_constants(b: MLGraphBuilder) -> None:
    array = np.arange(3, dtype=np.float32)
    operands = [
        b.constant(array),
        b.constant([1.5, 2.5]),
        b.constant(7),
        b.constant("int8", loose(300)),
        b.constant(2.5, data_type="float16"),
        b.constant(b"\x21\xf3", [2, 2], "int4"),
        b.constant(np.array([1, 2, 3], np.uint8), [3], "uint4"),
        b.constant(np.float32(2)),
    ]
    array[:] = 9  # the constant is a copy
    constants = list(b._constants.values())
    assert [operand.data_type for operand in operands] == [
        "float32", "float32", "int32", "int8", "float16", "int4", "uint4", "float32",
    ]  # fmt: skip
    assert [constant.tolist() for constant in constants] == [
        [0, 1, 2], [1.5, 2.5], 7, 127, 2.5, [[1, 2], [3, -1]], [1, 2, 3], 2,
    ]  # fmt: skip


def test_a_graph_has_what_its_outputs_need(b: MLGraphBuilder) -> None:
    used, unused = b.input("used", [2]), b.input("unused", [2])
    b.add(unused, b.constant([1.0, 2.0]))
    info = b.graph_info({"y": b.relu(used)})
    assert list(info.inputs) == ["used"]
    assert [operation.name for operation in info.operations] == ["relu"]
    assert not info.constants
    info.verify()


def test_a_builder_builds_once(b: MLGraphBuilder) -> None:
    b.build({"y": b.relu(x(b, 2))})
    with pytest.raises(InvalidStateError):
        b.input("more", [1])


def test_building_takes_linear_time() -> None:
    """Eight times the operations take about eight times as long, not 64 times; the least of several."""

    def build(operations: int) -> None:
        b = context("torch").create_graph_builder()
        y = x(b, 4, 4)
        one = b.constant(np.ones((4, 4), np.float32))
        for _ in range(operations):
            y = b.add(y, one)
        assert len(b.graph_info({"y": y}).operations) == operations

    few, many = zip(*([timeit(partial(build, n), number=1) for n in (1_000, 8_000)] for _ in range(5)), strict=True)
    assert min(many) < 16 * min(few)
