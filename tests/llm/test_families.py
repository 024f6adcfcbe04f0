"""Each family of models gives what eager `transformers` does with its own cache, in one delegate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.llm import models
from tests.llm.conftest import Exported
from transformers import DynamicCache, PreTrainedModel

from executorch_ggml import llm
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.ir.serialize import deserialize
from executorch_ggml.pte import outside_calls, read_program

# Those whose caches are not f32, with what that may change; and whose logits of all tokens are asked for.
OPTIONS: dict[str, dict[str, Any]] = {
    "mistral": {"cache_type": "f16"},
    "gemma3": {"cache_type": "f16"},
    "qwen2": {"all_logits": True},
}
TOLERANCES = {"f32": 1e-4, "f16": 5e-3}


class Eager:
    """The same calls of the model itself."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model
        self.cache = DynamicCache(config=model.config)

    def feed(self, tokens: list[int]) -> np.ndarray:
        with torch.no_grad():
            made = self.model(torch.tensor([tokens]), past_key_values=self.cache, use_cache=True)
        return made.logits[0, -1].numpy()


def error(made: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, relative to the largest number."""
    return float(np.abs(made - expected).max() / np.abs(expected).max())


def tokens(count: int) -> list[int]:
    """Random tokens, the same each time."""
    return np.random.default_rng(count).integers(3, 101, count).tolist()


@pytest.mark.parametrize("family", ["qwen2", pytest.param("gpt2", marks=pytest.mark.slow)])
def test_half_precision(family: str, tmp_path: Path) -> None:
    model = models.make(family).to(torch.bfloat16)
    path = tmp_path / "model.pte"
    llm.export(model, max_seq_len=64, cache_type="f32").save(str(path))
    assert model.dtype == torch.bfloat16
    program, payloads = read_program(path)
    plan = next(plan for plan in program.execution_plan if plan.name == "forward")
    graph = deserialize(payloads(plan.delegates[0]))
    matrices = {constant.value.dtype for constant in graph.constants if constant.value.ne[1] != 1}
    assert matrices == {DType.BF16}
    made = llm.Generator(path).feed(tokens(40))
    assert error(made, Eager(model.float()).feed(tokens(40))) < 0.03  # ggml rounds what matrices are multiplied with


@pytest.mark.parametrize("family", models.slow_but(models.FAMILIES, "llama", "qwen3_moe", "phi3", "gptj"))
def test_logits(family: str, exported: Callable[..., Exported]) -> None:
    options = OPTIONS.get(family, {})
    model, path = exported(family, **options)
    tolerance = TOLERANCES[options.get("cache_type", "f32")]
    program, _ = read_program(path)
    plans = {plan.name: plan for plan in program.execution_plan}
    for name in ("forward", "prefill", "decode"):
        assert [delegate.id for delegate in plans[name].delegates] == ["GgmlBackend"]
        assert [op.name for op in plans[name].operators] == ["aten::_local_scalar_dense"]
    assert outside_calls(plans["forward"]) == 1

    generator, eager, ids = llm.Generator(path), Eager(model), tokens(600)
    at = 0
    for count in (5, 64, 1, 1, 33, 150, 1, 1, 1, 300, 1, 42):  # in chunks, up to the limit
        part = ids[at : at + count]
        at += count
        made = generator.feed(part)
        expected = [eager.feed(part[i : i + 64]) for i in range(0, count, 64)][-1]
        assert error(made, expected) < tolerance, f"{count} tokens up to {at}"
    assert at == 600


@pytest.mark.parametrize(
    ("family", "max_seq_len", "reason"),
    [
        ("gpt_neo", 64, "GPTNeoForCausalLM is not known: with a cache its logits are .*% off those without one"),
        ("gpt_neo", 600, "GPTNeoForCausalLM is not known: with a cache its logits are .*% off those without one"),
        ("led", 64, "LEDForConditionalGeneration does not work with this cache: "),
        ("mamba", 64, "MambaForCausalLM does not work with this cache: "),
    ],
)
def test_models_that_have_a_way_of_their_own(family: str, max_seq_len: int, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        llm.export(models.make(family), max_seq_len=max_seq_len)
