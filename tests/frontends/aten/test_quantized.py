"""Programs of PyTorch's own quantization flows: the integers that activations become, and weights that are integers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
    XNNPACKQuantizer,
    get_symmetric_quantization_config,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.batches import check_case
from tests.helpers import (
    Case,
    Const,
    assert_same,
    check_delegate,
    delegated,
    having,
    index,
    op,
    rand,
    run_session,
    session,
)
from torch import Tensor, nn
from torchao.quantization import (
    Int8DynamicActivationInt8WeightConfig,
    Int8DynamicActivationIntxWeightConfig,
    Int8WeightOnlyConfig,
    IntxWeightOnlyConfig,
    MappingType,
    PerAxis,
    PerGroup,
    quantize_,
)
from torchao.quantization.pt2e import allow_exported_model_train_eval
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

import executorch_ggml
from executorch_ggml.frontends.aten import Lowering
from executorch_ggml.frontends.aten.blocks import ROUNDING, blocks_of
from executorch_ggml.frontends.aten.ops import quantized
from executorch_ggml.ir import codec
from executorch_ggml.ir.dims import product
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.ir.graph import Graph
from executorch_ggml.passes import run_passes

decomposed = quantized.decomposed
torchao = quantized.torchao

INT8 = (-128, 127, torch.int8)
UINT8 = (0, 255, torch.uint8)


def steps(*shape: int, dtype: torch.dtype = torch.int8) -> torch.Tensor:
    """Random integers over a type's whole range."""
    range_ = torch.iinfo(dtype)
    return torch.randint(range_.min, range_.max + 1, shape, generator=torch.Generator().manual_seed(3)).to(dtype)


def wide(*shape: int) -> torch.Tensor:
    """Numbers of which some are beyond the steps, and some just between two."""
    values = rand(*shape) * 2
    values.view(-1)[: min(4, values.numel())] = torch.tensor([0.125, -0.375, 1e9, -1e9])[: values.numel()]
    return values


def some_scales(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Scales of very different sizes."""
    return (rand(*shape).abs() + 0.01).to(dtype)


def zeros_of(*shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    """Zero points."""
    return torch.randint(-9, 10, shape, generator=torch.Generator().manual_seed(5)).to(dtype)


def constants(*tensors: torch.Tensor) -> list[Const]:
    return [Const(tensor) for tensor in tensors]


quantize, dequantize = decomposed.quantize_per_tensor, decomposed.dequantize_per_tensor
SCALE, ZERO = torch.tensor([0.0371]), torch.tensor([-7])

CASES = [
    op(quantize.default, wide(3, 5), 0.25, 3, *INT8),
    op(quantize.default, wide(2, 3, 4, 5), 0.0371, 0, *INT8),
    op(quantize.default, wide(4, 6), 0.0371, 128, *UINT8),
    op(quantize.default, wide(4, 6), 0.001, 5, -32768, 32767, torch.int16),
    op(quantize.default, wide(4, 6).half(), 0.0371, 5, *INT8),
    op(quantize.default, wide(4, 6).bfloat16(), 0.0371, 5, *INT8),
    op(quantize.default, rand(0, 6), 0.0371, 5, *INT8),
    having(op(quantize.default, wide(3), 0.01, 0, -(2**31), 2**31 - 1, torch.int32), refused="does not count to"),
    op(dequantize.default, steps(3, 5), 0.0371, 3, *INT8),
    op(dequantize.default, steps(2, 3, 4, 5), 0.0371, 0, *INT8),
    op(dequantize.default, steps(4, 6, dtype=torch.uint8), 0.0371, 128, *UINT8),
    op(dequantize.default, steps(4, 6), 0.0371, 3, *INT8, out_dtype=torch.float16),
    op(dequantize.default, steps(4, 6), 0.0371, 3, *INT8, out_dtype=torch.bfloat16),
    op(dequantize.default, Const(steps(4, 6)), 0.0371, 3, *INT8),
    op(quantize.tensor, wide(3, 5), SCALE, ZERO, *INT8),
    op(quantize.tensor, wide(3, 5), *constants(SCALE.double(), ZERO), *INT8),
    op(dequantize.tensor, steps(3, 5), SCALE, ZERO, *INT8),
    op(dequantize.tensor, *constants(steps(3, 5), SCALE, ZERO), *INT8),
    op(decomposed.quantize_per_channel.default, wide(3, 5), some_scales(3), zeros_of(3), 0, *INT8),
    op(decomposed.quantize_per_channel.default, wide(2, 3, 4, 5), *constants(some_scales(3), zeros_of(3)), 1, *INT8),
    op(decomposed.dequantize_per_channel.default, steps(3, 5), some_scales(3), zeros_of(3), 0, *INT8),
    op(decomposed.dequantize_per_channel.default, steps(2, 3, 4), some_scales(4), None, 2, *INT8),
    op(decomposed.dequantize_per_channel.default, *constants(steps(3, 5), some_scales(3), zeros_of(3)), 0, *INT8),
    op(decomposed.quantize_per_token.default, wide(2, 3, 5), some_scales(2, 3, 1), zeros_of(2, 3, 1), *INT8),
    having(
        op(decomposed.quantize_per_token.default, wide(3, 5), some_scales(3, 1).double(), zeros_of(3, 1), *INT8),
        refused="by a scale in f64",
    ),
    op(
        decomposed.dequantize_per_token.default,
        steps(2, 3, 5),
        some_scales(2, 3, 1),
        zeros_of(2, 3, 1),
        *INT8,
        torch.float32,
    ),
    op(
        decomposed.dequantize_per_token.default,
        *constants(steps(3, 5), some_scales(3, 1).double(), zeros_of(3, 1)),
        *INT8,
        torch.float32,
    ),
    op(
        decomposed.dequantize_per_channel_group.default,
        *constants(steps(3, 8), some_scales(3, 2), zeros_of(3, 2)),
        *INT8,
        4,
        torch.float32,
    ),
    having(
        op(
            decomposed.dequantize_per_channel_group.default,
            steps(3, 8),
            some_scales(3, 2),
            zeros_of(3, 2),
            *INT8,
            4,
            torch.float32,
        ),
        refused="not constant",
    ),
    op(decomposed.choose_qparams.tensor, rand(3, 5), -128, 127, 1e-4, torch.int8),
    op(decomposed.choose_qparams.tensor, rand(3, 5).abs() + 1, 0, 255, 1e-4, torch.uint8),
    op(decomposed.choose_qparams.tensor, rand(3, 5) * 1e-6, -128, 127, 1e-4, torch.int8),
    op(decomposed.choose_qparams_symmetric.tensor, rand(3, 5), -127, 127, 1e-4, torch.int8),
    op(decomposed.choose_qparams_symmetric.tensor, rand(3, 5), 0, 255, 1e-4, torch.uint8),
    *(
        op(
            torchao.choose_qparams_affine.default,
            rand(2, 3, 5).to(dtype),
            mapping,
            block,
            torch.int8,
            zero_point_dtype=z,
        )
        for mapping in ("ASYMMETRIC", "SYMMETRIC", "SYMMETRIC_NO_CLIPPING_ERR")
        for dtype, block, z in (
            (torch.float32, [1, 1, 5], torch.int8),
            (torch.float32, [2, 3, 5], torch.int32),
            (torch.bfloat16, [1, 1, 5], torch.int8),
            (torch.float16, [1, 3, 5], torch.int8),
        )
    ),
    *(
        op(
            torchao.quantize_affine.default,
            wide(2, 3, 5).to(dtype),
            block,
            some_scales(*shape, dtype=dtype),
            zeros_of(*shape, dtype=torch.int8),
            torch.int8,
            -8,
            7,
        )
        for dtype in (torch.float32, torch.bfloat16, torch.float16)
        for block, shape in (([1, 1, 5], (2, 3)), ([2, 1, 5], (3,)))
    ),
    having(
        op(torchao.quantize_affine.default, wide(2, 6), [1, 3], some_scales(2, 2), zeros_of(2, 2), torch.int8),
        refused="other blocks",
    ),
    *(
        op(
            torchao.dequantize_affine.default,
            steps(2, 3, 5),
            block,
            some_scales(*shape, dtype=dtype),
            zeros_of(*shape, dtype=torch.int8),
            torch.int8,
            output_dtype=dtype,
        )
        for dtype in (torch.float32, torch.bfloat16)
        for block, shape in (([1, 1, 5], (2, 3)), ([2, 1, 5], (3,)))
    ),
    op(
        torchao.dequantize_affine.default,
        Const(steps(3, 8)),
        [1, 4],
        *constants(some_scales(3, 2), zeros_of(3, 2, dtype=torch.int8)),
        torch.int8,
    ),
    op(torchao.dequantize_affine.default, Const(steps(3, 8)), [1, 4], Const(some_scales(3, 2)), None, torch.int8),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_overload(case: Case) -> None:
    check_case(case)


# ------------------------------------------------------------------------------------------------------- whole models


def with_integers(layer: nn.Module, config: Any) -> nn.Module:
    """A layer with its weight as torchao's integers."""
    model = nn.Sequential(layer).eval()
    quantize_(model, config, lambda module, name: module is layer)
    return model


def weights_only(name: str, group: int | None, **options: Any) -> IntxWeightOnlyConfig:
    granularity = PerAxis(0) if group is None else PerGroup(group)
    return IntxWeightOnlyConfig(weight_dtype=getattr(torch, name), granularity=granularity, **options)


BF16, ASYMMETRIC = {"scale_dtype": torch.bfloat16}, {"mapping_type": MappingType.ASYMMETRIC}
KEPT = {
    "int4-groups": (weights_only("int4", 32, **BF16), {DType.Q4_0}),
    "int4-rows": (weights_only("int4", None), {DType.Q4_0}),  # one scale a row: any number
    "int4-asymmetric": (weights_only("int4", 64, **BF16, **ASYMMETRIC), {DType.Q4_1, DType.Q5_0}),
    "int5-groups": (weights_only("int5", 32, **BF16), {DType.Q5_0}),
    "int8-groups": (weights_only("int8", 32, **BF16), {DType.Q8_0}),
    "int8-rows": (weights_only("int8", None), {DType.Q8_0}),
    "int2-groups": (weights_only("int2", 32, **BF16), {DType.Q4_0}),
    "scales-of-24-bits": (weights_only("int4", 32), {DType.Q4_0}),
    "int8-scales-of-24-bits": (weights_only("int8", 64), {DType.Q8_0}),
    "values-up-to-255": (weights_only("int8", 32, **BF16, **ASYMMETRIC), {DType.F32}),
    "groups-of-16": (weights_only("int4", 16, **BF16), {DType.F32}),
}


def lowered(model: nn.Module, *args: Tensor) -> Graph:
    """A model's graph, its composite ops left as they are, as ExecuTorch leaves them."""
    return run_passes(Lowering(torch.export.export(model, args).run_decompositions({})).graph())


def types_of(graph: Graph) -> set[DType]:
    """The types of a graph's matrices, however they are packed."""
    return {constant.value.dtype for constant in graph.constants if product(constant.value.ne) > 500}


@pytest.mark.parametrize("case", KEPT)
@pytest.mark.parametrize("bias", [False, True])
def test_torchao_linear(case: str, bias: bool) -> None:
    config, types = KEPT[case]
    torch.manual_seed(0)
    model = with_integers(nn.Linear(64, 48, bias=bias), config)
    x = rand(2, 3, 64)
    graph = lowered(model, x)
    assert types_of(graph) <= types
    got = run_session(session(graph), (x,))[0]
    if types == {DType.F32}:
        assert_same(got, model(x), 1e-5)
    else:
        loss = 1e-3 if DType.Q4_1 in types else ROUNDING if "24-bits" in case else 1e-5
        assert_product_of_blocks(got, model, x, loss)


@pytest.mark.parametrize("case", KEPT)
def test_torchao_embedding(case: str) -> None:
    config, types = KEPT[case]
    model = with_integers(nn.Embedding(40, 64), config)
    tokens = index(40, 2, 5)
    graph = lowered(model, tokens)
    assert types_of(graph) <= types
    assert_same(run_session(session(graph), (tokens,))[0], model(tokens), ROUNDING if "24-bits" in case else 0.0)


def on_blocks(x: Tensor, scales: torch.dtype) -> Tensor:
    """Numbers as they are rounded before they are multiplied: 8-bit integers with a scale for each 32."""
    blocks = x.reshape(-1, 32)
    scale = blocks.abs().amax(1, keepdim=True) / 127
    return ((blocks / scale).round() * scale.to(scales).float()).reshape(x.shape)


def assert_product_of_blocks(got: Tensor, model: nn.Module, x: Tensor, loss: float = 1e-5) -> None:
    """The scales of x's blocks are float32 in our own kernels, float16 in ggml's; ``loss`` is that of the weights."""
    single, half = (model(on_blocks(x, dtype)) for dtype in (torch.float32, torch.float16))
    if (got - single).abs().max() <= max(1e-5, loss) * single.abs().max():
        return
    assert_same(got, half, loss)


def test_weights_that_are_only_cast_are_kept_too(tmp_path: Path) -> None:
    """Torchao's int8 weights, one scale a row: it casts them, and scales the product."""
    model = with_integers(nn.Linear(64, 48), Int8WeightOnlyConfig())
    x = rand(3, 64)
    made = delegated(model, (x,), tmp_path)
    assert types_of(made.graph()) == {DType.Q8_0}
    assert_product_of_blocks(made.load()(x), model, x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dynamic_activations(dtype: torch.dtype, tmp_path: Path) -> None:
    """Rows rounded to 8 bits by the model, weights of 4 bits: ggml rounds the rows once more."""
    config = Int8DynamicActivationIntxWeightConfig(
        weight_dtype=torch.int4,  # type: ignore[attr-defined] # torch's types lack it
        weight_granularity=PerGroup(32),
        weight_scale_dtype=torch.bfloat16,
    )
    model = with_integers(nn.Linear(64, 48).to(dtype), config)
    x = rand(2, 3, 64).to(dtype)
    made = delegated(model, (x,), tmp_path)
    assert made.left == []
    error = (made.load()(x) - model(x)).float().square().mean().sqrt()
    assert error < 0.01 * model(x).float().square().mean().sqrt()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_integer_products_are_exact(dtype: torch.dtype, tmp_path: Path) -> None:
    model = with_integers(nn.Linear(1100, 6).to(dtype), Int8DynamicActivationInt8WeightConfig())
    check_delegate(model, rand(3, 1100).to(dtype), path=tmp_path)


class Convolutions(nn.Module):
    """A small image model."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.second, self.last = nn.Conv2d(8, 8, 3, groups=8), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.second(torch.relu(self.norm(self.first(x)))))
        out: Tensor = self.last(x.mean((2, 3)))
        return out


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("per_channel", [False, True])
def test_pt2e(dynamic: bool, per_channel: bool, tmp_path: Path) -> None:
    """Eager's numbers: activations meet the same integers, and weights are eager's floats."""
    how = get_symmetric_quantization_config(is_per_channel=per_channel, is_dynamic=dynamic)
    x = rand(2, 3, 9, 9)
    prepared = prepare_pt2e(
        torch.export.export(Convolutions().eval(), (x,)).module(), XNNPACKQuantizer().set_global(how)
    )
    prepared(x)
    converted = convert_pt2e(prepared)
    allow_exported_model_train_eval(converted)  # in place
    model = nn.Sequential(converted)
    made = delegated(model, (x,), tmp_path)
    assert made.left == []
    program = made.load()
    for inputs in (x, rand(2, 3, 9, 9) * 3):
        assert_same(program(inputs), model(inputs))


class Shared(nn.Module):
    """A matrix of integers that is read on both sides of what ExecuTorch keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("values", steps(32, 32, 3, 3))
        self.register_buffer("scales", some_scales(32))

    def forward(self, x: Tensor) -> Tensor:
        weight = decomposed.dequantize_per_channel(self.values, self.scales, None, 0, *INT8)
        x = torch.conv2d(x, weight, padding=1).double().cumsum(1).float()
        return torch.conv2d(x, weight)


def test_weights_of_two_delegates_are_constants_of_both(tmp_path: Path) -> None:
    check_delegate(Shared(), rand(1, 32, 5, 5), path=tmp_path, partitions=2, left=["aten.cumsum.default"])


class Returned(nn.Module):
    """Integers that are an output too, and so an input of the delegate."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("values", steps(48, 64))
        self.register_buffer("scales", some_scales(48))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        weight = decomposed.dequantize_per_channel(self.values, self.scales, None, 0, *INT8)
        return nn.functional.linear(x, weight), self.get_buffer("values")


def test_integers_that_are_returned_are_no_constants(tmp_path: Path) -> None:
    check_delegate(Returned(), rand(3, 64), path=tmp_path)


def test_explain_says_what_becomes_of_integers() -> None:
    x = rand(2, 64)
    for config, wanted in (
        (KEPT["int4-groups"][0], "0.weight is kept in q4_0, without loss"),
        (KEPT["scales-of-24-bits"][0], "kept in q4_0, with scales rounded to float16"),
        (KEPT["groups-of-16"][0], "blocks have 32"),
        (Int8WeightOnlyConfig(), "kept in q8_0"),
    ):
        model = with_integers(nn.Linear(64, 48), config)
        (note,) = executorch_ggml.explain(torch.export.export(model, (x,))).notes
        assert wanted in note


def test_integers_can_be_dequantized() -> None:
    model = with_integers(nn.Linear(64, 48), KEPT["int4-groups"][0])
    x = rand(2, 64)
    program = torch.export.export(model, (x,)).run_decompositions({})
    graph = Lowering(program, integer_weights=False).graph()
    assert_same(run_session(session(graph), (x,))[0], model(x))


# ------------------------------------------------------------------------------------------------------------- blocks


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_blocks_hold_what_they_are_given(data: st.DataObject) -> None:
    low, high = data.draw(st.sampled_from([(-8, 7), (-16, 15), (-128, 127), (3, 18), (-200, 90)]))
    rows, runs, group = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3)), data.draw(st.sampled_from([32, 96]))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 1000)))
    values = torch.randint(low, high + 1, (rows, runs * group), generator=generator)
    scales = torch.randn(rows, runs, generator=generator) * 2.0 ** data.draw(st.integers(-30, 10))
    kind = data.draw(st.sampled_from(["any", "bfloat16", "rows"]))
    scales = scales[:, :1].expand(rows, runs).contiguous() if kind == "rows" else scales
    scales = scales.bfloat16().float() if kind == "bfloat16" else scales
    made = blocks_of(values, scales)
    if isinstance(made, str):
        assert (kind == "any" and "scales" in made) or (low < -128 and "values from" in made)
        return
    back = codec.dequantize(made.data, made.dtype, values.shape)
    factor = torch.ones(rows) if made.factor is None else made.factor
    expected = values * scales.repeat_interleave(group, dim=1)
    assert made.is_exact or kind == "any"
    torch.testing.assert_close(back * factor.unsqueeze(1), expected, rtol=0 if made.is_exact else ROUNDING, atol=0)


def test_scales_that_are_far_apart_are_in_no_block() -> None:
    assert "too far apart" in str(blocks_of(torch.ones(1, 64, dtype=torch.int32), torch.tensor([[0.3, 1e-7]])))
    assert "too far apart" in str(blocks_of(torch.ones(1, 64, dtype=torch.int32), torch.tensor([[0.3, torch.inf]])))


@pytest.mark.parametrize("group", [16, 48, 100])
def test_blocks_of_other_sizes_are_none(group: int) -> None:
    assert "blocks have 32" in str(blocks_of(torch.ones(2, 2 * group, dtype=torch.int32), torch.ones(2, 2)))
