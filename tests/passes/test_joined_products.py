"""Joined products with weights that text cannot say: quantized ones, ones outside of the program, half ones."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

import executorch_ggml
from executorch_ggml.ir.builder import Builder
from executorch_ggml.ir.codec import dequantize, quantize
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.ir.graph import Graph
from executorch_ggml.ir.verify import verify
from executorch_ggml.passes import run_passes
from executorch_ggml.quant import GgmlQuantConfig

from ..helpers import assert_same, run_interpreter, run_session, session

X = torch.randn(3, 256, generator=torch.Generator().manual_seed(0)) / 16


def joined(graph: Graph) -> Graph:
    graph = run_passes(graph, {"joined_products"})
    verify(graph)
    return graph


def products(graph: Graph) -> int:
    return sum(node.op in ("linear", "mul_mat") for node in graph.nodes)


def two_products(weights: list[Tensor], dtype: DType, *, outside: bool = False) -> Graph:
    """``exp(x @ w.T)`` of two weights."""
    builder = Builder()
    x = builder.input("x", DType.F32, (3, 256), (256, 3, 1, 1))
    for number, weight in enumerate(weights):
        stored = quantize(weight, dtype) if dtype.is_quantized else weight.to(dtype.torch)
        value = builder.constant(
            f"w{number}", dtype, (256, len(weight), 1, 1), partial(torch.clone, stored), outside=outside
        )
        builder.output(f"y{number}", builder.emit("exp", builder.emit("mul_mat", value, x)), (3, len(weight)))
    return builder.finish()


@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.BF16, DType.Q8_0, DType.Q4_K], ids=lambda d: d.name)
def test_types(dtype: DType) -> None:
    weights = [torch.randn(5, 256), torch.randn(2, 256)]
    graph = joined(two_products(weights, dtype))
    assert products(graph) == 1
    for number, result in enumerate(run_session(session(graph), (X,))):
        weight = weights[number]
        if dtype.is_quantized:
            weight = dequantize(quantize(weight, dtype), dtype, tuple(weight.shape))
        assert_same(result, torch.exp(X @ weight.T), 2e-2 if dtype != DType.F32 else 1e-5)
        assert_same(result, run_interpreter(graph, (X,))[number], 2e-2)


def test_what_is_outside_of_the_program_stays() -> None:
    assert products(joined(two_products([torch.randn(5, 256), torch.randn(2, 256)], DType.F32, outside=True))) == 2


class Attention(torch.nn.Module):
    """Grouped attention of sequences of any length, and a gated layer after it."""

    def __init__(self, *, bias: bool) -> None:
        super().__init__()
        self.q = torch.nn.Linear(256, 256, bias=bias)
        self.k = torch.nn.Linear(256, 64, bias=bias)
        self.v = torch.nn.Linear(256, 64, bias=bias)
        self.gate = torch.nn.Linear(256, 512, bias=bias)
        self.up = torch.nn.Linear(256, 512, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (layer(x).unflatten(-1, (-1, 32)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True).transpose(1, 2).flatten(2)
        return torch.nn.functional.silu(self.gate(mixed)) * self.up(mixed)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("weights", [None, "q8_0"])
def test_attention_of_any_length(bias: bool, weights: str | None, tmp_path: Any) -> None:
    torch.manual_seed(0)
    model = Attention(bias=bias).eval()
    length = torch.export.Dim("length", min=1, max=50)
    config = None if weights is None else GgmlQuantConfig(weights)
    path = str(tmp_path / "model.pte")
    x = torch.randn(2, 7, 256)
    executorch_ggml.export(model, (x,), dynamic_shapes=({1: length},), weights=config).save(path)
    program = executorch_ggml.load(path)
    for inputs in (x, torch.randn(2, 1, 256), torch.randn(2, 50, 256)):
        assert_same(program(inputs), model(inputs), 1e-4 if weights is None else 3e-2)
