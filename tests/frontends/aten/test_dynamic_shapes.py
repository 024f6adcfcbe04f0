"""Symbolic sizes: several at once, derived ones, of 0 and 1, through every way that a program makes shapes of them."""

import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.helpers import assert_all_same, check_delegate, check_program, lowered, run_session, session
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as F

ANY = Dim.DYNAMIC(min=0, max=64)  # guards that hold for the example are fine
SIZES = [(4, 6), (2, 3), (1, 1), (7, 2), (1, 8), (64, 64)]
EMPTY = [(0, 5), (3, 0), (0, 0)]


def matrix(rows: int, columns: int) -> tuple[Tensor]:
    return (torch.randn(rows, columns),)


def positions(x: Tensor) -> Tensor:
    return x + torch.arange(x.shape[1]) * 2 - torch.arange(x.shape[0]).unsqueeze(1)


def ranges(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.arange(1, x.shape[0] + 3), torch.arange(0, 3 * x.shape[1], 3)


def joined(x: Tensor) -> Tensor:
    return torch.cat([x, x[:1].expand(3, -1), x * 2], 0)


def joined_with_itself(x: Tensor) -> Tensor:
    return torch.cat([x, x[:, : x.shape[1] // 2]], 1)


def all_but_one(x: Tensor) -> Tensor:
    return x[1:, :-1] - x[:-1, 1:]


def halves(x: Tensor) -> Tensor:
    middle = x.shape[1] // 2
    return x[:, :middle].sum(1) + x[:, middle:].sum(1)


def from_the_end(x: Tensor) -> Tensor:
    return x[-2:].exp()


def flattened(x: Tensor) -> Tensor:
    return x.reshape(-1).view(x.shape[1], x.shape[0]).t()


def folded(x: Tensor) -> Tensor:
    return x.view(x.shape[0], 1, x.shape[1], 1).expand(-1, 2, -1, 3).reshape(x.shape[0] * 2, -1)


def made(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.new_zeros(x.shape[1], x.shape[0] + 1), torch.full((x.shape[0], 2 * x.shape[1]), 3)


def scaled_by_size(x: Tensor) -> Tensor:
    return x * x.shape[0] + (x.shape[1] - 1)


def average(x: Tensor) -> Tensor:
    return x.sum() / x.numel()


def causal(x: Tensor) -> Tensor:
    square = x @ x.t()
    return square.masked_fill(torch.ones_like(square, dtype=torch.bool).triu(1), 0.0)


def softmaxed(x: Tensor) -> Tensor:
    return torch.softmax(x @ x.t(), -1) @ x


def padded(x: Tensor) -> Tensor:
    return F.pad(x, (1, 2, 0, 3), value=-1.0)


def statistics(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.mean(0), x.var(1, correction=0)


def outer(x: Tensor) -> Tensor:
    return x[:, :, None] * x[:, None, :]


FUNCTIONS: list[Callable[[Tensor], Any]] = [
    positions, ranges, joined, joined_with_itself, halves, flattened, folded, made, scaled_by_size,
    causal, softmaxed, padded, outer,
]  # fmt: skip


@pytest.mark.parametrize("function", [*FUNCTIONS, average, statistics, all_but_one, from_the_end])
def test_sizes(function: Callable[[Tensor], Any]) -> None:
    smallest = 2 if function in (all_but_one, from_the_end) else 1
    others = [matrix(*sizes) for sizes in SIZES if min(sizes) >= smallest]
    check_program(function, *matrix(4, 6), dynamic=({0: ANY, 1: ANY},), others=others)


@pytest.mark.parametrize("function", [f for f in FUNCTIONS if f not in (joined, flattened, folded)])
def test_no_elements(function: Callable[[Tensor], Any]) -> None:
    check_program(function, *matrix(4, 6), dynamic=({0: ANY, 1: ANY},), others=[matrix(*sizes) for sizes in EMPTY])


def uneven(x: Tensor, y: Tensor) -> Tensor:
    return torch.cat([x, y], 0)[1:] + y.shape[0]


def doubled(x: Tensor, y: Tensor) -> Tensor:
    return x.repeat_interleave(2, 0) + y[:-1]


def derived(sizes: tuple[int, int]) -> tuple[Tensor, Tensor]:
    return torch.randn(sizes[0], 3), torch.randn(sizes[1], 3)


def test_derived_inputs() -> None:
    """One input's size is an expression of the other's: no input has the symbol itself in some of these."""
    s = Dim("s", min=1, max=20)
    others = [derived(sizes) for sizes in ((1, 2), (9, 10), (20, 21))]
    check_program(uneven, *derived((4, 5)), dynamic=({0: s}, {0: s + 1}), others=others)
    others = [derived(sizes) for sizes in ((1, 3), (9, 19))]
    check_program(doubled, *derived((4, 9)), dynamic=({0: s}, {0: 2 * s + 1}), others=others)
    singles = [(torch.randn(2 * n, 3),) for n in (1, 5, 20)]
    check_program(lambda x: x[: x.shape[0] // 2] * 2, torch.randn(8, 3), dynamic=({0: 2 * s},), others=singles)
    singles = [(torch.randn(n - 1, 3),) for n in (1, 2, 9, 20)]
    check_program(lambda x: torch.cat([x, x[:0], x]), torch.randn(7, 3), dynamic=({0: s - 1},), others=singles)


def shorter(x: Tensor, y: Tensor) -> Tensor:
    least = torch.sym_min(x.shape[0], y.shape[0])
    return x[:least] + y[:least]


@pytest.mark.parametrize("sizes", [(4, 6), (6, 4), (1, 9), (5, 5)], ids=str)
def test_the_smaller_and_the_larger(sizes: tuple[int, int]) -> None:
    def larger(x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(torch.sym_max(x.shape[0], y.shape[0])) + 1

    x, y = torch.randn(4), torch.randn(6)
    others = [(torch.randn(sizes[0]), torch.randn(sizes[1]))]
    for function in (larger, shorter):
        check_program(function, x, y, dynamic=({0: ANY}, {0: ANY}), others=others)


def test_a_size_beyond_its_bounds_is_refused() -> None:
    ready = session(lowered(torch.relu, matrix(4, 6), ({0: Dim("n", min=2, max=8)},)))
    assert_all_same(run_session(ready, (torch.ones(8, 6),)), [torch.ones(8, 6)])
    with pytest.raises(Exception, match="9"):
        run_session(ready, (torch.ones(9, 6),))


class Encoder(nn.Module):
    """Batch and length are symbolic; a convolution makes derived lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.front = nn.Conv1d(3, 8, 3, stride=2, padding=1)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.front(x).transpose(1, 2)
        hidden = self.layer(hidden + torch.arange(hidden.shape[1]).unsqueeze(-1) / 100)
        return hidden.mean(1), hidden[:, -1]


def test_a_model(tmp_path: Path) -> None:
    torch.manual_seed(0)
    dynamic = ({0: Dim.DYNAMIC(min=1, max=20), 2: Dim.DYNAMIC(min=3, max=40)},)
    others = [(torch.randn(*shape),) for shape in ((1, 3, 3), (3, 3, 7), (20, 3, 40), (1, 3, 33))]
    check_delegate(Encoder().eval(), torch.randn(17, 3, 12), path=tmp_path, dynamic=dynamic, others=others)


def test_two_shapes_in_turn() -> None:
    """A thousand changes of shape: right every time, and no more memory than a few."""
    graph = lowered(softmaxed, matrix(16, 24), ({0: ANY, 1: ANY},))
    ready = session(graph)
    inputs = [matrix(16, 24), matrix(33, 5)]
    expected = [softmaxed(*args) for args in inputs]

    def turns(count: int) -> None:
        for turn in range(count):
            assert_all_same(run_session(ready, inputs[turn % 2]), [expected[turn % 2]])

    turns(50)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    turns(1000)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 4096, f"{grown} KiB more"
