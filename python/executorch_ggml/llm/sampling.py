"""Choosing the next token, in numpy alone: torch's threads would go on spinning beside ggml's."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Logits: TypeAlias = npt.NDArray[np.float32]
Ids: TypeAlias = npt.NDArray[np.int64]
Weights: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen; the steps are taken in this order, as ``transformers`` does.

    A ``temperature`` of 0 takes the most likely token. ``top_k`` (0: all) keeps the k most likely ones, ``top_p`` the
    fewest that together have this probability, ``min_p`` those with at least this share of the best one's.
    """

    repetition_penalty: float = 1.0
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0

    def __post_init__(self) -> None:
        """Refuse values that have no meaning."""
        faults = {
            f"temperature {self.temperature}, expected 0 or more": not 0.0 <= self.temperature < np.inf,
            f"top_k {self.top_k}, expected 0 or more": self.top_k < 0,
            f"top_p {self.top_p}, expected more than 0 and at most 1": not 0.0 < self.top_p <= 1.0,
            f"min_p {self.min_p}, expected 0 to 1": not 0.0 <= self.min_p <= 1.0,
            f"repetition_penalty {self.repetition_penalty}, expected more than 0": not (
                0.0 < self.repetition_penalty < np.inf
            ),
        }
        for fault, holds in faults.items():
            if holds:
                raise ValueError(fault)


def choose(logits: Logits, seen: Collection[int], sampling: Sampling, random: np.random.Generator) -> int:
    """The next token, given the logits over the vocabulary and the tokens up to here."""
    if not np.isfinite(logits.max()):  # nor is it where one of them is not a number
        raise ValueError("the model gave logits that are no numbers")
    logits = penalized(logits, seen, sampling.repetition_penalty)
    if sampling.temperature == 0.0:
        return int(np.argmax(logits))
    ids, probabilities = distribution(logits, sampling)
    place = np.searchsorted(np.cumsum(probabilities), random.random(), side="right")
    return int(ids[min(int(place), len(ids) - 1)])


def penalized(logits: Logits, seen: Collection[int], penalty: float) -> Logits:
    """The logits, those of tokens that were seen made less likely by a factor."""
    if penalty == 1.0 or not seen:
        return logits
    ids = np.unique(np.fromiter(seen, np.int64, len(seen)))
    made = logits.copy()
    made[ids] = np.where(logits[ids] > 0, logits[ids] / penalty, logits[ids] * penalty)
    return made


def distribution(logits: Logits, sampling: Sampling) -> tuple[Ids, Weights]:
    """The tokens that may be chosen, and their probabilities."""
    ids = _most_likely(logits, sampling.top_k) if sampling.top_k else np.arange(len(logits))
    weights = np.exp((logits[ids].astype(np.float64) - logits.max()) / sampling.temperature)
    if sampling.top_p < 1.0:
        kept = _nucleus(weights, sampling.top_p * weights.sum())
        ids, weights = ids[kept], weights[kept]
    if sampling.min_p > 0.0:
        ids, weights = ids[weights >= sampling.min_p], weights[weights >= sampling.min_p]
    return ids, weights / weights.sum()


def _nucleus(weights: Weights, mass: float) -> Ids:
    """The places of the largest weights that together have a mass, and not one more."""
    count = 256  # nearly always enough, and a vocabulary takes long to sort
    while True:
        order = _most_likely(weights, count)
        before = np.cumsum(weights[order]) - weights[order]
        kept = max(1, int(np.count_nonzero(before < mass)))
        if kept < len(order) or count >= len(weights):
            return order[:kept]
        count *= 8


def _most_likely(scores: npt.NDArray[np.floating[Any]], count: int) -> Ids:
    """The places of the largest scores, in order; of equal ones the first."""
    places: Ids = np.arange(len(scores))
    if count < len(scores):
        places = np.flatnonzero(scores >= np.partition(scores, -count)[-count])
    return places[np.argsort(-scores[places], kind="stable")][:count]
