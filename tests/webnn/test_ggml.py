"""What only the ggml converter does: fusing, constants, and telling what it cannot."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.webnn.calls import Dice
from tests.webnn.running import context

from executorch_ggml.frontends.webnn import convert
from executorch_ggml.ir.graph import Graph
from executorch_ggml.webnn import GraphInfo, MLGraphBuilder


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
