"""Rotary embeddings of type ``longrope``: texts below, at and past the length from which on other factors are used."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.llm.models import SIZES, randomized
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, Phi3Config, Phi3ForCausalLM, PreTrainedModel

import executorch_ggml
from executorch_ggml import llm
from executorch_ggml.gguf import export_gguf, load
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.llm.rotary import fixed_rotary, short_limit

LIMIT, LONGEST = 64, 128
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "factor": LONGEST / LIMIT,
    "original_max_position_embeddings": LIMIT,
}
TOKENS = np.random.default_rng(0).integers(3, 96, LONGEST).tolist()
WARNING = "rotates texts of up to 64 tokens by other factors than longer ones"


def phi3() -> PreTrainedModel:
    config = Phi3Config(
        vocab_size=96,
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=LONGEST,
        original_max_position_embeddings=LIMIT,
        rope_parameters={
            **LONGROPE,
            "short_factor": [1.0 + 0.1 * i for i in range(8)],
            "long_factor": [1.0 + i for i in range(8)],
        },
        bos_token_id=1,
        eos_token_id=None,
        pad_token_id=None,
    )
    return randomized(Phi3ForCausalLM(config), seed=0)


def eager(model: PreTrainedModel, ids: Sequence[int]) -> np.ndarray:
    """The logits after a text, by the model without a cache."""
    with torch.no_grad():
        logits: torch.Tensor = model(torch.tensor([list(ids)]), use_cache=False).logits
    return logits[0, -1].numpy()


def assert_close(logits: Any, expected: np.ndarray) -> None:
    np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-4 * float(np.abs(expected).max()))


@pytest.fixture(scope="module", params=[pytest.param("transformers", marks=pytest.mark.slow), "gguf"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program for texts of both kinds, of the model itself and of its GGUF file."""
    path = tmp_path_factory.mktemp("longrope") / "model.pte"
    model, weights = phi3(), None
    if request.param == "gguf":
        export_gguf(model, path.with_suffix(".gguf"), types=DType.F32, metadata={"tokenizer.ggml.model": "no_vocab"})
        rebuilt = load(path.with_suffix(".gguf"))
        model, weights = rebuilt.module, rebuilt.weights
    with pytest.warns(UserWarning, match=WARNING):
        exported = llm.export(model, max_seq_len=LONGEST, chunk=32, cache_type="f32", weights=weights)
    exported.save(str(path))
    return path


def test_a_prompt_of_any_length_is_what_eager_computes(program: Path) -> None:
    model, generator = phi3(), llm.Generator(program)
    for length in (1, 20, 63, 64, 65, 100, 64, 128):
        generator.rewind(0)
        assert_close(generator.feed(TOKENS[:length]), eager(model, TOKENS[:length]))


def test_a_text_that_grows_past_the_limit_is_read_again(program: Path) -> None:
    model, generator = phi3(), llm.Generator(program)
    generator.feed(TOKENS[:60])
    for length in range(61, 69):
        assert_close(generator.feed(TOKENS[length - 1 : length]), eager(model, TOKENS[:length]))
    generator.rewind(50)
    assert_close(generator.feed(TOKENS[50:64]), eager(model, TOKENS[:64]))


def test_generation_is_that_of_transformers(program: Path) -> None:
    model, generator = phi3(), llm.Generator(program)
    expected = model.generate(torch.tensor([TOKENS[:58]]), max_new_tokens=20, do_sample=False)[0, 58:]
    assert list(generator.stream_tokens(TOKENS[:58], max_new_tokens=20)) == expected.tolist()
    again = generator.stream_tokens(TOKENS[:58], max_new_tokens=20)  # the cache has the keys of a longer text
    assert list(again) == expected.tolist()


def test_each_method_has_factors_of_its_own(program: Path) -> None:
    module, model = executorch_ggml.load(program), phi3()

    def run(method: str, position: int, count: int) -> Any:
        tokens = torch.tensor([TOKENS[position : position + count]])
        return module.run(method, (tokens, torch.tensor([position])))[0].numpy()

    with fixed_rotary(model, LIMIT + 1):  # as llama.cpp with a context that is longer than the limit
        assert_close(run("forward", 0, 20), eager(model, TOKENS[:20]))
        assert_close(run("decode", 20, 1), eager(model, TOKENS[:21]))
    run("forward_short", 0, 32)
    assert_close(run("forward_short", 32, 32), eager(model, TOKENS[:64]))
    for position, count in ((64, 1), (63, 2), (40, 32)):
        with pytest.raises(RuntimeError, match=r"forward_short: .*64.*(outside the 0 to 63|out of range for size 64)"):
            run("forward_short", position, count)


def test_a_program_for_short_texts_has_their_factors_alone(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    model, path = phi3(), tmp_path / "model.pte"
    llm.export(model, max_seq_len=LIMIT, chunk=LIMIT, cache_type="f32").save(str(path))
    assert not [warning for warning in recwarn if "factors" in str(warning.message)]
    generator = llm.Generator(path)
    assert "forward_short" not in executorch_ggml.load(path).method_names
    assert_close(generator.feed(TOKENS[:LIMIT]), eager(model, TOKENS[:LIMIT]))
    with pytest.raises(ValueError, match="64 tokens and 1 more: the program was exported for 64"):
        generator.feed([5])


def test_texts_of_one_batch_have_the_same_factors(tmp_path: Path) -> None:
    model = phi3().base_model
    lengths = (20, LIMIT, LIMIT + 1, LONGEST, 3)

    def pooled(length: int) -> np.ndarray:
        with torch.no_grad():
            states: torch.Tensor = model(torch.tensor([TOKENS[:length]]), use_cache=False).last_hidden_state
        assert type(states) is torch.Tensor  # no fake one
        return states.mean(1)[0].numpy()

    path = tmp_path / "encoder.pte"
    program = llm.export_encoder(model, pooling="mean", normalize=False, max_seq_len=LONGEST, max_batch=8)
    program.save(str(path))
    embeddings = llm.Encoder(path).embed_tokens([TOKENS[:length] for length in lengths])
    for embedding, length in zip(embeddings, lengths, strict=True):
        assert_close(embedding, pooled(length))


def gemma3(**changes: Any) -> PreTrainedModel:
    """A model with rotary embeddings for each type of its layers."""
    factors = {"short_factor": [1.0] * 8, "long_factor": [2.0] * 8}
    config = Gemma3TextConfig(
        **{**SIZES, "num_hidden_layers": 2},
        layer_types=["sliding_attention", "full_attention"],
        sliding_window=16,
        rope_parameters={
            "full_attention": {**LONGROPE, **factors},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0, **changes},
        },
    )
    return randomized(Gemma3ForCausalLM(config), seed=0)


def test_layers_of_different_types() -> None:
    model = gemma3()
    assert short_limit(model.config) == LIMIT
    for length in (LIMIT, LIMIT + 1):
        expected = eager(model, TOKENS[:length])
        with fixed_rotary(model, length):
            assert_close(eager(model, TOKENS[:length]), expected)
    with fixed_rotary(model, LIMIT + 1):
        long = eager(model, TOKENS[:LIMIT])
    assert np.abs(long - eager(model, TOKENS[:LIMIT])).max() > 1e-2
    other = gemma3(
        **{**LONGROPE, "original_max_position_embeddings": 32}, short_factor=[1.0] * 8, long_factor=[2.0] * 8
    )
    with pytest.raises(ValueError, match=r"original_max_position_embeddings \[32, 64\]: expected the same"):
        short_limit(other.config)
