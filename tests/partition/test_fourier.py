"""FFTs run in ggml as products of real matrices; the complex numbers between them are pairs of reals."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.helpers import check_delegate, rand
from torch import Tensor, fft

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "as FNet": lambda x: fft.fftn(fft.fftn(x, dim=-1), dim=-2).real,
    "two dims": lambda x: fft.fft2(x, norm="ortho").imag,
    "there and back": lambda x: fft.ifft(fft.fft(x, dim=1) * (2 - 1j), dim=1).real,
    "padded": lambda x: fft.fft(x, n=9, norm="forward").real,
    "one-sided": lambda x: fft.rfft(x).abs(),
    "filter": lambda x: fft.irfft2(fft.rfft2(x) * (1 + 2j), s=x.shape[-2:]),
    "odd": lambda x: fft.irfft(fft.rfft(x[..., :5], norm="forward"), n=5, norm="forward"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_transforms(name: str, tmp_path: Path) -> None:
    check_delegate(FUNCTIONS[name], rand(2, 4, 6), path=tmp_path)


def test_many_points(tmp_path: Path) -> None:
    """Angles of many turns would have lost their digits in float32."""
    check_delegate(lambda x: fft.rfft(x).imag, rand(2, 1000), path=tmp_path)


def test_any_batch(tmp_path: Path) -> None:
    batch = torch.export.Dim("batch", max=8)
    check_delegate(
        lambda x: fft.fft(x).real,
        rand(3, 6),
        path=tmp_path,
        dynamic=({0: batch},),
        others=((rand(1, 6),), (rand(8, 6),)),
    )
