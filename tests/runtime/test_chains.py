"""Tests of convolutions that are computed strip by strip with those before them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers import for_cpu, lowered, run_session
from torch import Tensor, nn
from torch.export import Dim

from executorch_ggml.ir.serialize import serialize
from executorch_ggml.runtime import Session

BOUND = 1e-5  # of the largest result


def block(inputs: int, hidden: int, outputs: int, kernel: int = 3, stride: int = 1) -> nn.Sequential:
    """A block of MobileNetV2 without its sum."""
    torch.manual_seed(5)
    depthwise = nn.Conv2d(hidden, hidden, kernel, stride, kernel // 2, groups=hidden, bias=False)
    return nn.Sequential(
        nn.Conv2d(inputs, hidden, 1),
        nn.ReLU6(),
        depthwise,
        nn.BatchNorm2d(hidden),
        nn.Hardswish(),
        nn.Conv2d(hidden, outputs, 1),
    ).eval()


def session(module: nn.Module, x: Tensor, threads: int = 2, dynamic: object = None) -> Session:
    graph = for_cpu(lowered(module, (x,), dynamic))
    constants = {each.key: each.stored() for each in graph.named_constants()}
    return Session(serialize(graph), constants, threads=threads)


def check(ready: Session, module: nn.Module, x: Tensor) -> None:
    expected = module(x)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for result, want in zip(run_session(ready, (x,)), expected, strict=True):
        torch.testing.assert_close(result, want, rtol=0, atol=BOUND * float(want.abs().max()))


@given(
    images=st.integers(1, 2),
    height=st.integers(20, 70),
    width=st.integers(40, 60),
    kernel=st.sampled_from([3, 5]),
    stride=st.integers(1, 3),
    threads=st.integers(1, 3),
)
def test_blocks(images: int, height: int, width: int, kernel: int, stride: int, threads: int) -> None:
    module = block(9, 70, 21, kernel, stride)
    x = torch.randn(images, 9, height, width)
    check(session(module, x, threads), module, x)


def test_sizes_that_come_at_run_time() -> None:
    module = block(16, 96, 24)
    dims = {0: Dim("images", min=1, max=4), 2: Dim("height", min=4, max=128)}
    ready = session(module, torch.randn(2, 16, 60, 56), dynamic=(dims,))
    for images, height in ((1, 100), (3, 16), (4, 33), (1, 4)):
        check(ready, module, torch.randn(images, 16, height, 56))


class Both(nn.Module):
    """Reads what is between two layers once more."""

    def __init__(self, layers: nn.Sequential, at: int, *, returns: bool) -> None:
        super().__init__()
        self.before, self.after, self.returns = layers[:at], layers[at:], returns

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor] | Tensor:
        between = self.before(x)
        result: Tensor = self.after(between)
        return (result, between) if self.returns else result + between.mean()


@pytest.mark.parametrize("returns", [True, False])
@pytest.mark.parametrize("at", [2, 5])
def test_what_else_reads_between_layers(at: int, returns: bool) -> None:
    module = Both(block(16, 96, 24), at, returns=returns).eval()
    x = torch.randn(1, 16, 64, 56)
    check(session(module, x), module, x)


def test_one_depthwise_layer_after_two() -> None:
    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = block(16, 96, 24), block(16, 96, 24)
            self.second[2] = self.first[2]  # and their weights

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.first(x) + self.second(x.flip(0))
            return result

    module = Branches().eval()
    x = torch.randn(2, 16, 64, 56)
    check(session(module, x), module, x)
