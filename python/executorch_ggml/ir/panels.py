"""Quantized matrices in panels: how the CPU's int8 GEMM reads them (native/runtime/kernels/product/panels.h).

The bytes do not depend on the CPU. Where a CPU or another device does not multiply panels, ggml's own layout is made of
them when a program is loaded.
"""

from __future__ import annotations

from collections.abc import Sequence

from ._lazy import session, torch
from .dtypes import DType


def has_panels(dtype: DType) -> bool:
    """Whether matrices of the type have panels."""
    return dtype.is_quantized and bool(session.has_panels(dtype.ggml_type))


def panels_bytes(dtype: DType, shape: Sequence[int]) -> int:
    """The size of a matrix in panels; ``shape`` is a constant's, outermost first."""
    return int(session.panels_bytes(dtype.ggml_type, shape[-2], shape[-1]))


def pack_panels(data: torch.Tensor, dtype: DType, shape: Sequence[int]) -> torch.Tensor:
    """The panels (uint8, one dim) of a matrix whose bytes lie as ggml has them."""
    packed = torch.empty(panels_bytes(dtype, shape), dtype=torch.uint8)
    session.pack_panels(dtype.ggml_type, shape[-2], shape[-1], data.contiguous().numpy(), packed.numpy())
    return packed


def unpack_panels(packed: torch.Tensor, dtype: DType, shape: Sequence[int]) -> torch.Tensor:
    """The inverse of :func:`pack_panels`."""
    data = torch.empty(dtype.nbytes(shape[-2] * shape[-1]), dtype=torch.uint8)
    session.unpack_panels(dtype.ggml_type, shape[-2], shape[-1], packed.contiguous().numpy(), data.numpy())
    return data
