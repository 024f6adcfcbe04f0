"""The best classes in the outputs of a classifier."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

Array = np.ndarray[Any, Any]
_USUAL = 5


def best_classes(outputs: Sequence[Array], labels: Sequence[str], top: int | None) -> list[list[dict[str, Any]]] | None:
    """For each row of the first output ``[batch, classes]`` its best classes; None where nobody asks for them.

    Without ``top``, these are five if there is a label for each class. Raises ValueError where no output has classes,
    and for another number of labels than classes.
    """
    scores = next((output for output in outputs if _are_scores(output)), None)
    if top is None:
        top = _USUAL if scores is not None and len(labels) == scores.shape[1] else 0
    if top == 0:
        return None
    if scores is None:
        shapes = ", ".join(str(list(output.shape)) for output in outputs)
        raise ValueError(f"--top: no output has a score for each class, [batch, classes]; the shapes are {shapes}")
    if labels and len(labels) != scores.shape[1]:
        raise ValueError(f"there are {len(labels)} labels, and the program has {scores.shape[1]} classes")
    return [_best(row, shares, labels, top) for row, shares in zip(scores, _probabilities(scores), strict=True)]


def lines_of_classes(classes: Sequence[Sequence[dict[str, Any]]]) -> Iterator[str]:
    """The same to be read."""
    for number, row in enumerate(classes):
        if len(classes) > 1:
            yield f"row {number}:"
        for best in row:
            yield f"  {best['probability']:7.2%}  {best.get('label', best['class'])}"


def _are_scores(output: Array) -> bool:
    return output.ndim == 2 and output.shape[1] > 1 and np.issubdtype(output.dtype, np.floating)


def _best(scores: Array, shares: Array, labels: Sequence[str], top: int) -> list[dict[str, Any]]:
    found = np.argsort(-scores, kind="stable")[:top]
    named = ({"label": labels[index]} if labels else {} for index in found)
    return [
        {"class": int(index), **name, "score": float(scores[index]), "probability": float(shares[index])}
        for index, name in zip(found, named, strict=True)
    ]


def _probabilities(scores: Array) -> Array:
    """Rows of probabilities as they are, and the softmax of others."""
    rows = scores.astype(np.float64)
    if (rows >= 0).all() and np.allclose(rows.sum(axis=1), 1, atol=1e-3):
        return rows
    shares: Array = torch.from_numpy(rows).softmax(1).numpy()
    return shares
