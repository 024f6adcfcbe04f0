"""Integer weights with scales as blocks of a ggml type, where one holds them exactly: ggml's scales are float16."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from ...ir.dtypes import DType

BLOCK = 32  # elements that share a scale in the types here


@dataclass(frozen=True)
class Blocks:
    """A matrix in a ggml type. Its rows have yet to be multiplied by ``factor`` where there is one."""

    dtype: DType
    data: torch.Tensor  # uint8, one dim
    factor: torch.Tensor | None  # f32, one a row


def exact_blocks(values: torch.Tensor, scales: torch.Tensor) -> Blocks | str:
    """The smallest type that holds ``values * scales`` exactly, or why none does.

    ``values`` are integers of shape (rows, columns), ``scales`` f32 of shape (rows, groups), one a run of columns.

    =====  ============  ==================================================================
    type   values        condition on the scales
    =====  ============  ==================================================================
    q4_0   -8 ... 7      float16 holds them
    q4_1   16 in a row   float16 holds them, and each block's lowest value times its scale
    q5_0   -16 ... 15    float16 holds them
    q8_0   -128 ... 127  float16 holds them
    =====  ============  ==================================================================

    Where float16 does not hold the scales it may hold what is left of them after a factor for each row is taken out:
    the scale itself where a row has but one, else a power of two.
    """
    columns = values.shape[1]
    if columns % BLOCK != 0 or columns // scales.shape[1] % BLOCK != 0:
        return f"a scale for every {columns // scales.shape[1]} of {columns} columns: blocks have {BLOCK}"
    found = _in_float16(scales)
    if found is None:
        return "float16 does not hold the scales; bfloat16 scales would fit"
    halves, factor = found
    scale = halves.repeat_interleave(columns // scales.shape[1] // BLOCK, dim=1).reshape(-1, 1)
    blocks = values.reshape(-1, BLOCK)
    low, high = (int(bound) for bound in (values.min(), values.max())) if values.numel() else (0, 0)
    for dtype, fits, pack in _TYPES:
        if low >= fits[0] and high <= fits[1] and (data := pack(blocks, scale)) is not None:
            return Blocks(dtype, data.reshape(-1), factor)
    return f"values from {low} to {high}: blocks hold -128 to 127"


def _in_float16(scales: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None] | None:
    """The scales in float16, and the factor of each row, or None where they cannot be had without loss."""
    if _is_exact(scales):
        return scales.to(torch.float16), None
    first = scales[:, :1]
    if torch.isfinite(scales).all() and (scales == first).all():
        return torch.ones_like(scales, dtype=torch.float16), first.reshape(-1)
    power = torch.frexp(scales.abs().amax(1, keepdim=True)).exponent
    rest = torch.ldexp(scales, -power)
    factor = torch.ldexp(torch.ones_like(first), power)
    exact = _is_exact(rest) and torch.equal(rest * factor, scales)
    return (rest.to(torch.float16), factor.reshape(-1)) if exact else None


def _is_exact(numbers: torch.Tensor) -> bool:
    return torch.equal(numbers.to(torch.float16).to(torch.float32), numbers.to(torch.float32))


# -------------------------------------------------------------------------- ggml's blocks, as ggml-common.h has them


def _bytes(numbers: torch.Tensor) -> torch.Tensor:
    return numbers.contiguous().view(torch.uint8)


def _nibbles(numbers: torch.Tensor) -> torch.Tensor:
    """Two numbers of four bits a byte: the first and the second half of a block."""
    low, high = numbers.to(torch.uint8).bitwise_and(15).chunk(2, dim=1)
    return low | (high << 4)


def _q4_0(values: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return torch.cat([_bytes(scale), _nibbles(values + 8)], dim=1)


def _q4_1(values: torch.Tensor, scale: torch.Tensor) -> torch.Tensor | None:
    lowest = values.amin(1, keepdim=True)
    offset = lowest * scale.to(torch.float32)
    if (values - lowest).max() > 15 or not _is_exact(offset):
        return None
    return torch.cat([_bytes(scale), _bytes(offset.to(torch.float16)), _nibbles(values - lowest)], dim=1)


def _q5_0(values: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    raised = values + 16
    fifth = (raised >> 4).reshape(-1, 4, 8) << torch.arange(8)
    return torch.cat([_bytes(scale), fifth.sum(2).to(torch.uint8), _nibbles(raised)], dim=1)


def _q8_0(values: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return torch.cat([_bytes(scale), _bytes(values.to(torch.int8))], dim=1)


Packer = Callable[[torch.Tensor, torch.Tensor], torch.Tensor | None]
_TYPES: tuple[tuple[DType, tuple[int, int], Packer], ...] = (
    (DType.Q4_0, (-8, 7), _q4_0),
    (DType.Q4_1, (-127, 127), _q4_1),
    (DType.Q5_0, (-16, 15), _q5_0),
    (DType.Q8_0, (-128, 127), _q8_0),
)
