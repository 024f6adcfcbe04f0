"""Parameters that a program stores in another type than the module has them in: quantized, halved, or in a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from ...ir.codec import dequantize
from ...ir.dtypes import DType


@dataclass(frozen=True)
class StoredWeight:
    """How a program stores a parameter.

    ``data`` gives its bytes as ggml lays them out, uint8 in one dim, rows in C order of the parameter's shape. With
    ``key`` they are not stored in the program: the runtime finds them outside, under that key. With ``replaces`` the
    module's own contents are not the parameter's, and ops that cannot read the stored type get these dequantized.
    Where there is a ``factor``, one f32 a row, the parameter's rows are those that are stored times it. ``transposed``
    says how the matrix is stored by its columns, for products that read it so; None: as the module has it.
    """

    dtype: DType
    data: Callable[[], torch.Tensor]
    key: str | None = None
    replaces: bool = False
    factor: Callable[[], torch.Tensor] | None = None
    transposed: Callable[[], StoredWeight | None] | None = None

    def values(self, shape: Sequence[int]) -> torch.Tensor:
        """What is stored, as a tensor: of the same type, or dequantized to float32."""
        if self.dtype.is_quantized:
            return dequantize(self.data(), self.dtype, shape)
        return self.contents().reshape(tuple(shape))

    def contents(self) -> torch.Tensor:
        """What is stored, in one dim: bytes of a quantized type, else elements."""
        return self.data() if self.dtype.is_quantized else self.data().view(self.dtype.torch)


# Attribute of modules whose matrices hold nothing: where their values are, in words.
VALUES_ELSEWHERE = "executorch_ggml_values_elsewhere"


class WeightSource(Protocol):
    """Says which parameters are stored in another way; ``GgmlPartitioner(weights=)`` takes one."""

    def find(self, name: str, parameter: torch.Tensor) -> StoredWeight | None:
        """How to store the parameter of that (fully qualified) name, or None for as it is.

        What was folded from parameters at export is asked for too, by a name of its own (``folded_...``).
        ``parameter`` is a fake tensor while a program is partitioned: only its shape and dtype may be read, and its
        contents when ``data`` is called.
        """
        ...


def check_values(model: torch.nn.Module, weights: WeightSource | None = None) -> None:
    """Raise ValueError where a module's matrices hold nothing, and ``weights`` does not have their values."""
    for module in model.modules():
        if (where := getattr(module, VALUES_ELSEWHERE, None)) is None:
            continue
        for name, parameter in module.named_parameters():
            stored = None if weights is None else weights.find(name, parameter)
            if parameter.dim() > 1 and not (stored is not None and stored.replaces):
                raise ValueError(
                    f"{name} of this {type(module).__name__} holds no values, they are in {where}: export it with the "
                    f"weights that came with it (weights=), or load it with dequantize=True"
                )
