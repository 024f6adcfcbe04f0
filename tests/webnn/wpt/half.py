"""Decimals as float16 in the way of the tests' own helper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def half(numbers: Sequence[float]) -> np.ndarray[Any, Any]:
    """Numbers as float16: halves rounded up in magnitude, magnitudes below 2**-24 flushed to a zero of their sign."""
    x = np.array(numbers, np.float64)
    size = np.abs(x)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        exponent = np.maximum(np.floor(np.log2(size)), -14.0)
        step = np.exp2(exponent - 10)
        rounded = np.floor(size / step + 0.5) * step
        rounded = np.where(size < 2.0**-24, 0.0, np.where(np.isfinite(size), rounded, size))
        return np.copysign(rounded, x).astype(np.float16)
