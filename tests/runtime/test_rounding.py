"""Tests of products in bf16 whose operands the kernels before them round, on CPUs without instructions for bf16."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.helpers import decomposed, exported, run_session, session
from torch import Tensor, nn
from torch.nn import functional as F

import executorch_ggml
from executorch_ggml.frontends.aten import Lowering
from executorch_ggml.passes import run_passes
from executorch_ggml.profiling import profile


class Heads(nn.Module):
    """Attention of four heads of ten, whose results are joined by a reshape."""

    def forward(self, x: Tensor) -> Tensor:
        heads = x.unflatten(-1, (4, 10)).transpose(1, 2)
        return F.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).flatten(2)


PRODUCERS: dict[str, nn.Module] = {
    "norm": nn.LayerNorm(40),
    "rms norm": nn.RMSNorm(40),
    "linear": nn.Linear(40, 40),
    "linear relu": nn.Sequential(nn.Linear(40, 40, bias=False), nn.ReLU()),
    "linear hardswish": nn.Sequential(nn.Linear(40, 40), nn.Hardswish()),
    "linear gelu": nn.Sequential(nn.Linear(40, 40), nn.GELU()),
    "linear silu": nn.Sequential(nn.Linear(40, 40), nn.SiLU()),
    "attention": Heads(),
}


class Pairs(nn.Module):
    """Producers, each with a layer that reads it; their results are outputs too where nothing is to be joined."""

    def __init__(self, *, apart: bool) -> None:
        super().__init__()
        self.producers = nn.ModuleList(PRODUCERS.values())
        self.layers = nn.ModuleList(nn.Linear(40, 9) for _ in PRODUCERS)
        self.apart = apart

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        between = [producer(x + number) for number, producer in enumerate(self.producers)]
        results = [layer(y) for layer, y in zip(self.layers, between, strict=True)]
        return (*results, *between) if self.apart else tuple(results)


def run_in_bf16(model: nn.Module, x: Tensor) -> list[Tensor]:
    graph = run_passes(Lowering(decomposed(exported(model.eval(), (x,)))).graph(), precision="bf16")
    return run_session(session(graph), (x,))


def results_of(x: Tensor, *, apart: bool) -> list[Tensor]:
    torch.manual_seed(2)
    return run_in_bf16(Pairs(apart=apart), x)[: len(PRODUCERS)]


@pytest.mark.parametrize("shape", [(1, 1, 40), (2, 3, 40), (1, 23, 40)], ids=str)
def test_results_are_the_same_to_the_bit(shape: tuple[int, ...]) -> None:
    x = 3 * torch.randn(shape, generator=torch.Generator().manual_seed(1))
    if x.shape[1] > 1:  # else it would be in every result
        x[-1, -1, -3] = torch.inf
    joined, apart = (results_of(x, apart=apart) for apart in (False, True))
    for result, alone in zip(joined, apart, strict=True):
        torch.testing.assert_close(result, alone, rtol=0, atol=0, equal_nan=True)


def test_profile_has_no_nodes_that_round(tmp_path: Path) -> None:
    x = torch.randn(1, 23, 40)
    model = Pairs(apart=False).eval()
    executorch_ggml.export(model, (x,), precision="bf16", report_error=False).save(str(tmp_path / "model.pte"))
    nodes = profile(tmp_path / "model.pte", (x,), calls=2).nodes
    roundings = [node for node in nodes if node.op == "unary"]  # of the inputs of linear layers that come first
    assert len(roundings) <= sum(name.startswith("linear") for name in PRODUCERS)
    assert {node.op for node in nodes} >= {"norm", "rms_norm", "linear", "attention"}


def test_what_is_read_twice_is_kept_unrounded() -> None:
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.layer = nn.LayerNorm(40), nn.Linear(40, 40)

        def forward(self, x: Tensor) -> Tensor:
            y = self.norm(x)
            return y - self.layer(y)

    model, x = Residual(), torch.randn(5, 40)
    (result,) = run_in_bf16(model, x)
    y = model.norm(x)
    rounded, weight = (t.to(torch.bfloat16).float() for t in (y, model.layer.weight))
    torch.testing.assert_close(result, y - F.linear(rounded, weight, model.layer.bias), rtol=1e-5, atol=1e-5)
