"""Sentence encoders give what eager `transformers` does, and read the files of `sentence-transformers`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.llm import models
from tests.llm.test_families import error
from torch import nn
from transformers import AutoModel, PreTrainedModel, PreTrainedTokenizerFast

import executorch_ggml
from executorch_ggml import llm
from executorch_ggml.llm.pooling import POOLINGS, Pooling, pooling_of
from executorch_ggml.llm.sentence_encoder import PooledModel
from executorch_ggml.pte import outside_calls, read_program

# How each of the models is pooled, and whether its embeddings have length 1.
HOW = {
    "bert": ("mean", True),
    "mpnet": ("cls", False),
    "roberta": ("max", True),
    "qwen3": ("lasttoken", True),
    "mistral": ("mean", False),
}
LENGTHS = (5, 60, 1, 33, 5, 17, 2)


def texts_of(lengths: Sequence[int]) -> list[list[int]]:
    random = np.random.default_rng(len(lengths))
    return [random.integers(4, 101, length).tolist() for length in lengths]


def eager(model: PreTrainedModel, how: tuple[str, bool], texts: Sequence[Sequence[int]]) -> np.ndarray:
    """Each text by itself, without padding."""
    module = PooledModel(model, *how)
    rows = [torch.tensor([ids]) for ids in texts]
    with torch.no_grad():
        return np.concatenate([module(row, torch.ones_like(row)).numpy() for row in rows])


@pytest.mark.parametrize("family", models.slow_but(HOW, "bert", "qwen3"))
def test_embeddings(family: str, tmp_path: Path) -> None:
    model, how, path = models.make_encoder(family), HOW[family], tmp_path / "model.pte"
    pooling, normalize = how
    llm.export_encoder(model, pooling=pooling, normalize=normalize, max_seq_len=60, max_batch=4).save(str(path))
    (plan,) = [plan for plan in read_program(path)[0].execution_plan if plan.name == "forward"]
    assert [delegate.id for delegate in plan.delegates] == ["GgmlBackend"]
    assert outside_calls(plan) == 0
    encoder, texts = llm.Encoder(path), texts_of(LENGTHS)
    expected = eager(model, how, texts)
    assert error(encoder.embed_tokens(texts), expected) < 1e-4  # in batches, the shorter ones padded
    for ids, one in zip(texts, expected, strict=True):
        assert error(encoder.embed_tokens([ids])[0], one) < 1e-4
    with pytest.raises(ValueError, match="text 1 has 61 tokens, but the program was exported for 1 to 60"):
        encoder.embed_tokens([[5], [5] * 61])
    with pytest.raises(ValueError, match="text 0: token 101 is not in the vocabulary of 101"):
        encoder.embed_tokens([[5, 101]])
    with pytest.raises(ValueError, match="text 1: tokens of type float64, expected integers"):
        encoder.embed_tokens([[5], [1.5]])  # type: ignore[list-item] # what is tested
    with pytest.raises(ValueError, match="the program has no tokenizer in it"):
        encoder.embed("text")


@pytest.mark.parametrize("mode", POOLINGS)
def test_poolings_are_those_of_sentence_transformers(mode: str) -> None:
    modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    states, mask = torch.randn(3, 5, 4), torch.tensor([[1, 1, 1, 1, 1], [1, 0, 0, 0, 0], [1, 1, 1, 0, 0]])
    features = {"token_embeddings": states, "attention_mask": mask}
    expected = modules.Pooling(4, pooling_mode=mode)(features)["sentence_embedding"]
    torch.testing.assert_close(POOLINGS[mode](states, mask), expected)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint as sentence-transformers writes it, with a tokenizer that pads and cuts."""
    folder = tmp_path_factory.mktemp("checkpoint")
    models.make_encoder("bert").save_pretrained(folder)
    model = models.tokenizer().model
    model.enable_padding(length=50)
    model.enable_truncation(50)
    PreTrainedTokenizerFast(tokenizer_object=model, pad_token="<unk>").save_pretrained(folder)
    kinds = ("Transformer", "Pooling", "Normalize")
    modules = [{"type": f"sentence_transformers.models.{kind}", "path": f"{i}_{kind}"} for i, kind in enumerate(kinds)]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(
        json.dumps({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False})
    )
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 24}))
    return folder


def test_a_folder(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.pte"
    llm.export_encoder(folder, max_batch=1).save(str(path))
    encoder, texts = llm.Encoder(path), ["A text", "and one more than that"]
    tokenizer = models.tokenizer()
    expected = eager(AutoModel.from_pretrained(folder).eval(), ("cls", True), [tokenizer.encode(t) for t in texts])
    assert encoder.max_seq_len == 24
    assert error(encoder.embed(texts), expected) < 1e-4
    assert error(encoder.embed(texts[0]), expected[0]) < 1e-4
    with pytest.raises(ValueError, match=r"text 0 has 30 tokens, .* 1 to 24; truncate=True cuts"):
        encoder.embed("x" * 30)
    np.testing.assert_array_equal(encoder.embed("x" * 30, truncate=True), encoder.embed("x" * 24))
    with pytest.raises(ValueError, match="no texts to embed"):
        encoder.embed([])


def test_pooling_files(folder: Path, tmp_path: Path) -> None:
    assert pooling_of(folder) == Pooling("cls", True, 24)
    assert pooling_of(tmp_path) == Pooling("mean", False, None)
    (tmp_path / "1_Pooling").mkdir()
    for config, reason in (
        ({"pooling_mode": "weightedmean"}, "pooling by weightedmean, expected one of mean, max, cls, lasttoken"),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}, "pooling by cls and mean"),
    ):
        (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(config))
        with pytest.raises(ValueError, match=reason):
            pooling_of(tmp_path)
    (tmp_path / "modules.json").write_text(json.dumps([{"type": "sentence_transformers.models.Dense", "path": "2"}]))
    with pytest.raises(ValueError, match="modules of type Dense are not known"):
        pooling_of(tmp_path)


def test_bad_exports(tmp_path: Path) -> None:
    model = models.make_encoder("bert")
    cases: list[tuple[Callable[[], Any], str]] = [
        (lambda: llm.export_encoder(model, pooling="median"), "pooling 'median', expected one of mean, max"),
        (lambda: llm.export_encoder(model, max_seq_len=65), "max_seq_len 65, .* at most 64 positions"),
        (lambda: llm.export_encoder(model, max_batch=0), "max_batch 0, expected 1 or more"),
        (lambda: llm.export_encoder(models.make("qwen2"), max_seq_len=8), "Qwen2ForCausalLM gives no last_hidden"),
        (lambda: llm.export_encoder(models.make("whisper")), "WhisperForConditionalGeneration reads input_features"),
    ]
    for call, reason in cases:
        with pytest.raises(ValueError, match=reason):
            call()
    with pytest.raises(FileNotFoundError, match="no such folder"):
        llm.export_encoder(tmp_path / "none")
    path = tmp_path / "linear.pte"
    executorch_ggml.export(nn.Linear(2, 2), (torch.ones(1, 2),)).save(str(path))
    with pytest.raises(ValueError, match="not a program of a sentence encoder: it has no get_max_batch_size"):
        llm.Encoder(path)
