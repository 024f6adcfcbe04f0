"""The process's memory as arrays, by address."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ..ir.dtypes import DType
from .arrays import numpy_dtype

_view = ctypes.pythonapi.PyMemoryView_FromMemory
_view.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int]
_view.restype = ctypes.py_object
_WRITABLE = 0x200


def as_array(
    address: int, dtype: DType, shape: Sequence[int], strides: Sequence[int] | None = None
) -> np.ndarray[Any, Any]:
    """An array of what lies at an address; nobody keeps it there."""
    item = numpy_dtype(dtype)
    size = dtype.itemsize
    if 0 in shape:
        return np.empty(shape, item)
    if strides is None:
        strides = [size] * len(shape)
        for dim in range(len(shape) - 2, -1, -1):
            strides[dim] = strides[dim + 1] * shape[dim + 1]
    extent = size + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
    return np.ndarray(shape, item, _view(address, extent, _WRITABLE), 0, strides)


def as_tensor(address: int, dtype: DType, count: int) -> torch.Tensor:
    """The elements at an address, of quantized types the bytes, as a tensor of one dim."""
    if dtype.is_quantized:
        return torch.from_numpy(as_array(address, DType.U8, (dtype.nbytes(count),)))
    array = as_array(address, dtype, (count,))
    if dtype == DType.BF16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)
