"""Integer weights with scales as blocks of a ggml type, where one holds the integers: ggml's scales are float16."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from ...ir.dtypes import DType

BLOCK = 32  # elements that share a scale in the types here
ROUNDING = 2.0**-11  # of a number: half a step of float16


@dataclass(frozen=True)
class Blocks:
    """A matrix in a ggml type. Its rows have yet to be multiplied by ``factor`` where there is one."""

    dtype: DType
    data: torch.Tensor  # uint8, one dim
    factor: torch.Tensor | None  # f32, one a row
    is_exact: bool  # else its scales are rounded


def blocks_of(values: torch.Tensor, scales: torch.Tensor) -> Blocks | str:
    """The smallest type that holds ``values * scales``, or why none does.

    ``values`` are integers of shape (rows, columns), ``scales`` f32 of shape (rows, groups), one a run of columns.

    ====  ============  ==============================================================
    type  values        condition
    ====  ============  ==============================================================
    q4_0  -8 ... 7
    q4_1  16 in a row   float16 holds each block's lowest value times its scale
    q5_0  -16 ... 15
    q8_0  -128 ... 127
    ====  ============  ==============================================================

    Where float16 does not hold the scales it may hold what is left of them after a factor for each row is taken out:
    the scale itself where a row has but one, else a power of two. Scales of more bits than float16 has are rounded to
    it, which moves each by ``ROUNDING`` of itself at most: far less than activations that are rounded to 8 bits.
    """
    columns = values.shape[1]
    if columns % BLOCK != 0 or columns // scales.shape[1] % BLOCK != 0:
        return f"a scale for every {columns // scales.shape[1]} of {columns} columns: blocks have {BLOCK}"
    found = _in_float16(scales)
    if found is None:
        return "float16 does not hold the scales, which in a row are too far apart"
    halves, factor, is_exact = found
    scale = halves.repeat_interleave(columns // scales.shape[1] // BLOCK, dim=1).reshape(-1, 1)
    blocks = values.reshape(-1, BLOCK)
    low, high = (int(bound) for bound in (values.min(), values.max())) if values.numel() else (0, 0)
    for dtype, fits, pack in _TYPES:
        if low >= fits[0] and high <= fits[1] and (data := pack(blocks, scale)) is not None:
            return Blocks(dtype, data.reshape(-1), factor, is_exact)
    return f"values from {low} to {high}: blocks hold -128 to 127"


def _in_float16(scales: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None, bool] | None:
    """The scales in float16, the factor of each row, and whether they are the same; None where one is far off."""
    if _is_exact(scales):
        return scales.to(torch.float16), None, True
    first = scales[:, :1]
    if not torch.isfinite(scales).all():
        return None
    if (scales == first).all():
        return torch.ones_like(scales, dtype=torch.float16), first.reshape(-1), True
    power = torch.frexp(scales.abs().amax(1, keepdim=True)).exponent
    rest = torch.ldexp(scales, -power)
    factor = torch.ldexp(torch.ones_like(first), power)
    halves = rest.to(torch.float16)
    back = halves.to(torch.float32) * factor
    if ((back - scales).abs() > scales.abs() * ROUNDING).any():
        return None
    return halves, factor.reshape(-1), torch.equal(back, scales)


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
