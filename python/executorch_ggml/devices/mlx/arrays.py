"""MLX arrays of torch tensors and numpy arrays, and the way back."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np

from ...ir.arrays import numpy_dtype
from ...ir.dtypes import DType


def from_numpy(array: np.ndarray[Any, Any], dtype: DType) -> mx.array:
    """A copy of an array of a plain type."""
    if dtype == DType.BF16:
        return mx.array(array.view(np.uint16)).view(mx.bfloat16)
    return mx.array(array)


def kept(array: np.ndarray[Any, Any], dtype: DType) -> mx.array:
    """A copy of an array of a plain type, evaluated: any thread may read it."""
    made = from_numpy(array, dtype)
    mx.eval(made)
    return made


def to_numpy(array: mx.array, dtype: DType) -> np.ndarray[Any, Any]:
    """An evaluated array's memory."""
    if dtype == DType.BF16:
        return np.asarray(array.view(mx.uint16)).view(numpy_dtype(dtype))
    return np.asarray(array)
