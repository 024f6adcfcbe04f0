"""Token numbers as users give them."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Tokens: TypeAlias = npt.NDArray[np.int64]


def checked(tokens: npt.ArrayLike, vocab_size: int) -> Tokens:
    """One text's tokens; ValueError where they are no integers, those of several texts, or not in the vocabulary."""
    ids = np.atleast_1d(tokens)
    if ids.size and ids.dtype.kind not in "iu":
        raise ValueError(f"tokens of type {ids.dtype}, expected integers")
    if ids.size != ids.shape[-1]:
        raise ValueError(f"tokens of shape {list(ids.shape)}, expected those of one text")
    ids = ids.reshape(-1)
    if len(ids) and not (ids.min() >= 0 and ids.max() < vocab_size):
        wrong = ids[(ids < 0) | (ids >= vocab_size)][0]
        raise ValueError(f"token {wrong} is not in the vocabulary of {vocab_size}")
    return ids.astype(np.int64)
