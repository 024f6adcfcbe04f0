"""Encoder-decoder models give what eager `transformers` does: logits at all positions and lengths, and greedy texts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.llm import models
from tests.llm.conftest import Exported
from tests.llm.test_families import error, tokens
from torch import Tensor
from transformers import PreTrainedModel

import executorch_ggml
from executorch_ggml import llm
from executorch_ggml.llm.start import start_metadata
from executorch_ggml.pte import outside_calls, read_program

SIZES: dict[str, Any] = {"max_seq_len": 280, "max_source_len": 300, "chunk": 64}


def source_of(model: PreTrainedModel, length: int) -> Tensor:
    """A random source; features have all the same length."""
    if model.main_input_name == "input_features":
        return torch.randn(1, 8, 60, generator=torch.Generator().manual_seed(length))
    return torch.tensor([tokens(length)])


def eager_logits(model: PreTrainedModel, source: Tensor, ids: list[int]) -> np.ndarray:
    with torch.no_grad():
        made = model(**{model.main_input_name: source}, decoder_input_ids=torch.tensor([ids]))
    return made.logits[0].numpy()


@pytest.mark.parametrize("family", models.slow_but(models.ENCODER_DECODERS, "t5"))
def test_logits(family: str, exported: Callable[..., Exported]) -> None:
    model, path = exported(family, **SIZES)
    plans = {plan.name: plan for plan in read_program(path)[0].execution_plan}
    sizes = 1 if family == "whisper" else 2  # the position, and the length of the source where that varies
    for name, outside in {"encode": 0, "forward": sizes, "decode": sizes}.items():
        assert [delegate.id for delegate in plans[name].delegates] == ["GgmlBackend"]
        assert outside_calls(plans[name]) == outside
    generator, ids = llm.Generator(path), tokens(280)
    for length in (300, 17, 1):  # what a longer source left behind is not read
        source = source_of(model, length)
        expected = eager_logits(model, source, ids)
        generator.encode(source.numpy()[0])
        at = 0
        for count in (1, 3, 1, 60, 1, 150, 1, 63):  # in chunks, up to the limit
            logits = generator.feed(ids[at : at + count])
            at += count
            assert error(logits, expected[at - 1]) < 1e-4, f"source of {length}, {count} tokens up to {at}"
        assert at == 280


@pytest.mark.parametrize("family", models.slow_but(models.ENCODER_DECODERS, "t5"))
def test_greedy_is_eager(family: str, exported: Callable[..., Exported]) -> None:
    model, path = exported(family, **SIZES)
    generator = llm.Generator(path)
    for length in (9, 40):
        source = source_of(model, length)
        expected = model.generate(source, max_new_tokens=20, do_sample=False, num_beams=1)[0].tolist()
        made = list(generator.stream_tokens(source.numpy()[0], max_new_tokens=20))
        start = [] if family == "whisper" else generator.metadata["get_start_ids"]  # Whisper's generate leaves it out
        whole = [*start, *made]
        assert whole[: len(expected)] == expected[: len(whole)]
        assert len(made) == 20 or expected[len(whole)] == 2


def test_suppressed_tokens(exported: Callable[..., Exported]) -> None:
    generator = llm.Generator(exported("whisper", **SIZES)[1])
    logits = np.zeros(101, np.float32)
    assert np.flatnonzero(np.isinf(generator._allowed(logits, 0))).tolist() == [2, 7, 8, 9, 10]
    assert np.flatnonzero(np.isinf(generator._allowed(logits, 1))).tolist() == [7, 8, 9]
    assert not np.isinf(logits).any()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, [3, -1, 24]),
        ({"language": "german"}, [3, 21, 22, 24]),
        ({"language": "de", "task": "translate"}, [3, 21, 23, 24]),
        ({"language": "<|fr|>"}, [3, 25, 22, 24]),
        ({"forced_decoder_ids": [[1, None], [2, 22]]}, [3, -1, 22, 24]),
        ({"forced_decoder_ids": [[1, None], [2, 22]], "language": "en"}, [3, 20, 22, 24]),
        ({"forced_decoder_ids": [[1, 24]], "lang_to_id": None}, [3, 24]),
    ],
)
def test_what_whisper_starts_with(fields: dict[str, Any], expected: list[int]) -> None:
    model = models.make("whisper")
    for name, value in fields.items():
        setattr(model.generation_config, name, value)
    assert start_metadata(model)["get_start_ids"] == expected


def test_sources_and_starts(exported: Callable[..., Exported]) -> None:
    generator = llm.Generator(exported("t5", **SIZES)[1])
    with pytest.raises(ValueError, match="the encoder has read nothing yet: call encode first"):
        generator.feed([0])
    for ids, reason in (([5] * 301, "the source has 301 tokens, .* 1 to 300"), ([], "the source has 0 tokens")):
        with pytest.raises(ValueError, match=reason):
            generator.stream(ids)
    with pytest.raises(ValueError, match="token 101 is not in the vocabulary of 101"):
        generator.encode([101])
    with pytest.raises(RuntimeError, match=r"dtype torch\.float32, expected torch.int64"):
        generator.encode(np.zeros((8, 60), np.float32))
    started = list(generator.stream_tokens("A text", max_new_tokens=5, start=[0, 9]))
    generator.encode(generator.tokenizer.encode("A text"))
    assert int(np.argmax(generator.feed([0, 9]))) == started[0]
    text = generator.stream("A text", max_new_tokens=5)
    assert "".join(text) == text.text
    assert text.timing.first_token_seconds > text.timing.encode_seconds > 0
    generator.reset()
    with pytest.raises(ValueError, match="call encode first"):
        generator.feed([0])
    causal = llm.Generator(exported("llama")[1])
    with pytest.raises(ValueError, match="the program's model has no encoder"):
        causal.encode([5])
    with pytest.raises(ValueError, match="start is for models with an encoder"):
        causal.stream([5], start=[0])


@pytest.mark.parametrize(
    ("tokens", "position", "length", "reason"),
    [
        ([[101]], 0, 5, "101"),
        ([[5]], 280, 5, "280.*outside the 0 to 279"),
        ([[5]], 0, 301, "301.*outside the"),
        ([[5]], 0, -1, "-1.*outside the"),
        ([[5]], 0, 0, "0.*outside the 1 to 300"),
    ],
)
def test_the_program_itself_refuses(
    exported: Callable[..., Exported], tokens: list[list[int]], position: int, length: int, reason: str
) -> None:
    module = executorch_ggml.load(exported("t5", **SIZES)[1])
    module.run("encode", (torch.tensor([[5, 6, 7]]),))
    with pytest.raises(RuntimeError, match=reason):
        module.run("decode", (torch.tensor(tokens), torch.tensor([position]), torch.tensor([length])))


def test_half_precision_and_a_quantized_cache(tmp_path: Path) -> None:
    model = models.make("bart").to(torch.bfloat16)
    path = tmp_path / "model.pte"
    llm.export(model, max_seq_len=40, cache_type="q8_0").save(str(path))
    assert model.dtype == torch.bfloat16
    generator, source, ids = llm.Generator(path), torch.tensor([tokens(30)]), tokens(20)
    generator.encode(source[0].tolist())
    assert error(generator.feed(ids), eager_logits(model.float(), source, ids)[-1]) < 0.05


def test_bad_exports() -> None:
    whisper, bart = models.make("whisper"), models.make("bart")
    llama = models.make("llama")
    cases: list[tuple[PreTrainedModel, dict[str, Any], str]] = [
        (whisper, {"max_seq_len": 281}, "max_seq_len 281, but the model was made for at most 280"),
        (bart, {"max_seq_len": 8, "max_source_len": 301}, "max_source_len 301, expected 1 to 300"),
        (bart, {"max_seq_len": 8, "max_source_len": 0}, "max_source_len 0, expected 1 to 300"),
        (llama, {"max_seq_len": 8, "max_source_len": 8}, "max_source_len 8, but LlamaForCausalLM has no encoder"),
    ]
    for model, options, reason in cases:
        with pytest.raises(ValueError, match=reason):
            llm.export(model, **options)
    bart.main_input_name = "pixel_values"
    with pytest.raises(ValueError, match="BartForConditionalGeneration: its encoder reads pixel_values; known are"):
        llm.export(bart, max_seq_len=8)


def test_what_decoders_start_with() -> None:
    t5, marian = models.make("t5"), models.make("marian")
    assert start_metadata(t5) == {"get_start_ids": [0]}
    t5.generation_config.decoder_start_token_id = t5.config.decoder_start_token_id = None
    with pytest.raises(ValueError, match="decoder_start_token_id is None in the model's generation config"):
        start_metadata(t5)
    marian.generation_config.bad_words_ids = [[7], [8, 9]]
    assert start_metadata(marian) == {"get_start_ids": [0], "get_suppressed_ids": [7]}
