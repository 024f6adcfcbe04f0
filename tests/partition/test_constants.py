"""What no input decides is computed at export."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.helpers import Calls, check_delegate, exported, rand
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

from executorch_ggml.partition.constants import fold_constants
from executorch_ggml.passes.constant_folding import MAX_GROWTH


class StandardizedConv(nn.Conv2d):
    """Weight standardization as timm's ScaledStdConv2d computes it: by a batch norm of the weight."""

    def __init__(self) -> None:
        super().__init__(3, 8, 3, padding=1)
        self.gain = nn.Parameter(torch.rand(8, 1, 1, 1) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        flat, gain = self.weight.reshape(1, 8, -1), (self.gain * 0.2).view(-1)
        weight = F.batch_norm(flat, None, None, weight=gain, training=True, momentum=0.0, eps=1e-6)
        return F.relu(F.conv2d(x, weight.reshape_as(self.weight), self.bias, padding=1))


class Shifted(nn.Module):
    """A norm whose stored weight is short of one, as Gemma's."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(rand(6))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, (6,), self.weight + 1)


class SlicedConv(nn.Module):
    """Two convolutions whose weights are views of one parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(rand(3, 10, 4))

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight.permute(1, 2, 0)
        return F.conv1d(F.conv1d(x, weight[:4]), weight[4:])


class LearnedQueries(nn.Module):
    """Queries that are computed from parameters alone, as in the first layer of DETR's decoder.

    Attention's output lies in memory as its queries do: heads last, so the trace has a view where a contiguous tensor
    would be copied.
    """

    def __init__(self) -> None:
        super().__init__()
        self.queries = nn.Parameter(rand(1, 5, 2, 4))

    def forward(self, x: Tensor) -> Tensor:
        queries, keys = (self.queries * 2).transpose(1, 2), x.view(1, 6, 2, 4).transpose(1, 2)
        return F.scaled_dot_product_attention(queries, keys, keys).transpose(1, 2).reshape(1, 5, 8)


def sine_positions(x: Tensor) -> Tensor:
    """The position embedding of detection transformers."""
    omega = 1.0 / 10000 ** (torch.arange(8) / 8)
    angle = torch.arange(7)[:, None] * omega[None]
    return x + torch.cat([angle.sin(), angle.cos()], dim=1)


def weight_norm_1d() -> nn.Module:
    return weight_norm(nn.Conv1d(4, 6, 3, groups=2), dim=2)


def _counts(program: ExportedProgram) -> tuple[int, int]:
    """How many calls a program has before and after folding."""
    before, after = (
        sum(node.op == "call_function" for node in each.graph.nodes)
        for each in (program.run_decompositions({}), fold_constants(program))
    )
    return before, after


@pytest.mark.parametrize(
    ("model", "x"),
    [
        (StandardizedConv, rand(2, 3, 9, 9)),
        (weight_norm_1d, rand(2, 4, 11)),
        (Shifted, rand(3, 6)),
        (SlicedConv, rand(2, 4, 12)),
        (LearnedQueries, rand(1, 6, 8)),
        (lambda: Calls(sine_positions), rand(7, 16)),
    ],
)
def test_folded(model: Callable[[], nn.Module], x: Tensor, tmp_path: Path) -> None:
    module = model().eval()
    parameters = {name: value.clone() for name, value in module.named_parameters()}
    check_delegate(module, x, path=tmp_path)
    program = exported(module, (x,))
    before, after = _counts(program)
    assert after < before
    assert all(torch.equal(program.state_dict[name], value) for name, value in parameters.items())


class Buffered(nn.Module):
    """A method beside this one may write the buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", rand(4))

    def forward(self, x: Tensor) -> Tensor:
        return x * (self.get_buffer("scale") + 1)


class Broadcast(nn.Module):
    """A small parameter that a large table is computed from."""

    def __init__(self) -> None:
        super().__init__()
        self.row = nn.Parameter(rand(1, MAX_GROWTH // 4))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.row * torch.ones(3, 1)


class Transposed(nn.Module):
    """A view of a parameter has a name that quantization goes by."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(rand(4, 5))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight.t()


class Returned(nn.Module):
    """An output that no input decides."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(rand(4))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, self.weight * 2


class Random(nn.Module):
    """Other numbers at each call."""

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.rand(4) * 2


@pytest.mark.parametrize(
    ("model", "x"),
    [
        (Buffered(), rand(2, 4)),
        (Broadcast(), rand(3, MAX_GROWTH // 4)),
        (Transposed(), rand(2, 5)),
        (Returned(), rand(4)),
        (Random(), rand(4)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_left_as_it_is(model: nn.Module, x: Tensor) -> None:
    before, after = _counts(exported(model, (x,)))
    assert before == after
