"""What is between layers of integers stays integers: functions of them, and movement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.frontends.aten.grids import Grid, ops_of
from tests.helpers import lowered, run_session, session
from torch import Tensor, nn
from torch.nn import functional as F

from executorch_ggml.ir.graph import Graph


@pytest.mark.parametrize("name", ["add", "sub", "mul"])
@pytest.mark.parametrize("shapes", [((3, 40), (3, 40)), ((2, 3, 17), (17,)), ((4, 1, 5), (1, 3, 1))], ids=str)
def test_two_tensors(name: str, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b, y = Grid(0.03, 5), Grid(0.1, 200, torch.uint8), Grid(0.05, -20)

    class Combined(nn.Module):
        def forward(self, left: Tensor, right: Tensor) -> Tensor:
            return y.of(torch.relu(getattr(torch, name)(a.of(left), b.of(right))))

    torch.manual_seed(0)
    inputs = [torch.randn(shape) * 3 for shape in shapes]
    graph = lowered(Combined(), tuple(inputs))
    assert "quantized_binary" in ops_of(graph)
    assert torch.equal(run_session(session(graph), tuple(inputs))[0], Combined()(*inputs))


class Functions(nn.Module):
    """What tables hold, with numbers that no step is near."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = Grid(0.02, 9).of(self.function(Grid(0.05, -3).of(x)))
        return y


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "relu6": F.relu6,
    "hardtanh": lambda x: F.hardtanh(x, -2.0, 1.0),
    "clamp": lambda x: x.clamp(-0.3, 0.7),
    "clamp at one end": lambda x: x.clamp(max=0.7),
    "leaky relu": lambda x: F.leaky_relu(x, 0.1),
    "elu": F.elu,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "mish": F.mish,
    "gelu": F.gelu,
    "gelu by tanh": lambda x: F.gelu(x, approximate="tanh"),
    "softplus": F.softplus,
    "softsign": F.softsign,
    "tanh": torch.tanh,
    "exp": torch.exp,
    "neg": torch.neg,
    "square": lambda x: x * x,
    "product with a number": lambda x: x * 0.7 + 1,
    "choice": lambda x: torch.where(x > 0.5, x, 0.1),
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS.keys())
def test_one_tensor(function: Any) -> None:
    x = torch.cat([torch.linspace(-8, 8, 999), torch.tensor([float("inf"), -float("inf")])])
    graph = lowered(Functions(function), (x,))
    assert ops_of(graph) == {"quantize", "lookup", "dequantize"}
    (result,) = run_session(session(graph), (x,))
    off = ((result - Functions(function)(x)) / 0.02).abs()
    assert float(off.max()) < 1.01
    assert float((off > 0.5).float().mean()) < 0.02


class OneGrid(nn.Module):
    """Rounding, what moves elements, rounding to the same grid."""

    def __init__(self, move: Callable[[Tensor], Tensor], grid: Grid) -> None:
        super().__init__()
        self.move, self.grid = move, grid

    def forward(self, x: Tensor) -> Tensor:
        return self.grid.of(self.move(self.grid.of(x)))


def check_movement(model: nn.Module, *inputs: Tensor, dynamic: object = None) -> Graph:
    """Eager's very results, of graphs in which floats are the input and the output."""
    graph = lowered(model, inputs, dynamic)
    ops = [node.op for node in graph.nodes]
    assert ops.count("quantize") == len(inputs)
    assert ops.count("dequantize") == 1
    assert "interpolate" not in ops
    assert torch.equal(run_session(session(graph), inputs)[0], model(*inputs))
    return graph


MOVEMENTS: dict[str, Callable[[Tensor], Tensor]] = {
    "reshape": lambda x: x.reshape(6, -1),
    "slice": lambda x: x[:, 1:, ::2],
    "select": lambda x: x[:, 1],
    "pad": lambda x: F.pad(x, (1, 2, 0, 1)),
    "pad with a number on the grid": lambda x: F.pad(x, (1, 2, 0, 1), value=0.25),
    "pad and cut": lambda x: F.pad(x, (1, -2)),
    "reflect": lambda x: F.pad(x, (1, 2, 2, 1), mode="reflect"),
    "replicate": lambda x: F.pad(x, (1, 2, 2, 1), mode="replicate"),
    "circular": lambda x: F.pad(x, (1, 2, 2, 1), mode="circular"),
    "flip": lambda x: x.flip(1, 3),
    "roll": lambda x: x.roll((1, -2), (2, 3)),
    "repeat": lambda x: x.repeat(1, 2, 1, 3),
    "expand": lambda x: x[:, :1].expand(-1, 5, -1, -1),
    "interleave": lambda x: x.repeat_interleave(2, dim=1),
    "pixel shuffle": lambda x: F.pixel_shuffle(x, 2),
    "pixel unshuffle": lambda x: F.pixel_unshuffle(x, 2),
    "channel shuffle": lambda x: F.channel_shuffle(x, 2),
    "split": lambda x: torch.cat(x.split([1, 3], 1)[::-1], 1),
    "stack": lambda x: torch.stack([x, x.flip(0)], 1),
    "unbind": lambda x: x.unbind(1)[1],
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "nearest, other sizes": lambda x: F.interpolate(x, size=(9, 5)),
    "index": lambda x: x[:, torch.tensor([2, 0, 0])],
    "max pooling": lambda x: F.max_pool2d(x, 3, 2, 1),
}


@pytest.mark.parametrize("name", MOVEMENTS)
@pytest.mark.parametrize("grid", [Grid(0.25, -20), Grid(0.125, 100, torch.uint8)], ids=str)
def test_movement(name: str, grid: Grid) -> None:
    torch.manual_seed(0)
    check_movement(OneGrid(MOVEMENTS[name], grid), torch.randn(2, 4, 6, 8) * 9)


@pytest.mark.parametrize("name", ["pad", "repeat", "nearest", "slice", "pixel shuffle"])
def test_movement_of_sizes_known_when_it_runs(name: str) -> None:
    torch.manual_seed(0)
    width = torch.export.Dim("width", min=2, max=50)
    check_movement(OneGrid(MOVEMENTS[name], Grid(0.25, -20)), torch.randn(2, 4, 6, 8), dynamic=({3: 2 * width},))


def test_number_that_no_integer_stands_for() -> None:
    """Padding that is not on the grid is rounded to it, as eager does."""
    grid = Grid(0.25, -20)
    model = OneGrid(lambda x: F.pad(x, (1, 1), value=0.3), grid)
    x = torch.randn(3, 5)
    assert torch.equal(run_session(session(lowered(model, (x,))), (x,))[0], model(x))


def test_parts_on_other_grids() -> None:
    """A concatenation puts each part on its own grid by a table."""
    parts = (Grid(0.05, 3), Grid(0.1, 90, torch.uint8), Grid(0.02, -7))

    class Joined(nn.Module):
        def forward(self, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
            return parts[0].of(torch.cat([grid.of(x) for grid, x in zip(parts, (a, b, c), strict=True)], 1))

    torch.manual_seed(0)
    inputs = tuple(torch.randn(2, n, 3, 5) * 3 for n in (4, 1, 7))
    graph = check_movement(Joined(), *inputs)
    assert [node.op for node in graph.nodes].count("lookup") == 2
