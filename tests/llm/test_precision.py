"""Language models in low precision: nearer to the model with rounded operands than that is to the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from tests.llm import models
from tests.llm.test_families import error, tokens
from tests.test_precision import HALVES, attention_of_bfloats, in_halves, in_int8
from torch import nn
from torch.nn import functional as F

import executorch_ggml
from executorch_ggml import llm

OPTIONS: dict[str, Any] = {"max_seq_len": 64, "cache_type": "f32", "all_logits": True}


@pytest.fixture(scope="module")
def size_in_f32() -> int:
    """Bytes of a program of qwen2."""
    return len(llm.export(models.make("qwen2").eval(), **OPTIONS).buffer)


@pytest.mark.parametrize("precision", [*HALVES, "int8-dynamic"])
def test_causal_models(precision: str, size_in_f32: int, tmp_path: Path) -> None:
    model, path = models.make("qwen2").eval(), tmp_path / "model.pte"
    llm.export(model, precision=precision, **OPTIONS).save(str(path))
    assert path.stat().st_size < size_in_f32
    text = tokens(20)
    ids = torch.tensor([text])
    logits = executorch_ggml.load(path)(ids, torch.zeros(1, dtype=torch.int64)).numpy()
    rounded = in_int8(model) if precision == "int8-dynamic" else in_halves(model, precision)
    with torch.no_grad():
        exact, expected = (each(ids).logits.numpy() for each in (model, rounded))
    assert error(logits, expected) < error(exact, expected) / 3


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("precision", HALVES)
def test_half_models(precision: str, dtype: torch.dtype, tmp_path: Path) -> None:
    """Matrices that a model has in a half type are multiplied in the precision, for one token and for many."""
    model = models.make("llama").eval().to(dtype)  # whose head has a matrix of its own
    path = tmp_path / "model.pte"
    llm.export(model, precision=precision, **OPTIONS).save(str(path))
    text = tokens(20)
    program = executorch_ggml.load(path)
    parts = [(0, 11), (11, 12), (12, 20)]
    logits = torch.cat([program(torch.tensor([text[a:b]]), torch.tensor([a])) for a, b in parts], 1).numpy()
    model = model.float()
    with torch.no_grad():
        exact, expected = (each(torch.tensor([text])).logits.numpy() for each in (model, in_halves(model, precision)))
    assert error(logits, expected) < error(exact, expected) / 3


def test_half_models_have_no_layer_for_int8() -> None:
    with pytest.raises(ValueError, match="precision 'int8-dynamic': no layer"):
        llm.export(models.make("qwen2").half(), max_seq_len=16, precision="int8-dynamic")


def test_encoders(tmp_path: Path) -> None:
    model = models.make_encoder("bert").eval()
    path = tmp_path / "model.pte"
    llm.export_encoder(model, pooling="mean", normalize=True, precision="bf16").save(str(path))
    embedded = llm.Encoder(path).embed_tokens([tokens(9)])

    @torch.no_grad()
    def expected(of: nn.Module) -> Any:
        return F.normalize(of(torch.tensor([tokens(9)]))[0].mean(1)).numpy()

    exact = expected(model)
    with mock.patch.object(F, "scaled_dot_product_attention", attention_of_bfloats):
        rounded = expected(in_halves(model, "bf16"))
    assert error(embedded, rounded) < error(exact, rounded) / 3
