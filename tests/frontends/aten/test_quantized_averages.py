"""Averages of integers: the nearest step to the exact average, which eager's floats may miss where it is half-way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.frontends.aten.grids import RANGES, Grid, grids, ops_of
from tests.helpers import lowered, run_session, session
from torch import Tensor, nn
from torch.nn import functional as F

Average = Callable[[Tensor], Tensor]
X, Y = Grid(0.05, -20), Grid(0.03, 7)
NARROW = {"quantize", "quantized_pool_2d_nhwc", "dequantize", "permute", "reshape", "cont"}


class Averaged(nn.Module):
    """Rounding, an average, rounding."""

    def __init__(self, average: Average, x: Grid, y: Grid, clamp: tuple[float, float] | None = None) -> None:
        super().__init__()
        self.average, self.x, self.y, self.clamp = average, x, y, clamp

    def forward(self, x: Tensor) -> Tensor:
        average = self.average(self.x.of(x))
        return self.y.of(average if self.clamp is None else average.clamp(*self.clamp))

    def steps(self, x: Tensor) -> Tensor:
        """What is to be rounded, in steps, exactly."""
        integers = self.x.round(x).double() - self.x.zero
        average = self.average(integers) * self.x.scale
        average = average if self.clamp is None else average.clamp(*self.clamp)
        return (average / self.y.scale + self.y.zero).clamp(*RANGES[self.y.dtype])


def check(model: Averaged, x: Tensor, *, dynamic: object = None) -> None:
    """The nearest step: half a step off at most, and eager's but where that is half-way."""
    graph = lowered(model, (x,), dynamic)
    assert ops_of(graph) <= NARROW
    assert "quantized_pool_2d_nhwc" in ops_of(graph)
    (result,) = run_session(session(graph), (x,))
    steps, exact = result.double() / model.y.scale + model.y.zero, model.steps(x)
    assert float((steps - exact).abs().max()) < 0.501
    half_way = ((exact - exact.floor()) - 0.5).abs() < 1e-3
    assert torch.equal(result[~half_way], model(x)[~half_way])


def image(*shape: int) -> Tensor:
    torch.manual_seed(0)
    return torch.randn(shape) * 3


AVERAGES: dict[str, Average] = {
    "windows": lambda x: F.avg_pool2d(x, 2),
    "padding that counts": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "padding that does not count": lambda x: F.avg_pool2d(x, (3, 2), 2, 1, count_include_pad=False),
    "windows over the edge": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
    "a divisor": lambda x: F.avg_pool2d(x, 2, divisor_override=3),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, (3, 2)),
    "global": lambda x: F.adaptive_avg_pool2d(x, 1),
    "mean": lambda x: x.mean((2, 3)),
    "mean of rows": lambda x: x.mean(2, keepdim=True),
    "mean of columns": lambda x: x.mean(3),
    "mean of channels": lambda x: x.mean((1, 2)),
}


@pytest.mark.parametrize("name", AVERAGES)
@pytest.mark.parametrize("shape", [(2, 3, 7, 5), (1, 70, 8, 9), (3, 16, 3, 2)], ids=str)
@pytest.mark.parametrize("y", [X, Y, Grid(0.02, 200, torch.uint8)], ids=str)
def test_average(name: str, shape: tuple[int, ...], y: Grid) -> None:
    check(Averaged(AVERAGES[name], X, y), image(*shape))


@pytest.mark.parametrize("name", ["windows", "global", "mean of rows"])
def test_sizes_known_when_it_runs(name: str) -> None:
    batch, width = torch.export.Dim("batch", max=9), torch.export.Dim("width", min=2, max=99)
    check(Averaged(AVERAGES[name], X, Y), image(2, 5, 8, 6), dynamic=({0: batch, 3: 2 * width},))


def test_one_pixel() -> None:
    check(Averaged(AVERAGES["global"], X, Y), image(1, 1, 1, 1))


def test_half_way() -> None:
    """On the grid that it is of, half a step goes to the even one."""
    x = torch.tensor([[0, 1], [1, 2], [2, 3], [-1, 0], [-2, -1], [1, 1]]).reshape(6, 1, 1, 2) * 0.05
    model = Averaged(AVERAGES["global"], Grid(0.05, 0), Grid(0.05, 0))
    (result,) = run_session(session(lowered(model, (x,))), (x,))
    assert torch.round(result / 0.05).flatten().tolist() == [0, 2, 2, 0, -2, 1]


def test_clamped() -> None:
    check(Averaged(AVERAGES["windows"], X, Y, clamp=(-0.4, 0.9)), image(2, 5, 8, 6))


@given(st.data())
def test_averages(data: st.DataObject) -> None:
    draw = data.draw
    kernel = (draw(st.integers(1, 5)), draw(st.integers(1, 5)))
    how: dict[str, Any] = {
        "stride": draw(st.integers(1, 4)),
        "padding": draw(st.integers(0, min(kernel) // 2)),
        "ceil_mode": draw(st.booleans()),
        "count_include_pad": draw(st.booleans()),
    }
    average = draw(
        st.sampled_from([lambda x: F.avg_pool2d(x, kernel, **how), lambda x: F.adaptive_avg_pool2d(x, kernel)])
    )
    size = draw(st.integers(max(kernel), 13)), draw(st.integers(max(kernel), 13))
    x = image(draw(st.integers(1, 3)), draw(st.integers(1, 99)), *size)
    check(Averaged(average, draw(grids()), draw(grids())), x)
