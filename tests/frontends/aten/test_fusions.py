"""Fusions: found where they should be, and only there; the same numbers as the unfused form."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from tests.helpers import DYNAMIC, check_program, delegates_of, exported, lowered
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._pytree import tree_flatten

from executorch_ggml import GgmlPartitioner
from executorch_ggml.ir.serialize import deserialize
from executorch_ggml.partition.backend import ALL_FUSIONS


def halves(x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), -1)


def pairs(x: Tensor) -> Tensor:
    return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)


class Rotary(nn.Module):
    """Queries as attention has them: heads are a permuted view of a projection's rows."""

    def __init__(self, rotated: object, swapped: bool = False) -> None:
        super().__init__()
        self.rotated, self.swapped = rotated, swapped

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        heads = x.view(x.shape[0], x.shape[1], 3, 8).transpose(1, 2)
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
        if self.swapped:
            return sin * self.rotated(heads) + cos * heads  # type: ignore[operator] # a function
        return heads * cos + self.rotated(heads) * sin  # type: ignore[operator] # as above


def angles(batch: int, length: int) -> tuple[Tensor, Tensor, Tensor]:
    return torch.randn(batch, length, 24), torch.randn(batch, length, 8), torch.randn(batch, length, 8)


@pytest.mark.parametrize("rotated", [halves, pairs], ids=["halves", "pairs"])
@pytest.mark.parametrize("swapped", [False, True], ids=["", "swapped"])
@pytest.mark.parametrize("batches", [(2, 2), (2, 1), (1, 1)], ids=str)
def test_rotary(rotated: object, swapped: bool, batches: tuple[int, int]) -> None:
    x, cos, sin = torch.randn(batches[0], 5, 24), *angles(batches[1], 5)[1:]
    model = Rotary(rotated, swapped)
    check_program(model, x, cos, sin)
    ops = [node.op for node in lowered(model, (x, cos, sin)).nodes]
    assert ops.count("rotary") == 1
    assert not {"neg", "concat", "mul", "add"} & set(ops)
    unfused = lowered(model, (x, cos, sin), fusions=ALL_FUSIONS - {"rotary"})
    assert "rotary" not in [node.op for node in unfused.nodes]


@pytest.mark.parametrize("rotated", [halves, pairs], ids=["halves", "pairs"])
def test_rotary_of_any_length(rotated: object) -> None:
    model, dynamic = Rotary(rotated), ({1: DYNAMIC},) * 3
    check_program(model, *angles(1, 5), dynamic=dynamic, others=[angles(1, 9), angles(1, 1)])
    assert "rotary" in [node.op for node in lowered(model, angles(1, 5), dynamic).nodes]


def almost(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """The halves the other way round."""
    half = x.shape[-1] // 2
    return x * cos + torch.cat((x[..., half:], -x[..., :half]), -1) * sin


def of_another(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return x.exp() * cos + halves(x) * sin


def uneven(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return x * cos + torch.cat((-x[..., 5:], x[..., :5]), -1) * sin


def subtracted(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return x * cos - halves(x) * sin


def narrow(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return x * cos[..., :1] + halves(x) * sin


@pytest.mark.parametrize("function", [almost, of_another, uneven, subtracted, narrow])
def test_not_rotary(function: object) -> None:
    args = (torch.randn(2, 3, 8), torch.randn(3, 8), torch.randn(3, 8))
    check_program(function, *args)  # type: ignore[arg-type] # a function
    assert "rotary" not in [node.op for node in lowered(function, args).nodes]  # type: ignore[arg-type] # as above


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "swiglu_split": F.silu,
    "geglu_split": partial(F.gelu, approximate="tanh"),
    "geglu_erf_split": F.gelu,
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_gate(name: str) -> None:
    activation = ACTIVATIONS[name]

    def gated(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return activation(x) * y, x * activation(y.transpose(0, 1))

    special = torch.tensor([[0.0, -0.0, 30.0], [-30.0, -90.0, float("nan")], [1.0, -1.0, 0.5]])
    for x, y in ((torch.randn(7, 7), torch.randn(7, 7)), (special, torch.ones(3, 3))):
        check_program(gated, x, y)
    ops = [node.op for node in lowered(gated, (x, y)).nodes]
    assert ops.count(name) == 2
    assert "mul" not in ops


def test_not_a_gate() -> None:
    def used_twice(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        activated = F.silu(x)
        return activated * y, activated + 1

    def broadcast(x: Tensor, y: Tensor) -> Tensor:
        return F.silu(x) * y[:1]

    x, y = torch.randn(3, 4), torch.randn(3, 4)
    for function in (used_twice, broadcast):
        check_program(function, x, y)
        assert "swiglu_split" not in [node.op for node in lowered(function, (x, y)).nodes]


class Flat(nn.Module):
    """A module's outputs, of which some are tuples, as one tuple."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(tree_flatten(self.module(x))[0])


RECURRENT = {
    "lstm": (nn.LSTM(5, 19, num_layers=2), "lstm_cell", 8),
    "lstm, both ways, without bias": (nn.LSTM(5, 16, bidirectional=True, bias=False), "lstm_cell", 8),
    "lstm with projections": (nn.LSTM(5, 16, proj_size=7), "lstm_cell", 4),
    "gru": (nn.GRU(5, 19, num_layers=2), "gru_cell", 8),
    "gru, both ways, without bias": (nn.GRU(5, 16, bidirectional=True, bias=False), "gru_cell", 8),
    "lstm cell": (nn.LSTMCell(5, 16), "lstm_cell", 1),
    "gru cell": (nn.GRUCell(5, 16), "gru_cell", 1),
}


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_steps(name: str) -> None:
    recurrent, op, steps = RECURRENT[name]
    module = Flat(recurrent)
    shape = (3, 5) if name.endswith("cell") else (4, 3, 5)
    special = torch.randn(shape)
    special.view(-1)[:5] = torch.tensor([torch.inf, -torch.inf, torch.nan, 1e30, -200.0])
    for x in (torch.randn(shape), 100 * torch.randn(shape), special):
        check_program(module, x)
    ops = [node.op for node in lowered(module, (x,)).nodes]
    assert ops.count(op) == steps
    assert not {"sigmoid", "tanh"} & set(ops)


def test_fusions_are_switched_off_from_the_partitioner(tmp_path: Path) -> None:
    def ops(fusions: frozenset[str]) -> set[str]:
        program = exported(lambda x, y: F.silu(x) * y, (torch.randn(3, 4), torch.randn(3, 4)))
        edge = to_edge_transform_and_lower(program, partitioner=[GgmlPartitioner(fusions=fusions)])
        (delegate,) = delegates_of(edge)
        return {node.op for node in deserialize(delegate.processed_bytes).nodes}

    assert "swiglu_split" in ops(ALL_FUSIONS)
    assert "swiglu_split" not in ops(ALL_FUSIONS - {"gate"})
    with pytest.raises(ValueError, match="no fusion is called rope; there are integer_movement, integer_functions"):
        GgmlPartitioner(fusions={"rope"})
