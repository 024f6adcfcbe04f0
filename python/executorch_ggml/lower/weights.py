"""Parameters that a program stores in another type than the module has them in: quantized, halved, or in a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from ..ir.dtypes import DType


@dataclass(frozen=True)
class StoredWeight:
    """How a program stores a parameter.

    ``data`` gives its bytes as ggml lays them out, uint8 in one dim, rows in C order of the parameter's shape. With
    ``key`` they are not stored in the program: the runtime finds them outside, under that key. With ``replaces`` the
    module's own contents are not the parameter's, and ops that cannot read the stored type get these dequantized.
    Where there is a ``factor``, one f32 a row, the parameter's rows are those that are stored times it.
    """

    dtype: DType
    data: Callable[[], torch.Tensor]
    key: str | None = None
    replaces: bool = False
    factor: Callable[[], torch.Tensor] | None = None

    def values(self, shape: Sequence[int]) -> torch.Tensor:
        """What is stored, as a tensor: of the same type, or dequantized to float32."""
        if self.dtype.is_quantized:
            from ..quant.codec import dequantize

            return dequantize(self.data(), self.dtype, shape)
        return self.contents().reshape(tuple(shape))

    def contents(self) -> torch.Tensor:
        """What is stored, in one dim: bytes of a quantized type, else elements."""
        return self.data() if self.dtype.is_quantized else self.data().view(self.dtype.torch)


class WeightSource(Protocol):
    """Says which parameters are stored in another way; ``GgmlPartitioner(weights=)`` takes one."""

    def find(self, name: str, parameter: torch.Tensor) -> StoredWeight | None:
        """How to store the parameter of that (fully qualified) name, or None for as it is.

        ``parameter`` is a fake tensor while a program is partitioned: only its shape and dtype may be read, and its
        contents when ``data`` is called.
        """
        ...
