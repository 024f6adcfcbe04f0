"""What only the ggml converter does: fusing, constants, and telling what it cannot."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.webnn.calls import Dice
from tests.webnn.running import context

from executorch_ggml.frontends.webnn import convert
from executorch_ggml.ir.graph import Graph
from executorch_ggml.webnn import GraphInfo, MLGraphBuilder, MLOperand


def agrees(info: GraphInfo, seed: int = 0) -> Graph:
    """The IR, after ggml has been compared with the reference."""
    dice = Dice(seed)
    inputs = {name: dice.array(item.data_type, list(item.shape)) for name, item in info.input_operands().items()}
    results: list[dict[str, Any]] = []
    for backend in ("torch", "ggml"):
        where = context(backend)
        results.append(where.compute(where.prepare(info), inputs))
    for name, expected in results[0].items():
        np.testing.assert_allclose(results[1][name], expected, rtol=1e-4, atol=1e-4)
    return convert(info)


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


@pytest.fixture
def b() -> MLGraphBuilder:
    return context("torch").create_graph_builder()


def weights(*shape: int, seed: int = 1) -> Any:
    return Dice(seed).array("float32", list(shape), -1, 1)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("activation", ["relu", "hard_swish", "gelu"])
def test_activations_are_fused_into_convolutions(b: MLGraphBuilder, layout: str, activation: str) -> None:
    shape = [1, 3, 6, 5] if layout == "nchw" else [1, 6, 5, 3]
    kind: Any = layout
    filter_ = b.constant(weights(4, 3, 3, 3))
    y = b.conv2d(b.input("x", shape), filter_, bias=b.constant(weights(4)), padding=[1, 1, 1, 1], input_layout=kind)
    made = ops(agrees(b.graph_info({"y": getattr(b, activation)(y)})))
    assert made.count("conv_2d") == 1
    assert not {"relu", "clamp", "hardswish", "gelu_erf"} & set(made)


def test_batch_normalization_is_folded(b: MLGraphBuilder) -> None:
    y = b.conv2d(b.input("x", [1, 3, 6, 5]), b.constant(weights(4, 3, 3, 3)))
    mean, variance = b.constant(weights(4)), b.constant(np.abs(weights(4, seed=2)) + 0.5)
    y = b.relu(b.batch_normalization(y, mean, variance, scale=b.constant(weights(4, seed=3))))
    assert ops(agrees(b.graph_info({"y": y}))).count("conv_2d") == 1


def test_what_else_reads_a_convolution_keeps_it(b: MLGraphBuilder) -> None:
    y = b.conv2d(b.input("x", [1, 3, 6, 5]), b.constant(weights(4, 3, 3, 3)))
    agrees(b.graph_info({"y": b.relu(y), "z": y}))


def test_gemm_takes_its_bias_along(b: MLGraphBuilder) -> None:
    y = b.gemm(b.input("x", [2, 5]), b.constant(weights(5, 4)), c=b.constant(weights(4)))
    made = ops(agrees(b.graph_info({"y": b.relu(y)})))
    assert "mul_mat" not in made
    assert "add" not in made


def test_one_constant_in_two_layouts(b: MLGraphBuilder) -> None:
    filter_ = b.constant(weights(3, 3, 3, 3))
    x = b.input("x", [1, 3, 5, 5])
    y, z = b.conv2d(x, filter_, filter_layout="hwio"), b.conv2d(x, filter_, filter_layout="ohwi")
    agrees(b.graph_info({"y": y, "z": z}))


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("constant", [True, False])
def test_transposed_convolutions_with_all_options(b: MLGraphBuilder, constant: bool, groups: int) -> None:
    x, array = b.input("x", [2, 4, 4, 5]), weights(4, 3, 3, 2)
    filter_ = b.constant(array) if constant else b.input("filter", list(array.shape))
    y = b.conv_transpose2d(
        x, filter_, strides=[2, 3], dilations=[2, 1], padding=[3, 1, 0, 2], output_padding=[1, 2], groups=groups
    )
    agrees(b.graph_info({"y": y}))


def test_constant_indices_are_put_in_range_ahead_of_time(b: MLGraphBuilder) -> None:
    indices = b.constant(np.array([2, -1, -3, 9, -9], np.int32))
    made = ops(agrees(b.graph_info({"y": b.gather(b.input("x", [3, 4]), indices)})))
    assert "binary" not in made


def test_a_graph_of_constants_alone(b: MLGraphBuilder) -> None:
    agrees(b.graph_info({"y": b.add(b.constant([1.0, 2.0]), b.constant(3.0)), "z": b.identity(b.constant([1.0]))}))


def test_outputs_that_are_inputs_or_each_other(b: MLGraphBuilder) -> None:
    x = b.input("x", [2, 3])
    y = b.identity(x)
    agrees(b.graph_info({"a": y, "b": y, "c": b.reshape(x, [3, 2]), "x": b.transpose(x)}))


def test_names_of_operations_are_in_the_ir(b: MLGraphBuilder) -> None:
    info = b.graph_info({"y": b.exp(b.sin(b.input("x", [2]), label="wave"))})
    assert [node.name for node in convert(info).nodes] == ["wave", "exp"]


@pytest.mark.parametrize("batch", [[3], [2, 3], [2, 1, 3]])
def test_attention_is_one_node(b: MLGraphBuilder, batch: list[int]) -> None:
    q, k, v = (b.input(name, [*batch, n, d]) for name, n, d in (("q", 5, 8), ("k", 7, 8), ("v", 7, 4)))
    swap = [*range(len(batch)), len(batch) + 1, len(batch)]
    shares = b.softmax(b.linear(b.matmul(q, b.transpose(k, permutation=swap)), alpha=0.3), axis=len(batch) + 1)
    made = ops(agrees(b.graph_info({"y": b.matmul(shares, v)})))
    assert ("attention" in made) == (len(batch) < 3)  # of more dims the keys are put in another order first
    assert "soft_max_ext" in ops(agrees(b.graph_info({"y": b.matmul(shares, v), "shares": shares})))


def test_linear_layers_take_their_bias_and_activation_along(b: MLGraphBuilder) -> None:
    y = b.add(b.matmul(b.input("x", [2, 3, 5]), b.constant(weights(5, 4))), b.constant(weights(4)))
    made = ops(agrees(b.graph_info({"y": b.relu(y)})))
    assert [op for op in made if op != "reshape"] == ["linear"]


class _Grids:
    """A model between roundings, as converters write it."""

    def __init__(self, b: MLGraphBuilder) -> None:
        self.b = b

    def rounded(self, x: MLOperand, scale: float, zero: int, kind: str = "int8") -> MLOperand:
        """To integers and back."""
        shape = [1] * len(x.shape)
        grid = self.b.constant(np.full(shape, scale, np.float32)), self.b.constant(np.full(shape, zero, kind))
        return self.b.dequantize_linear(self.b.quantize_linear(x, *grid), *grid)

    def weight(self, *shape: int, axis: int, kind: str = "int8") -> MLOperand:
        """Integers around 0, with a scale for each channel."""
        lying = [n if dim == axis else 1 for dim, n in enumerate(shape)]
        random = np.random.default_rng(1)
        values, scales = random.integers(-127, 128, shape), random.uniform(0.001, 0.01, lying)
        constants = values.astype(kind), scales.astype(np.float32), np.zeros(lying, kind)
        return self.b.dequantize_linear(*(self.b.constant(each) for each in constants))


def _one_step_apart(info: GraphInfo, step: float) -> Graph:
    """The IR; few numbers are a step from the reference's, which divides by the scale."""
    inputs = {name: np.asarray(weights(*item.shape)) * 3 for name, item in info.input_operands().items()}
    results = [where.compute(where.prepare(info), inputs) for where in map(context, ("torch", "ggml"))]
    for name, expected in results[0].items():
        steps = np.abs(results[1][name] - expected) / step
        assert steps.max() < 1.01
        assert (steps > 0.5).mean() <= 0.02 + 1 / expected.size
    return convert(info)


@pytest.mark.parametrize("filter_layout", ["oihw", "hwio", "ohwi", "ihwo"])
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_convolutions_between_roundings_are_of_integers(b: MLGraphBuilder, layout: Any, filter_layout: Any) -> None:
    grids, sizes = _Grids(b), {"o": 5, "i": 3, "h": 3, "w": 2}
    shape = [2, 3, 7, 6] if layout == "nchw" else [2, 7, 6, 3]
    filter_ = grids.weight(*(sizes[letter] for letter in filter_layout), axis=filter_layout.index("o"))
    bias_scale = b.constant(np.full([5], 0.001, np.float32))
    bias = b.dequantize_linear(
        b.constant(np.array([-300, -200, -100, 0, 100], np.int32)), bias_scale, b.constant(np.zeros(5, np.int32))
    )
    x = grids.rounded(b.input("x", shape), 0.02, 5)
    layouts = {"input_layout": layout, "filter_layout": filter_layout}
    y = b.relu(b.conv2d(x, filter_, bias=bias, padding=[1, 1, 0, 0], **layouts))
    y = b.average_pool2d(grids.rounded(y, 0.05, -3), window_dimensions=[3, 3], layout=layout)
    graph = _one_step_apart(b.graph_info({"y": grids.rounded(y, 0.05, -3)}), 0.05)
    assert {"quantized_conv_2d", "quantized_pool_2d"} <= set(ops(graph))
    assert not {"conv_2d", "pool_2d", "relu", "clamp"} & set(ops(graph))


@pytest.mark.parametrize("transpose", [False, True])
def test_products_between_roundings_are_of_integers(b: MLGraphBuilder, transpose: bool) -> None:
    grids = _Grids(b)
    weight = grids.weight(*((4, 9) if transpose else (9, 4)), axis=0 if transpose else 1)
    x = grids.rounded(b.input("x", [3, 9]), 0.02, 130, "uint8")
    y = b.gemm(x, weight, c=b.constant(weights(4)), b_transpose=transpose)
    graph = _one_step_apart(b.graph_info({"y": grids.rounded(y, 0.03, 7, "uint8")}), 0.03)
    assert [op for op in ops(graph) if op != "reshape"] == ["quantize", "quantized_linear", "dequantize"]


def test_a_scale_that_is_no_constant_stays_floats(b: MLGraphBuilder) -> None:
    scale = b.input("scale", [1, 1])
    quantized = b.quantize_linear(b.input("x", [2, 3]), scale, b.constant(np.zeros([1, 1], np.int8)))
    info = b.graph_info({"y": b.dequantize_linear(quantized, scale, b.constant(np.zeros([1, 1], np.int8)))})
    assert not {"quantize", "dequantize"} & set(ops(agrees(info)))
