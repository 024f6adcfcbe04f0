"""Which programs compute the samples of a batch apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.helpers import as_module, assert_all_same, batch_of, lowered, rand, run_apart
from torch import Tensor, nn
from torch.export import Dim

from executorch_ggml.ir.graph import Graph
from executorch_ggml.ir.parser import parse
from executorch_ggml.ir.printer import to_text
from executorch_ggml.ir.serialize import deserialize, serialize
from executorch_ggml.targets import for_targets
from executorch_ggml.targets.cpu import batch

SAMPLES = 5


class Heads(nn.Module):
    """Attention over the tokens of each sample, behind a token of the model's own."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(rand(1, 1, 16))
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1)
        return self.attention(x, x, x, need_weights=False)[0][:, 0]


class Words(nn.Module):
    """Masked mean pooling of word and position embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(11, 6)
        self.positions = nn.Parameter(rand(1, 4, 6))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        x = self.words(ids) + self.positions
        return (x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


class Steps(nn.Module):
    """The hidden state of an LSTM's last step."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 8, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.lstm(x)[0][:, -1]


def graph_of(
    function: Callable[..., Any], inputs: tuple[Tensor, ...], of_batch: tuple[bool, ...] | None = None
) -> Graph:
    dim = Dim("batch", min=3, max=64)  # some of these have no other results for one sample
    dims = of_batch or (True,) * len(inputs)
    return lowered(function, inputs, [{0: dim} if of else None for of in dims])


APART: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "layers": (nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3)), (rand(SAMPLES, 6),)),
    "layers of tokens": (nn.Sequential(nn.Linear(6, 8), nn.Softmax(-1)), (rand(SAMPLES, 7, 6),)),
    "images": (
        nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Hardswish(), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1)
        ),
        (rand(SAMPLES, 3, 8, 8),),
    ),
    "squeeze": (lambda x: x * x.mean((2, 3), keepdim=True).sigmoid(), (rand(SAMPLES, 3, 8, 8),)),
    "resizing": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (rand(SAMPLES, 3, 4, 4),)),
    "heads": (Heads(), (rand(SAMPLES, 4, 16),)),
    "words": (Words(), (torch.arange(SAMPLES * 4).reshape(SAMPLES, 4) % 11, torch.ones(SAMPLES, 4))),
    "steps": (Steps(), (rand(SAMPLES, 3, 6),)),
    "a layer of a transformer": (nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), (rand(SAMPLES, 4, 16),)),
    "not outermost meanwhile": (
        lambda x: x.transpose(0, 1).reshape(-1, 6).softmax(1).reshape(3, -1, 6).transpose(0, 1).contiguous(),
        (rand(SAMPLES, 3, 6),),
    ),
    "products": (lambda a, b: a @ b, (rand(SAMPLES, 3, 4), rand(SAMPLES, 4, 2))),
    "order": (lambda x: x.sort(-1).values, (rand(SAMPLES, 6),)),
    "running sum": (lambda x: x.cumsum(1), (rand(SAMPLES, 6),)),
    "two outputs": (lambda x: (x.relu(), x.amax(1)), (rand(SAMPLES, 6),)),
    "folded": (lambda x: x.reshape(-1, 2).exp().reshape(-1, 6), (rand(SAMPLES, 6),)),
    "zeros beside": (lambda x: torch.cat([x, torch.zeros(x.shape[0], 2)], 1), (rand(SAMPLES, 6),)),
    "padded": (lambda x: F.pad(x, (1, 2)), (rand(SAMPLES, 6),)),
    "windows": (lambda x: x[:, 1:4], (rand(SAMPLES, 6),)),
    "transposed": (lambda x: x.transpose(1, 2).contiguous(), (rand(SAMPLES, 6, 4),)),
}

MIXED: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "mean of all": (lambda x: x - x.mean(0), (rand(SAMPLES, 6),)),
    "largest of all": (lambda x: x / x.amax(), (rand(SAMPLES, 6),)),
    "batch norm by its batch": (nn.BatchNorm1d(6, track_running_stats=False), (rand(SAMPLES, 6),)),
    "softmax of all": (lambda x: x.softmax(0), (rand(SAMPLES, 6),)),
    "running sum of all": (lambda x: x.cumsum(0), (rand(SAMPLES, 6),)),
    "in another order": (lambda x: x.flip(0), (rand(SAMPLES, 6),)),
    "sorted": (lambda x: x.sort(0).values, (rand(SAMPLES, 6),)),
    "numbered": (lambda x: x + torch.arange(x.shape[0])[:, None], (rand(SAMPLES, 6),)),
    "counted": (lambda x: x / x.shape[0], (rand(SAMPLES, 6),)),
    "beside each other": (lambda x: x @ x.T, (rand(SAMPLES, 6),)),
    "each with all": (lambda x: x @ x.T @ x, (rand(SAMPLES, 6),)),
    "rest": (lambda x: x[1:], (rand(SAMPLES, 6),)),
    "one more": (lambda x: torch.cat([x, x[:1]]), (rand(SAMPLES, 6),)),
    "all": (lambda x: x.sum(), (rand(SAMPLES, 6),)),
    "one output for all": (lambda x: (x.relu(), x.amax(0)), (rand(SAMPLES, 6),)),
    "not outermost": (lambda x: x.transpose(0, 1).contiguous(), (rand(SAMPLES, 6),)),
    "triangle": (lambda x: x.tril(), (rand(SAMPLES, 6),)),
    "picked": (lambda x, index: x[index], (rand(SAMPLES, 6), torch.arange(SAMPLES).flip(0))),
    "interleaved": (lambda x: x.transpose(0, 1).reshape(-1, 6).softmax(1), (rand(SAMPLES, 3, 6),)),
}


@pytest.mark.parametrize("name", APART)
def test_samples_are_apart(name: str) -> None:
    function, inputs = APART[name]
    graph = graph_of(function, inputs)
    found = batch_of(graph)
    assert found is not None, to_text(graph)
    assert_all_same(run_apart(graph, found, inputs), as_module(function)(*inputs))


@pytest.mark.parametrize("name", MIXED)
def test_samples_are_mixed(name: str) -> None:
    assert batch_of(graph_of(*MIXED[name])) is None


def test_an_input_that_all_samples_share() -> None:
    def scaled(x: Tensor, scales: Tensor) -> Tensor:
        return x * scales

    inputs = (rand(SAMPLES, 6), rand(6))
    graph = graph_of(scaled, inputs, (True, False))
    found = batch_of(graph)
    assert found is not None
    assert_all_same(run_apart(graph, found, inputs), scaled(*inputs))


def test_a_state_is_all_samples() -> None:
    graph = parse("""
        symbol s0: input 0 dim 0, 0 to 32
        input %x: f32[4, 1, 1, s0]
        state $last: f32[4, 1, 1, 1]
        %0 = add(%x, $last): f32[4, 1, 1, s0]
        output y: %0 as [s0, 4]
    """)
    assert batch_of(batch.run(graph)) is None


def test_the_mark_stays_in_texts_and_programs() -> None:
    (marked,) = for_targets(
        parse("""
            symbol s0: input 0 dim 0, 0 to 32
            input %x: f32[4, 1, 1, s0]
            %0 = relu(%x): f32[4, 1, 1, s0]  # relu
            output y: %0 as [s0, 4]
        """),
        ["cpu"],
    )
    text = to_text(marked)
    assert text.startswith("symbol s0: input 0 dim 0, 0 to 32, batch\n")
    assert batch_of(parse(text)) is not None
    assert batch_of(deserialize(serialize(marked))) is not None


def test_other_targets_have_no_batch() -> None:
    _, stock = for_targets(
        parse("""
            symbol s0: input 0 dim 0, 0 to 32
            input %x: f32[4, 1, 1, s0]
            %0 = relu(%x): f32[4, 1, 1, s0]  # relu
            output y: %0 as [s0, 4]
        """)
    )
    assert batch_of(stock) is None
