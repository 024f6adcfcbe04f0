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
    # Quantized: blocks of a row share their scales. Constants and states may be of these, read whole rows at a time.
    Q4_0 = 10
    Q4_1 = 11
    Q5_0 = 12
    Q5_1 = 13
    Q8_0 = 14
    Q2_K = 15
    Q3_K = 16
    Q4_K = 17
    Q5_K = 18
    Q6_K = 19
    IQ2_XXS = 20
    IQ2_XS = 21
    IQ3_XXS = 22
    IQ1_S = 23
    IQ4_NL = 24
    IQ3_S = 25
    IQ2_S = 26
    IQ4_XS = 27
    IQ1_M = 28
    TQ1_0 = 29
    TQ2_0 = 30
    MXFP4 = 31

    @property
    def itemsize(self) -> int:
        """Bytes per element; quantized types have none of their own."""
        return _ITEMSIZE[self]

    @property
    def block(self) -> int:
        """Elements that are stored together: 1 but for quantized types, whose rows are whole blocks."""
        return _BLOCKS[self][0] if self in _BLOCKS else 1

    def nbytes(self, count: int) -> int:
        """Bytes of ``count`` elements, which must be whole blocks."""
        if count % self.block:
            raise ValueError(f"{count} elements of {self.name.lower()}: expected a multiple of {self.block}")
        return count // self.block * (_BLOCKS[self][1] if self in _BLOCKS else self.itemsize)

    @property
    def is_quantized(self) -> bool:
        """Whether it is one of ggml's block types."""
        return self in _BLOCKS

    @property
    def ggml_type(self) -> int:
        """Number of the ``ggml_type`` that stores this type (bool and u8 live in I8's storage)."""
        return _GGML[self]

    @classmethod
    def from_ggml(cls, number: int) -> DType | None:
        """The IR type of a ``ggml_type`` (I8 for its number), or None where the IR has none."""
        return _FROM_GGML.get(number)

    @property
    def is_floating(self) -> bool:
        """Whether it is a type of floats, float64 included."""
        return self in (DType.F32, DType.F16, DType.BF16, DType.F64)

    @property
    def torch(self) -> _torch.dtype:
        """The ``torch.dtype`` of the same name; of a quantized type float32, which its values are read as."""
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
# Elements and bytes of a block.
_BLOCKS = {
    DType.Q4_0: (32, 18),
    DType.Q4_1: (32, 20),
    DType.Q5_0: (32, 22),
    DType.Q5_1: (32, 24),
    DType.Q8_0: (32, 34),
    DType.Q2_K: (256, 84),
    DType.Q3_K: (256, 110),
    DType.Q4_K: (256, 144),
    DType.Q5_K: (256, 176),
    DType.Q6_K: (256, 210),
    DType.IQ2_XXS: (256, 66),
    DType.IQ2_XS: (256, 74),
    DType.IQ3_XXS: (256, 98),
    DType.IQ1_S: (256, 50),
    DType.IQ4_NL: (32, 18),
    DType.IQ3_S: (256, 110),
    DType.IQ2_S: (256, 82),
    DType.IQ4_XS: (256, 136),
    DType.IQ1_M: (256, 56),
    DType.TQ1_0: (256, 54),
    DType.TQ2_0: (256, 66),
    DType.MXFP4: (32, 17),
}
_GGML = {
    DType.F32: 0,
    DType.F16: 1,
    DType.BF16: 30,
    DType.I8: 24,
    DType.I16: 25,
    DType.I32: 26,
    DType.I64: 27,
    DType.BOOL: 24,
    DType.U8: 24,
    DType.F64: 28,
    DType.Q4_0: 2,
    DType.Q4_1: 3,
    DType.Q5_0: 6,
    DType.Q5_1: 7,
    DType.Q8_0: 8,
    DType.Q2_K: 10,
    DType.Q3_K: 11,
    DType.Q4_K: 12,
    DType.Q5_K: 13,
    DType.Q6_K: 14,
    DType.IQ2_XXS: 16,
    DType.IQ2_XS: 17,
    DType.IQ3_XXS: 18,
    DType.IQ1_S: 19,
    DType.IQ4_NL: 20,
    DType.IQ3_S: 21,
    DType.IQ2_S: 22,
    DType.IQ4_XS: 23,
    DType.IQ1_M: 29,
    DType.TQ1_0: 34,
    DType.TQ2_0: 35,
    DType.MXFP4: 39,
}
_FROM_GGML = {number: dtype for dtype, number in _GGML.items() if dtype not in (DType.BOOL, DType.U8)}
_TORCH = dict.fromkeys(_BLOCKS, "float32") | {
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
_FROM_TORCH = {name: dtype for dtype, name in _TORCH.items() if dtype not in _BLOCKS}
