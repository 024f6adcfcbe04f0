"""What the benchmarks run: the models of the zoo, and two programs that probe the framework itself."""

from __future__ import annotations

import torch
from tests import zoo
from torch import Tensor, nn

SIZES = {"batch": 1, "tokens": 128}
"""The dynamic sizes that the models of the zoo are timed at."""

ADD = "add"
BIG = "big"


class Add(nn.Module):
    """The smallest program: one node."""

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return left + right


def _add() -> zoo.Model:
    torch.manual_seed(0)
    return zoo.Model(Add().eval(), (torch.randn(4), torch.randn(4)), ({}, {}))


BIG_WIDTH = 4096
BIG_LAYERS = 8


def _big() -> zoo.Model:
    """Some 540 MB of weights and next to no work beside reading them."""
    torch.manual_seed(0)
    layers = [nn.Linear(BIG_WIDTH, BIG_WIDTH) for _ in range(BIG_LAYERS)]
    return zoo.Model(nn.Sequential(*layers).eval(), (torch.randn(1, BIG_WIDTH),), ({},))


def load(name: str) -> tuple[zoo.Model, tuple[Tensor, ...]]:
    """The workload of that name, and the inputs that it is timed on."""
    if name == ADD:
        model = _add()
    elif name == BIG:
        model = _big()
    else:
        model = zoo.load(name)
    return model, zoo.resized(model, **SIZES)
