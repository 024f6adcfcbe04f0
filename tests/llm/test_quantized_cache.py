"""A cache in q8_0 end to end: as near to one in f32 as rounding keys and values lets it be, and the same texts."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.llm import models
from tests.llm.test_families import Eager, error, tokens
from transformers import DynamicCache, PreTrainedModel

from executorch_ggml import llm
from executorch_ggml.ir.codec import dequantize, quantize
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.ir.serialize import deserialize
from executorch_ggml.pte import read_program

HEAD_DIM = 32  # a row of the cache is quantized head by head, in blocks of 32
MOST = 0.05  # of what is asserted to be as much as rounding does
OPTIONS: dict[str, Any] = {"max_seq_len": 300, "chunk": 64}
# Two query heads share a key head in all of them; windows of 48 in all layers, and of 40 in every other one.
FAMILIES = ["llama", "mistral", "gemma2"]


@pytest.fixture(scope="module", autouse=True)
def _heads() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        for sizes in (models.SIZES, models.ALTERNATING):
            patch.setitem(sizes, "head_dim", HEAD_DIM)
        yield


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[PreTrainedModel, Path, Path]]:
    """A model, and its programs with a cache in f32 and in q8_0."""

    @cache
    def make(family: str) -> tuple[PreTrainedModel, Path, Path]:
        model = models.make(family)
        paths = []
        for cache_type in ("f32", "q8_0"):
            paths.append(tmp_path_factory.mktemp(family) / f"{cache_type}.pte")
            made = llm.export(model, cache_type=cache_type, tokenizer=models.tokenizer(), **OPTIONS)
            made.save(str(paths[-1]))
        return model, paths[0], paths[1]

    return make


class RoundedCache(DynamicCache):
    """Keys and values as they come out of q8_0."""

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return super().update(_rounded(key_states), _rounded(value_states), *args, **kwargs)


def _rounded(states: torch.Tensor) -> torch.Tensor:
    states = states.contiguous()
    return dequantize(quantize(states, DType.Q8_0), DType.Q8_0, states.shape)


def _cache_types(path: Path) -> set[DType]:
    program, payloads = read_program(path)
    plan = next(plan for plan in program.execution_plan if plan.name == "forward")
    return {state.value.dtype for state in deserialize(payloads(plan.delegates[0])).states}


@pytest.mark.parametrize("family", models.slow_but(FAMILIES, "llama"))
def test_near_to_f32(family: str, exported: Callable[..., tuple[PreTrainedModel, Path, Path]]) -> None:
    model, plain, quantized = exported(family)
    assert (_cache_types(plain), _cache_types(quantized)) == ({DType.F32}, {DType.Q8_0})
    exact, made, rounded = llm.Generator(plain), llm.Generator(quantized), Eager(model)
    rounded.cache = RoundedCache(config=model.config)

    # What rounding the cache does to eager's logits is what it may do to ours, and as much again: ggml rounds queries
    # too, to multiply them with keys in q8_0.
    errors, expected, ids, at = [], [], tokens(300), 0
    for count in (64, 7, 1, 60, 1, 1, 64, 64, 1, 37):
        part = ids[at : at + count]
        at += count
        reference = exact.feed(part)
        errors.append(error(made.feed(part), reference))
        expected.append(error(rounded.feed(part), reference))
    assert at == 300
    assert 0 < max(errors) < 2 * max(expected) <= MOST


@pytest.mark.parametrize("family", models.slow_but(FAMILIES, "llama"))
def test_greedy_text(family: str, exported: Callable[..., tuple[PreTrainedModel, Path, Path]]) -> None:
    _, plain, quantized = exported(family)
    exact, made = llm.Generator(plain), llm.Generator(quantized)
    prompt = exact.tokenizer.encode("A text to go on from that is longer than the windows of these models are")
    text = list(made.stream_tokens(prompt, max_new_tokens=40))
    assert len(text) > 5
    logits = exact.feed(prompt)
    for token in text:  # each is f32's too, or one that f32 has as near to its own as q8_0's error is large
        assert logits.max() - logits[token] <= 2 * MOST * np.abs(logits).max()
        logits = exact.feed([token])
