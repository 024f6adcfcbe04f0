"""Tests of convolutions by Winograd's algorithm: the switch, the error, and what is left to the plain sums."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.frontends.aten.grids import Grid, grids
from tests.frontends.aten.test_quantized_layers import Convolution, ConvolutionModel
from tests.helpers import for_cpu, lowered
from torch import Tensor, nn
from torch.export import Dim

import executorch_ggml
from executorch_ggml.ir.serialize import serialize
from executorch_ggml.runtime import Session

VARIABLE = "EXECUTORCH_GGML_WINOGRAD"
BOUND = 1e-5  # of the largest result, for inputs that are all of one size


def layers(channels: int = 24, **options: Any) -> nn.Module:
    torch.manual_seed(3)
    first = nn.Conv2d(channels, 40, 3, padding=1, **options)
    return nn.Sequential(first, nn.BatchNorm2d(40), nn.SiLU(), nn.Conv2d(40, 33, 3, bias=False)).eval()


def session(module: nn.Module, *args: Tensor, dynamic: Any = None, **options: Any) -> Session:
    graph = for_cpu(lowered(module, args, dynamic))
    return Session(serialize(graph), {each.key: each.stored() for each in graph.named_constants()}, **options)


def relative_error(result: Any, module: nn.Module, x: Tensor) -> float:
    expected = module.double()(x.double())
    module.float()
    return float((torch.as_tensor(result) - expected).abs().max() / expected.abs().max())


@given(
    st.integers(1, 2), st.sampled_from([16, 17, 40]), st.integers(14, 31), st.integers(14, 31), st.integers(0, 2**31)
)
def test_results_are_eagers(images: int, channels: int, height: int, width: int, seed: int) -> None:
    module = layers(channels)
    x = torch.randn(images, channels, height, width, generator=torch.Generator().manual_seed(seed))
    by_winograd, plainly = (session(module, x, winograd=winograd)(x)[0] for winograd in (True, False))
    assert relative_error(by_winograd, module, x) < BOUND
    assert not (by_winograd == plainly).all()  # they are computed in two ways


@given(st.integers(1, 2), st.sampled_from([16, 19, 40]), st.integers(2, 13), st.integers(2, 13), st.none() | grids())
def test_integers_are_the_same_to_the_bit(images: int, channels: int, height: int, width: int, y: Grid | None) -> None:
    """Nothing is rounded; on instruction sets without dot products of bytes, which alone compute them so."""
    model = ConvolutionModel(Convolution(inputs=channels, outputs=35, size=(height, width), y=y)).eval()
    x = torch.randn(images, channels, height, width) * 3
    by_winograd, plainly = (session(model, x, winograd=winograd)(x)[0] for winograd in (True, False))
    assert (by_winograd == plainly).all()


def test_sizes_that_come_at_run_time() -> None:
    module = layers()
    dims = {2: Dim("height", min=4, max=64), 3: Dim("width", min=4, max=64)}
    ready = session(module, torch.randn(1, 24, 20, 24), dynamic=(dims,))
    for height, width in ((40, 33), (4, 4), (16, 17), (64, 5)):
        x = torch.randn(1, 24, height, width)
        assert relative_error(ready(x)[0], module, x) < BOUND


@pytest.mark.parametrize("special", [float("nan"), float("inf"), 3e38])
def test_a_special_number_stays_under_its_windows(special: float) -> None:
    module = nn.Conv2d(24, 20, 3, padding=1).eval()
    x = torch.randn(1, 24, 20, 20)
    x[0, 3, 9, 13] = special
    result = torch.as_tensor(session(module, x)(x)[0])
    torch.testing.assert_close(result, module(x), rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize(
    ("module", "channels"),
    [
        (nn.Conv2d(24, 24, 3, stride=2, padding=1), 24),
        (nn.Conv2d(24, 24, 3, dilation=2), 24),
        (nn.Conv2d(24, 24, 3, padding=1, groups=2), 24),
        (nn.Conv2d(24, 24, (3, 1)), 24),
        (nn.Conv2d(3, 24, 3), 3),
        (nn.ConvTranspose2d(24, 24, 3, stride=2), 24),
    ],
    ids=str,
)
def test_other_convolutions_are_computed_plainly(module: nn.Module, channels: int) -> None:
    x = torch.randn(1, channels, 24, 24)
    with_it, without = (session(module.eval(), x, winograd=winograd)(x)[0] for winograd in (True, False))
    assert (with_it == without).all()


def test_the_variable_switches_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, x = layers(), torch.randn(1, 24, 20, 20)
    executorch_ggml.export(module, (x,)).save(str(tmp_path / "model.pte"))
    results = {}
    for value in ("", "1", "0"):
        monkeypatch.setenv(VARIABLE, value)
        results[value] = executorch_ggml.load(tmp_path / "model.pte")(x)
        torch.testing.assert_close(results[value], module(x), rtol=1e-4, atol=1e-5)
    assert torch.equal(results[""], results["1"])
    assert not torch.equal(results["0"], results["1"])
    plain = session(module, x, winograd=False)
    monkeypatch.setenv(VARIABLE, "1")
    assert (torch.as_tensor(plain(x)[0]) == results["0"]).all()
    monkeypatch.setenv(VARIABLE, "yes")
    with pytest.raises(RuntimeError, match=f'{VARIABLE} is "yes", expected 0 or 1'):
        session(module, x)
