"""As few delegates as the order of a program allows, and what stands between them."""

from pathlib import Path

import pytest
import torch
from tests.helpers import assert_all_same, delegated
from torch import Tensor

from executorch_ggml import explain

X, Y = torch.rand(3, 4), torch.rand(3, 4)  # small: the hyperbolic cosines below would make errors of large ones larger


def outside(x: Tensor) -> Tensor:
    """Work that ggml leaves alone: 64-bit floats."""
    return x.double().cosh().float()


class Unconnected(torch.nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x.exp() + 1, y.sin() * 2


class BesideOutside(torch.nn.Module):
    """One branch leaves and comes back; the other could be computed before or after."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return outside(x.exp()) + y.sin().exp(), y.cos() * 2


class TwoBranchesLeave(torch.nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return outside(x.exp()).sin() + outside(y.cos()).exp()


class OnlyAfter(torch.nn.Module):
    """What depends on the inputs alone is computed where it is needed."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x.cosh().float() + y.sin().exp()


class InAChain(torch.nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return outside(outside(x.exp() * y).sin() + y).cos()


class ReadEarlyAndLate(torch.nn.Module):
    """The results of one op, of which one is read before what leaves and the other after: none goes without the op."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        values, indices = x.topk(2)
        return outside(y.gather(1, indices)) + values.exp()


@pytest.mark.parametrize(
    ("model", "x", "delegates"),
    [
        (Unconnected(), X, 1),
        (BesideOutside(), X, 2),
        (TwoBranchesLeave(), X, 2),
        (OnlyAfter(), X.double(), 1),
        (InAChain(), X, 3),
        (ReadEarlyAndLate(), X, 2),
    ],
    ids=lambda p: type(p).__name__ if isinstance(p, torch.nn.Module) else "",
)
def test_fewest_delegates(model: torch.nn.Module, x: Tensor, delegates: int, tmp_path: Path) -> None:
    explanation = explain(torch.export.export(model, (x, Y)))
    assert explanation.delegates == delegates
    assert bool(explanation.cuts) == (delegates > 1)
    made = delegated(model, (x, Y), tmp_path)
    assert len(made.delegates) == delegates
    assert_all_same(made.load()(x, Y), model(x, Y))


def test_explain_names_what_cuts() -> None:
    text = str(explain(torch.export.export(InAChain(), (X, Y))))
    assert "in 3 delegates" in text
    assert "[cuts ggml's part x2] aten.cosh.default: " in text
