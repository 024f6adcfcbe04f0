"""Constants of no elements: read, returned, written to, or used by nothing."""

from pathlib import Path

import pytest
import torch
from tests.helpers import check_delegate, rand
from torch import Tensor, nn


class Holds(nn.Module):
    """A module with an empty buffer and no other constant."""

    empty: Tensor

    def __init__(self, *shape: int, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.register_buffer("empty", torch.zeros(*shape, dtype=dtype))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return (x * 2,)


class Returns(Holds):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return x * 2, self.empty


class Reads(Holds):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return torch.cat([self.empty, x]) * 2, self.empty.sum(0) + x


class Grows(nn.Module):
    """As the caches of transformers do: a tensor of one dim is no operand of a concatenation."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([torch.tensor([]), x], dim=-2) * 2


@pytest.mark.parametrize(
    "module",
    [Holds(0), Holds(0, 3, dtype=torch.int64), Returns(0, 3), Returns(2, 0, dtype=torch.bool), Reads(0, 3), Grows()],
    ids=lambda module: type(module).__name__,
)
def test_a_program_whose_only_constant_is_empty(module: nn.Module, tmp_path: Path) -> None:
    check_delegate(module, rand(2, 3), path=tmp_path)
