"""Tests of ``quant.report``: sizes, errors, and how far a model's answers move."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import nn

import executorch_ggml
from executorch_ggml.quant import GgmlQuantConfig, Importance, compare, dequantized, quantizable, report
from executorch_ggml.quant.report import relative_error

TOKENS = torch.tensor([[3, 39, 0, 7], [1, 2, 20, 30]])


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(40, 256), nn.Linear(256, 96), nn.GELU(), nn.Linear(96, 40)).eval()


def test_every_weight_has_its_line() -> None:
    made = report(model(), GgmlQuantConfig("q4_k", rules={"3.*": "f16", "head.*": "q8_0"}), [TOKENS])
    lines = {tensor.name: (tensor.type, tensor.bytes, tensor.note) for tensor in made.tensors}
    assert lines == {
        "0.weight": ("q4_k", 40 * 144, ""),
        "1.weight": ("q4_k", 96 * 144, ""),
        "3.weight": ("f16", 40 * 96 * 2, ""),
    }
    assert made.unmatched == ("head.*",)
    assert made.bytes_before == 4 * (40 * 256 + 96 * 256 + 40 * 96)
    assert made.tensors[0].error == pytest.approx(0.07, rel=0.3)
    table = str(made)
    assert "parameter" in table
    assert "1.weight   96x256  q4_k  13.5  96.0" in table
    assert "no parameter is called 'head.*'" in table
    assert "over 8 positions: KL divergence" in table


def test_without_inputs_layers_are_known_by_their_kind() -> None:
    made = report(model(), "q8_0")
    assert [tensor.name for tensor in made.tensors] == quantizable(model()) == ["0.weight", "1.weight", "3.weight"]
    assert made.quality is None


def test_fallbacks_are_noted() -> None:
    made = report(model(), "q4_k")
    assert made.tensors[2].type == "q5_0"
    assert "not q4_k: rows of 96 are no multiple of 256" in str(made)


def test_better_types_move_answers_less() -> None:
    found = [report(model(), name, [TOKENS]).quality for name in ("f16", "q8_0", "q4_0", "q2_k")]
    divergences = [quality.kl for quality in found if quality is not None]
    assert len(divergences) == 4
    assert divergences == sorted(divergences)
    assert 0 <= divergences[0] < 1e-6


def test_divergence_is_the_textbooks() -> None:
    p, q = torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]]), torch.tensor([[0.25, 0.5, 0.25], [0.1, 0.8, 0.1]])
    made = compare(p.log, lambda: q.log() + 3, [()])  # logits are what they are up to a constant
    first = 0.5 * math.log(0.5 / 0.25) + 0.25 * math.log(0.25 / 0.5)
    assert made.positions == 2
    assert made.kl == pytest.approx(first / 2)
    assert made.kl_max == pytest.approx(first)
    assert made.top1 == 0.5


def test_answers_of_a_program(tmp_path: Path) -> None:
    original = model()
    executorch_ggml.export(original, (TOKENS,), quantize="q8_0").save(str(tmp_path / "model.pte"))
    made = report(original, "q8_0", [TOKENS], program=executorch_ggml.load(tmp_path / "model.pte"))
    assert made.quality is not None
    assert 0 < made.quality.kl < 1e-4
    assert made.quality.top1 == 1.0


def test_convolutions_are_reported_as_they_are_stored(tmp_path: Path) -> None:
    torch.manual_seed(0)
    layers, x = nn.Sequential(nn.Conv1d(8, 16, 32), nn.ConvTranspose1d(16, 4, 32)).eval(), torch.randn(1, 8, 64)
    config = GgmlQuantConfig("iq2_xxs", rules={"1.*": "q4_0"}, min_elements=1)
    made = report(layers, config, [x])
    assert [tensor.type for tensor in made.tensors] == ["f16", "f16"]
    assert "not q4_0: packed for convolutions, which has no blocks" in str(made)
    executorch_ggml.export(layers, (x,), quantize=config).save(str(tmp_path / "model.pte"))
    answer = executorch_ggml.load(tmp_path / "model.pte")(x)
    torch.testing.assert_close(answer, dequantized(layers, config, x)(x), rtol=1e-5, atol=1e-5)


class Named(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = model()

    def forward(self, *, tokens: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.layers(tokens)
        return out


def test_arguments_by_name() -> None:
    named, inputs = Named(), [{"tokens": TOKENS}]
    importance = Importance.collect(named, inputs)
    assert importance.entries["layers.1.weight"].counts.tolist() == [8.0]
    made = report(named, GgmlQuantConfig("q4_k", importance=importance), inputs)
    assert [tensor.name for tensor in made.tensors] == ["layers.0.weight", "layers.1.weight", "layers.3.weight"]
    assert made.quality is not None
    assert made.quality.positions == 8


def test_a_dequantized_copy_shares_what_the_model_shares() -> None:
    tied = nn.Sequential(nn.Embedding(40, 64), nn.Linear(64, 40, bias=False))
    tied[1].weight = tied[0].weight
    made = dequantized(tied, GgmlQuantConfig("q4_0", min_elements=0))
    assert isinstance(made, nn.Sequential)
    assert made[0].weight is made[1].weight
    assert 0 < relative_error(made.get_parameter("0.weight"), tied.get_parameter("0.weight")) < 0.12
