"""Choosing tokens: against the logits processors of `transformers`, and by what must hold of any choice."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from executorch_ggml.llm.sampling import Sampling, choose, distribution, penalized

samplings = st.builds(
    Sampling,
    repetition_penalty=st.sampled_from([1.0, 1.3, 0.7]),
    temperature=st.floats(0.1, 3.0),
    top_k=st.integers(0, 40),
    top_p=st.floats(0.05, 1.0),
    min_p=st.floats(0.0, 0.9),
)


def _logits(seed: int, count: int = 30) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.0, 2.0, count).astype(np.float32)


def _transformers(logits: np.ndarray, seen: list[int], sampling: Sampling) -> np.ndarray:
    steps = LogitsProcessorList([RepetitionPenaltyLogitsProcessor(sampling.repetition_penalty)])
    steps.append(TemperatureLogitsWarper(sampling.temperature))
    if sampling.top_k:
        steps.append(TopKLogitsWarper(sampling.top_k))
    steps.append(TopPLogitsWarper(sampling.top_p))
    steps.append(MinPLogitsWarper(sampling.min_p))
    made = steps(torch.tensor([seen]), torch.from_numpy(logits.copy())[None])
    return torch.softmax(made[0].double(), dim=-1).numpy()


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**31), sampling=samplings, seen=st.lists(st.integers(0, 29), min_size=1, max_size=8))
def test_the_distribution_is_that_of_transformers(seed: int, sampling: Sampling, seen: list[int]) -> None:
    logits = _logits(seed)
    ids, probabilities = distribution(penalized(logits, seen, sampling.repetition_penalty), sampling)
    made = np.zeros(len(logits))
    made[ids] = probabilities
    expected = _transformers(logits, seen, sampling)
    if set(np.flatnonzero(made)) == set(np.flatnonzero(expected)):
        np.testing.assert_allclose(made, expected, atol=1e-5)
    else:  # f32 sums of theirs at the border: the two differ in a token that is just in or just out
        different = set(np.flatnonzero(made)) ^ set(np.flatnonzero(expected))
        assert len(different) == 1
        raw = np.sort(np.exp(penalized(logits, seen, sampling.repetition_penalty) / sampling.temperature))[::-1]
        shares = np.cumsum(raw[: sampling.top_k or None]) / raw[: sampling.top_k or None].sum()
        borders = np.concatenate([np.abs(shares - sampling.top_p), np.abs(raw / raw[0] - sampling.min_p)])
        assert borders.min() < 1e-5


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**31), sampling=samplings, seen=st.lists(st.integers(0, 29), max_size=8))
def test_a_choice_is_among_the_likely_ones(seed: int, sampling: Sampling, seen: list[int]) -> None:
    logits = _logits(seed)
    ids, probabilities = distribution(penalized(logits, seen, sampling.repetition_penalty), sampling)
    assert abs(probabilities.sum() - 1.0) < 1e-9
    assert (probabilities > 0).all()
    assert len(set(ids.tolist())) == len(ids) <= (sampling.top_k or 30)
    assert choose(logits, seen, sampling, np.random.default_rng(seed)) in ids


def test_the_nucleus_of_a_large_vocabulary() -> None:
    logits = np.random.default_rng(0).normal(0.0, 0.01, 50_000).astype(np.float32)
    ids, _ = distribution(logits, Sampling(temperature=1.0, top_p=0.5))
    assert 24_000 < len(ids) < 25_000
    assert logits[ids].min() >= np.sort(logits)[-len(ids)]


def test_choices_follow_the_probabilities() -> None:
    logits = np.log(np.array([0.6, 0.3, 0.1], np.float32))
    random = np.random.default_rng(0)
    counts = Counter(choose(logits, (), Sampling(temperature=1.0), random) for _ in range(4000))
    assert [counts[i] / 4000 for i in range(3)] == pytest.approx([0.6, 0.3, 0.1], abs=0.03)


def test_greedy_takes_the_first_of_the_best() -> None:
    logits = np.array([0.0, 2.0, 2.0, 1.0], np.float32)
    assert choose(logits, (), Sampling(), np.random.default_rng(0)) == 1
    assert choose(logits, (1, 2), Sampling(repetition_penalty=3.0), np.random.default_rng(0)) == 3


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"temperature": -0.1}, "temperature -0.1, expected 0 or more"),
        ({"temperature": float("nan")}, "temperature nan"),
        ({"top_k": -1}, "top_k -1"),
        ({"top_p": 0.0}, "top_p 0.0, expected more than 0"),
        ({"top_p": 1.5}, "top_p 1.5"),
        ({"min_p": 2.0}, "min_p 2.0"),
        ({"repetition_penalty": 0.0}, "repetition_penalty 0.0"),
    ],
)
def test_options_without_meaning(options: dict[str, float], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Sampling(**options)  # type: ignore[arg-type] # top_k is an int


@pytest.mark.parametrize("logits", [[0.0, np.nan], [0.0, np.inf], [-np.inf, -np.inf]])
def test_logits_that_are_no_numbers(logits: list[float]) -> None:
    for sampling in (Sampling(), Sampling(temperature=1.0)):
        with pytest.raises(ValueError, match="logits that are no numbers"):
            choose(np.array(logits, np.float32), (), sampling, np.random.default_rng(0))
