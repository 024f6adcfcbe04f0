"""The process's memory as arrays, by address."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.arrays import numpy_dtype
from ...ir.dtypes import DType

_view = ctypes.pythonapi.PyMemoryView_FromMemory
_view.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int]
_view.restype = ctypes.py_object
_READABLE, _WRITABLE = 0x100, 0x200


def as_array(
    address: int,
    dtype: DType,
    shape: Sequence[int],
    strides: Sequence[int] | None = None,
    *,
    writable: bool = False,
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
    return np.ndarray(shape, item, _view(address, extent, _WRITABLE if writable else _READABLE), 0, strides)


def elements(address: int, dtype: DType, count: int) -> np.ndarray[Any, Any]:
    """The elements at an address, of quantized types the bytes, in one dim."""
    if dtype.is_quantized:
        return as_array(address, DType.U8, (dtype.nbytes(count),))
    return as_array(address, dtype, (count,))
