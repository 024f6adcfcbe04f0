"""Tests of 1x1 convolutions whose input channels are multiplied with factors first, by squeeze-and-excitation."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers import run_session
from tests.runtime.test_chains import check, session
from torch import Tensor, nn
from torch.export import Dim


class Excited(nn.Module):
    """The factors are computed from the image; the result is added to something, or not."""

    def __init__(
        self, channels: int, outputs: int, *, bias: bool = True, adds: bool = False, returns: bool = False
    ) -> None:
        super().__init__()
        self.first = nn.Conv2d(4, channels, 3, padding=1)
        self.factors = nn.Conv2d(channels, channels, 1)
        self.project = nn.Conv2d(channels, outputs, 1, bias=bias)
        self.residual = nn.Conv2d(4, outputs, 1) if adds else None
        self.returns = returns

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        image = self.first(x)
        scaled = self.factors(image.mean((2, 3), keepdim=True)).sigmoid() * image
        result: Tensor = self.project(scaled)
        if self.residual is not None:
            result = nn.functional.relu6(result + self.residual(x))
        return (result, scaled) if self.returns else result


def excited(*args: int, **how: bool) -> Excited:
    torch.manual_seed(7)
    return Excited(*args, **how).eval()


@given(
    channels=st.integers(1, 70),
    outputs=st.integers(1, 50),
    size=st.tuples(st.integers(1, 14), st.integers(1, 14)),
    images=st.integers(1, 3),
    bias=st.booleans(),
    adds=st.booleans(),
    threads=st.integers(1, 3),
)
def test_layers(
    channels: int, outputs: int, size: tuple[int, int], images: int, bias: bool, adds: bool, threads: int
) -> None:
    module = excited(channels, outputs, bias=bias, adds=adds)
    x = torch.randn(images, 4, *size)
    check(session(module, x, threads), module, x)


@pytest.mark.parametrize("images", [1, 3])
def test_the_product_is_not_computed(images: int) -> None:
    module, x = excited(256, 8), torch.randn(images, 4, 20, 21)
    ready = session(module, x)
    check(ready, module, x)
    assert ready.memory_use(x.numpy()).bytes < 1.5 * images * 256 * 20 * 21 * 4  # of the image that is scaled


def test_a_product_that_is_read_twice() -> None:
    module, x = excited(32, 8, returns=True), torch.randn(2, 4, 20, 21)
    check(session(module, x), module, x)


def test_more_weights_than_pixels() -> None:
    module, x = excited(32, 64), torch.randn(2, 4, 5, 7)
    check(session(module, x), module, x)


def test_sizes_that_come_at_run_time() -> None:
    module = excited(48, 24, adds=True)
    dims = {0: Dim("images", min=1, max=8), 2: Dim("height", min=1, max=64)}
    ready = session(module, torch.randn(2, 4, 16, 12), dynamic=(dims,))
    for images, height in ((1, 1), (5, 3), (3, 64), (8, 4)):
        check(ready, module, torch.randn(images, 4, height, 12))


def test_factors_that_are_nan() -> None:
    module, x = excited(16, 8), torch.zeros(2, 4, 9, 9)
    x[1, 0, 0, 0] = float("inf")
    (result,) = run_session(session(module, x), (x,))
    assert torch.equal(torch.isnan(result), torch.isnan(module(x)))
    assert not torch.isnan(result[0]).any()
    assert torch.isnan(result[1]).any()
