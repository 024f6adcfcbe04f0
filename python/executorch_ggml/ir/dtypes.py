"""Element types of the IR: one enum, its wire numbers, and its names in torch and ggml."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch as _torch


class DType(enum.IntEnum):
    """Element type of a value. The numbers are the wire format: append only."""

    F32 = 0
    F16 = 1
    BF16 = 2
    I8 = 3
    I16 = 4
    I32 = 5
    I64 = 6
    BOOL = 7
    U8 = 8
    F64 = 9

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return _ITEMSIZE[self]

    @property
    def ggml(self) -> str:
        """Name of the ``ggml_type`` that stores this type (bool and u8 live in I8's storage)."""
        return _GGML[self]

    @property
    def is_floating(self) -> bool:
        """Whether it is a type of floats, float64 included."""
        return self in (DType.F32, DType.F16, DType.BF16, DType.F64)

    @property
    def torch(self) -> _torch.dtype:
        """The ``torch.dtype`` of the same name."""
        import torch

        dtype = getattr(torch, _TORCH[self])
        assert isinstance(dtype, torch.dtype)
        return dtype

    @classmethod
    def from_torch(cls, dtype: _torch.dtype) -> DType | None:
        """The IR type of a torch dtype, or None where the IR has none."""
        return _FROM_TORCH.get(str(dtype).removeprefix("torch."))


_ITEMSIZE = {
    DType.F32: 4,
    DType.F16: 2,
    DType.BF16: 2,
    DType.I8: 1,
    DType.I16: 2,
    DType.I32: 4,
    DType.I64: 8,
    DType.BOOL: 1,
    DType.U8: 1,
    DType.F64: 8,
}
_GGML = {dtype: f"GGML_TYPE_{'I8' if dtype in (DType.BOOL, DType.U8) else dtype.name}" for dtype in DType}
_TORCH = {
    DType.F32: "float32",
    DType.F16: "float16",
    DType.BF16: "bfloat16",
    DType.I8: "int8",
    DType.I16: "int16",
    DType.I32: "int32",
    DType.I64: "int64",
    DType.BOOL: "bool",
    DType.U8: "uint8",
    DType.F64: "float64",
}
_FROM_TORCH = {name: dtype for dtype, name in _TORCH.items()}
