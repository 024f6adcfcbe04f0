"""numpy arrays of the IR's types. bfloat16 is ``ml_dtypes.bfloat16`` where that package is there, else uint16."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ._lazy import torch
from .dtypes import DType

if TYPE_CHECKING:
    from .graph import Constant

try:
    _BF16: np.dtype[Any] = np.dtype(importlib.import_module("ml_dtypes").bfloat16)
except ImportError:
    _BF16 = np.dtype(np.uint16)

_BYTES: np.dtype[Any] = np.dtype(np.uint8)
_NUMPY: dict[DType, np.dtype[Any]] = {
    DType.F32: np.dtype(np.float32),
    DType.F16: np.dtype(np.float16),
    DType.BF16: _BF16,
    DType.I8: np.dtype(np.int8),
    DType.I16: np.dtype(np.int16),
    DType.I32: np.dtype(np.int32),
    DType.I64: np.dtype(np.int64),
    DType.BOOL: np.dtype(np.bool_),
    DType.U8: np.dtype(np.uint8),
    DType.F64: np.dtype(np.float64),
}


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """The numpy type of an IR type; of a quantized one that of its bytes."""
    return _NUMPY.get(dtype, _BYTES)


class _Writable:
    """A read-only array as one that may be written to: torch has no read-only tensors, and warns of such arrays."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array  # kept as long as its memory is seen
        interface = array.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}


def as_torch(array: np.ndarray[Any, Any], dtype: DType) -> torch.Tensor:
    """An array as a torch tensor of the same memory, which is not to be written to where the array is read-only."""
    if dtype == DType.BF16:
        return as_torch(array.view(np.int16), DType.I16).view(torch.bfloat16)
    return torch.from_numpy(array if array.flags.writeable else np.asarray(_Writable(array)))


def as_numpy(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """A torch tensor as an array of the same memory."""
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(_BF16)
    return tensor.numpy()


class Contents:
    """A constant's data: called it is a tensor, as the IR has it; devices that need no torch take the array.

    ``identity`` is the same for the same data alone, in all graphs of the process: a device can convert it once.
    """

    def __init__(self, array: Callable[[], np.ndarray[Any, Any]], dtype: DType, identity: str) -> None:
        self.array = array
        self.identity = identity
        self._dtype = dtype

    def __call__(self) -> torch.Tensor:
        """A tensor of one dim, of a quantized type its bytes, in the array's memory."""
        return as_torch(self.array(), self._dtype)


def contents(constant: Constant) -> np.ndarray[Any, Any]:
    """A constant's data in one dim, of a quantized type its bytes."""
    data = constant.data
    if data is None:
        raise ValueError(f"constant {constant.key!r} has no data")
    array = data.array() if isinstance(data, Contents) else as_numpy(data().detach().contiguous())
    return array.reshape(-1)
