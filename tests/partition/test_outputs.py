"""What a program may return."""

from pathlib import Path

import torch
from tests.helpers import assert_all_same
from torch import Tensor, nn

import executorch_ggml


class Named(nn.Module):
    def forward(self, x: Tensor) -> tuple[torch.return_types.max, torch.return_types.median]:
        return torch.max(x, 1), torch.median(x, 0)


def test_named_results(tmp_path: Path) -> None:
    """torch's named tuples; ExecuTorch alone has no way to write that a program returns one."""
    x = torch.randn(5, 7)
    executorch_ggml.export(Named(), (x,)).save(str(tmp_path / "model.pte"))
    largest, middle = Named()(x)
    assert_all_same(executorch_ggml.load(tmp_path / "model.pte")(x), [*largest, *middle])


class WritesWhereTold(nn.Module):
    """A slice of a buffer is written at a place that a tensor says."""

    cache: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(8, 3))

    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        place = at.item()
        torch._check(place >= 0)
        torch._check(place + 2 <= 8)
        self.cache[place : place + 2] = x
        return self.cache.sum(0)


def test_a_number_read_from_a_tensor(tmp_path: Path) -> None:
    program = executorch_ggml.export(WritesWhereTold(), (torch.ones(2, 3), torch.tensor(1)))
    program.save(str(tmp_path / "model.pte"))
    loaded, eager = executorch_ggml.load(tmp_path / "model.pte"), WritesWhereTold()
    for at in (0, 3, 6, 3):
        inputs = (torch.randn(2, 3), torch.tensor(at))
        assert_all_same(loaded(*inputs), eager(*inputs))
