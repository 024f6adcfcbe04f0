"""Tests of first layers that read an image's channels as they come, one plane after another."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers import decomposed, exported, for_cpu, run_session
from tests.runtime.test_chains import block, check, session
from torch import Tensor, nn
from torch.export import Dim

from executorch_ggml.frontends.aten import Lowering
from executorch_ggml.ir.serialize import serialize
from executorch_ggml.passes import run_passes
from executorch_ggml.runtime import Session


def planned_bytes(ready: Session, *shape: int) -> int:
    return ready.memory_use(torch.zeros(*shape).numpy()).bytes


@given(
    channels=st.integers(2, 5),
    outputs=st.integers(1, 40),
    kernel=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    stride=st.integers(1, 3),
    padding=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    dilation=st.integers(1, 2),
    size=st.tuples(st.integers(11, 30), st.integers(11, 30)),
    images=st.integers(1, 3),
    threads=st.integers(1, 3),
)
def test_layers(
    channels: int,
    outputs: int,
    kernel: tuple[int, int],
    stride: int,
    padding: tuple[int, int],
    dilation: int,
    size: tuple[int, int],
    images: int,
    threads: int,
) -> None:
    torch.manual_seed(2)
    module = nn.Conv2d(channels, outputs, kernel, stride, padding, dilation).eval()
    x = torch.randn(images, channels, *size)
    check(session(module, x, threads), module, x)


@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("channels", [3, 4])
def test_an_image_is_not_copied_before(channels: int, padding: int) -> None:
    module = nn.Conv2d(channels, 4, 3, stride=4, padding=padding).eval()
    x = torch.randn(2, channels, 64, 65)
    ready = session(module, x)
    check(ready, module, x)
    assert planned_bytes(ready, *x.shape) < x[0].nbytes


@pytest.mark.parametrize("batch", [1, 3])
def test_the_first_of_a_chain(batch: int) -> None:
    """Its strips begin and end inside of the image, where nothing is padded above and below."""
    torch.manual_seed(3)
    stem = [nn.Conv2d(3, 32, 3, stride=2, padding=(1, 0)), nn.BatchNorm2d(32), nn.Hardswish()]
    module = nn.Sequential(*stem, *list(block(32, 32, 16))[2:]).eval()
    dims = {0: Dim("images", min=1, max=4), 2: Dim("height", min=32, max=512)}
    ready = session(module, torch.randn(2, 3, 64, 224), dynamic=(dims,))
    for height in (224, 97, 40):
        check(ready, module, torch.randn(batch, 3, height, 224))


class Twice(nn.Module):
    """Its image has two readers, and is their sum's operand."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 3, 3, padding=1), nn.Conv2d(3, 3, 5, padding=2)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.first(x) + self.second(x) + x
        return result


def test_an_image_with_several_readers() -> None:
    torch.manual_seed(4)
    module, x = Twice().eval(), torch.randn(2, 3, 13, 17)
    check(session(module, x), module, x)


@pytest.mark.parametrize(("precision", "half"), [("bf16", torch.bfloat16), ("f16", torch.float16)])
def test_half_types(precision: str, half: torch.dtype) -> None:
    torch.manual_seed(6)
    module, x = nn.Conv2d(3, 20, 3, stride=2, padding=1).eval(), torch.randn(2, 3, 31, 33)
    graph = for_cpu(run_passes(Lowering(decomposed(exported(module, (x,)))).graph(), precision=precision))
    constants = {each.key: each.stored() for each in graph.named_constants()}
    weight = module.weight.to(half).float()
    expected = nn.functional.conv2d(x.to(half).float(), weight, module.bias, 2, 1)
    (result,) = run_session(Session(serialize(graph), constants), (x,))
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-5 * float(expected.abs().max()))
