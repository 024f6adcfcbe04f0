"""Tests of sums, and of bounds after them, that the kernel of the layer before computes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from tests.helpers import lowered, run_session, session
from torch import Tensor, nn
from torch.nn import functional as F

import executorch_ggml
from executorch_ggml.ir.builder import Builder
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.ir.ops.spatial import Epilogue
from executorch_ggml.ir.serialize import serialize
from executorch_ggml.profiling import profile
from executorch_ggml.runtime import Session

Combined = Callable[[Tensor, Tensor], Tensor]


class Residual(nn.Module):
    """Copies of a layer, each with a sum; their results are outputs too where sums are not to be joined to them."""

    def __init__(self, layer: nn.Module, other: nn.Module, combined: Sequence[Combined], *, apart: bool) -> None:
        super().__init__()
        self.other = other  # lies in memory as the layer's result does
        self.layers = nn.ModuleList(copy.deepcopy(layer) for _ in combined)
        self.combined, self.apart = combined, apart

    def forward(self, x: Tensor, other: Tensor) -> tuple[Tensor, ...]:
        other = self.other(other)
        results = [layer(x + number) for number, layer in enumerate(self.layers)]  # of one input they would be joined
        sums = [combine(y, other) for combine, y in zip(self.combined, results, strict=True)]
        return (*sums, *results) if self.apart else tuple(sums)


def sums_of(layer: nn.Module, other: nn.Module, inputs: tuple[Tensor, ...], *, apart: bool) -> list[Tensor]:
    module = Residual(layer, other, tuple(COMBINED.values()), apart=apart).eval()
    return run_session(session(lowered(module, inputs)), inputs)[: len(COMBINED)]


COMBINED: dict[str, Combined] = {
    "sum": lambda y, other: y + other,
    "relu": lambda y, other: F.relu(other + y),
    "relu6": lambda y, other: F.relu6(y + other),
    "broadcast": lambda y, other: y + other[..., :1],
    "twice": lambda y, other: F.relu(y + other) + other,
    "product": lambda y, other: (y + other) * other,
}
LAYERS = {
    "winograd": (lambda: nn.Conv2d(32, 32, 3, padding=1), (1, 32, 24, 20)),
    "pointwise": (lambda: nn.Conv2d(32, 32, 1, bias=False), (2, 32, 9, 7)),
    "grouped": (lambda: nn.Conv2d(32, 32, 3, padding=1, groups=4), (1, 32, 9, 7)),
    "depthwise": (lambda: nn.Conv2d(32, 32, 3, padding=1, groups=32), (1, 32, 9, 7)),
    "chain": (
        lambda: nn.Sequential(nn.Conv2d(16, 96, 1), nn.Conv2d(96, 96, 3, padding=1, groups=96), nn.Conv2d(96, 16, 1)),
        (1, 16, 64, 56),
    ),
    "linear": (lambda: nn.Linear(40, 40), (3, 5, 40)),
    "linear without bias": (lambda: nn.Linear(40, 40, bias=False), (17, 40)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_sums_are_the_same_to_the_bit(name: str) -> None:
    torch.manual_seed(3)
    make, shape = LAYERS[name]
    layer, x, y = make(), torch.randn(shape), torch.randn(shape)
    other = nn.Linear(40, 40) if "linear" in name else nn.Conv2d(shape[1], shape[1], 1)
    y.view(-1)[7] = torch.nan
    joined, apart = (sums_of(layer, other, (x, y), apart=apart) for apart in (False, True))
    for number, (result, alone, combine) in enumerate(zip(joined, apart, COMBINED.values(), strict=True)):
        assert torch.equal(result.nan_to_num(1e9), alone.nan_to_num(1e9))
        torch.testing.assert_close(result, combine(layer(x + number), other(y)), rtol=1e-5, atol=1e-5, equal_nan=True)


def test_a_sum_of_two_layers_and_of_one_with_itself() -> None:
    class Sums(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = (nn.Conv2d(24, 24, 1) for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            y = F.relu(self.a(x) + self.b(x))
            z = self.c(y)
            return F.relu(z + z) - y

    module, x = Sums().eval(), torch.randn(1, 24, 8, 9)
    (result,) = run_session(session(lowered(module, (x,))), (x,))
    torch.testing.assert_close(result, module(x), rtol=1e-5, atol=1e-5)


def test_a_layer_reads_a_state_before_it_is_written(tmp_path: Path) -> None:
    class Late(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(40, 40)
            self.seen: Tensor
            self.register_buffer("seen", torch.zeros(5, 40))

        def forward(self, x: Tensor) -> Tensor:
            y = self.layer(self.seen)
            self.seen.copy_(x)
            return F.relu(y + x)

    module, first, second = Late(), torch.randn(5, 40), torch.randn(5, 40)
    executorch_ggml.export(module, (first,), report_error=False).save(str(tmp_path / "model.pte"))
    program = executorch_ggml.load(tmp_path / "model.pte")
    seen = torch.zeros(5, 40)
    for x in (first, second, first):
        expected = F.relu(module.layer(seen) + x)
        torch.testing.assert_close(program(x), expected, rtol=1e-5, atol=1e-5)
        seen = x


SHAPED_LAYERS = {
    "conv": (nn.Conv2d(64, 64, 1), (1, 64, 9, 7)),
    "rows": (nn.Linear(40, 40), (15, 40)),
    "rows of a batch": (nn.Linear(40, 40), (3, 5, 40)),
    "odd rows of a batch": (nn.Linear(39, 39), (3, 5, 39)),
}


@pytest.mark.parametrize("precision", [None, "bf16"])
@pytest.mark.parametrize("name", SHAPED_LAYERS)
def test_profile_names_the_nodes_that_a_layer_computes(tmp_path: Path, name: str, precision: str | None) -> None:
    torch.manual_seed(3)
    layer, shape = SHAPED_LAYERS[name]
    inputs = (torch.randn(shape), torch.randn(shape))
    module = Residual(layer, copy.deepcopy(layer), (COMBINED["relu"],), apart=False).eval()
    executorch_ggml.export(module, inputs, precision=precision, report_error=False).save(str(tmp_path / "model.pte"))
    nodes = profile(tmp_path / "model.pte", inputs, calls=2).nodes
    assert sum(node.op in ("conv_2d_nhwc", "linear") for node in nodes) == 2
    assert all(node.op not in ("add", "relu") for node in nodes)
    (node,) = (node for node in nodes if node.joined)
    assert "relu" in node.name
    assert any("add" in name for name in node.joined)
    assert any("conv" in name or "linear" in name for name in node.joined)
    result = executorch_ggml.load(tmp_path / "model.pte")(*inputs)
    tolerance = 1e-5 if precision is None else 0.02
    torch.testing.assert_close(result, module(*inputs)[0], rtol=tolerance, atol=tolerance)


def test_rows_that_a_reshape_divides_are_added_as_they_are_then() -> None:
    class Divided(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(40, 40)

        def forward(self, x: Tensor, heads: Tensor) -> tuple[Tensor, Tensor]:
            y = self.layer(x)
            return F.relu(y.view(15, 4, 10) + heads), F.relu(self.layer(-x).view(5, 3, 40) + heads.view(5, 3, 40))

    module, x, heads = Divided().eval(), torch.randn(3, 5, 40), torch.randn(15, 4, 10)
    results = run_session(session(lowered(module, (x, heads))), (x, heads))
    for result, expected in zip(results, module(x, heads), strict=True):
        torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("before", range(3))
def test_sums_in_a_graph_that_is_too_deep_to_be_built_at_once(before: int) -> None:
    """Of hundreds of nodes one after another some are put into ggml's graph first, and nothing joins those any more."""
    build = Builder()
    x = y = build.input("x", DType.F32, (3, 8), (8, 3, 1, 1))
    weight = build.constant("weight", DType.F32, (8, 8, 1, 1))
    for _ in range(before):  # so that each of the nodes below is the last of those once
        y = build.emit("scale_bias", y, s=1.0, b=0.5)
    for _ in range(200):
        y = build.emit("add", build.emit("linear", y, weight, None, epilogue=Epilogue()), x)
        y = build.emit("clamp", y, min=-1.0, max=1.0)
    build.output("y", y, (3, 8))
    rows, matrix = torch.randn(3, 8), 0.5 * torch.randn(8, 8)
    expected = rows + 0.5 * before
    for _ in range(200):
        expected = (expected @ matrix.T + rows).clamp(-1.0, 1.0)
    deep = Session(serialize(build.finish()), {"weight": matrix.numpy()})
    torch.testing.assert_close(deep.run(rows.numpy())[0], expected.numpy(), rtol=1e-4, atol=1e-4)
