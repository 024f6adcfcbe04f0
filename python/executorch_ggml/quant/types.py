"""The types that weights may be stored in, by ggml's names, and which takes another's place where rows do not fit."""

from __future__ import annotations

from ..ir.dtypes import DType

# By the names that llama.cpp has for them, in lower case.
TYPES = {dtype.name.lower(): dtype for dtype in (DType.F32, DType.F16, DType.BF16)}
TYPES |= {dtype.name.lower(): dtype for dtype in DType if dtype.is_quantized}
# What llama.cpp takes instead of types with blocks of 256; iq4_nl for those that are not here.
SMALLER_BLOCKS = {
    DType.Q4_K: DType.Q5_0,
    DType.Q5_K: DType.Q5_1,
    DType.Q6_K: DType.Q8_0,
    DType.TQ1_0: DType.Q4_0,
    DType.TQ2_0: DType.Q4_0,
}


def fitting(dtype: DType, width: int) -> DType:
    """The type for rows of a length: one of smaller blocks, or f16, where the type's blocks do not divide them."""
    if width % dtype.block == 0:
        return dtype
    smaller = SMALLER_BLOCKS.get(dtype, DType.IQ4_NL)
    return smaller if width % smaller.block == 0 else DType.F16
