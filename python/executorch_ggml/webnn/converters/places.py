"""Where resampling and pooling read: the same for all converters that say it pixel by pixel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def source_places(size: int, wanted: int) -> list[float]:
    """Where each pixel of a resized line is in the line."""
    return [min(max((i + 0.5) * size / wanted - 0.5, 0.0), size - 1.0) for i in range(wanted)]


def seen_pixels(
    sizes: Sequence[int],
    wanted: Sequence[int],
    window: Sequence[int],
    padding: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> np.ndarray[Any, Any]:
    """How many of an image's pixels each window of a pooling sees: 0 where it lies in the padding."""
    counts = []
    for i in range(2):
        starts = np.arange(wanted[i])[:, None] * strides[i] - padding[2 * i]
        taps = starts + np.arange(window[i]) * dilations[i]
        counts.append(((taps >= 0) & (taps < sizes[i])).sum(1))
    return np.outer(counts[0], counts[1])
