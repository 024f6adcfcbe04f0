"""Buffers that a module mutates live in the delegate, from call to call."""

from pathlib import Path

import torch
from tests.helpers import assert_same
from torch import Tensor, nn

import executorch_ggml


class Counter(nn.Module):
    """Adds its input to a running total and gives the total from before and after."""

    total: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        before = self.total.clone()
        self.total.add_(x)
        return before, self.total * 2


class Swap(nn.Module):
    """Exchanges two buffers: neither write may be seen by the other."""

    a: Tensor
    b: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("a", torch.tensor([1.0, 2.0]))
        self.register_buffer("b", torch.tensor([10.0, 20.0]))

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.a.clone(), self.b.clone()
        self.a.copy_(b)
        self.b.copy_(a + x)
        return self.a - self.b


class Window(nn.Module):
    """Shifts a window of the last inputs along: the state is read by a view and written whole."""

    window: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.zeros(4, 2))

    def forward(self, x: Tensor) -> Tensor:
        self.window.copy_(torch.cat([self.window[1:], x]))
        return self.window.mean(0)


def _check(module: nn.Module, inputs: Tensor, tmp_path: Path) -> None:
    executorch_ggml.export(module, (inputs,)).save(str(tmp_path / "model.pte"))
    ours = executorch_ggml.load(tmp_path / "model.pte")
    for step in range(4):
        x = inputs * (step + 1)
        made, expected = ours(x), module(x)
        pairs = [(made, expected)] if isinstance(expected, Tensor) else list(zip(made, expected, strict=True))
        for actual, wanted in pairs:
            assert_same(actual, wanted, what=f"step {step}")


def test_counter(tmp_path: Path) -> None:
    _check(Counter(), torch.tensor([0.5, -1.0, 2.0]), tmp_path)


def test_swap(tmp_path: Path) -> None:
    _check(Swap(), torch.tensor([0.25, -0.5]), tmp_path)


def test_window(tmp_path: Path) -> None:
    _check(Window(), torch.tensor([[1.0, -2.0]]), tmp_path)


def test_another_load_starts_over(tmp_path: Path) -> None:
    x = torch.ones(3)
    executorch_ggml.export(Counter(), (x,)).save(str(tmp_path / "model.pte"))
    first = executorch_ggml.load(tmp_path / "model.pte")
    first(x)
    second = executorch_ggml.load(tmp_path / "model.pte")
    assert_same(second(x)[0], torch.tensor([1.0, 2.0, 3.0]))
