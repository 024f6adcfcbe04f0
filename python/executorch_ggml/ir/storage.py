"""How a constant's elements lie in a program. Each layout is a bijection of the plain one: any device can have it back.

A layout says nothing of what is computed. The CPU's kernels use weights in blocks where they lie in the mapped file;
where another device or another kernel needs the plain order, the elements are put back while they are copied.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass

from ._lazy import F, torch

OC_BLOCK = 16  # output channels of a block: one 512-bit or two 256-bit vectors


class Storage(enum.IntEnum):
    """A storage layout. The numbers are the wire format: append only."""

    PLAIN = 0  # dense, in the order of the dims
    MATRIX_BLOCKS = 1  # the rows of a matrix, interleaved in blocks of 16 (and columns in runs of 4 bytes)
    KERNEL_BLOCKS = 2  # the output channels of a convolution's weight, interleaved likewise, group by group
    DEPTHWISE = 3  # a depthwise convolution's weight, channels innermost
    PANELS = 4  # a quantized matrix as int8 GEMM reads it, 16 rows side by side (panels.py)


@dataclass(frozen=True)
class StorageLayout:
    """A layout, and the groups of the convolution that a weight is of where it depends on them."""

    kind: Storage = Storage.PLAIN
    groups: int = 1


PLAIN = StorageLayout()


def pack(plain: torch.Tensor, layout: StorageLayout) -> torch.Tensor:
    """The elements in the layout's order, in one dim. ``plain`` has a constant's dims, outermost first.

    Blocks are padded with zeros, and a run of zeros as long as the input channels follows: what kernels read in place
    of the pixels outside an image. Blocks of a half type have two inputs of an output channel side by side, those of
    int8 four, for instructions that sum their products; the latter end in the int32 sum of each channel.
    """
    return _LAYOUTS[layout.kind][0](plain, layout.groups).reshape(-1)


def unpack(packed: torch.Tensor, shape: tuple[int, ...], layout: StorageLayout) -> torch.Tensor:
    """The inverse of :func:`pack`; ``shape`` is the constant's, outermost first."""
    return _LAYOUTS[layout.kind][1](packed.reshape(-1), shape, layout.groups).reshape(shape)


def stored_count(shape: tuple[int, ...], layout: StorageLayout, itemsize: int = 4) -> int:
    """How many elements of ``itemsize`` bytes :func:`pack` gives for a constant of a shape, outermost first."""
    if layout.kind in (Storage.PLAIN, Storage.DEPTHWISE):
        return math.prod(shape)
    outputs, inputs, *taps = shape if layout.kind == Storage.KERNEL_BLOCKS else shape[-2:]
    blocks = layout.groups * -(-(outputs // layout.groups) // OC_BLOCK)
    depth = _padded(inputs * math.prod(taps), 4 // itemsize)
    return blocks * OC_BLOCK * (depth + 4) if itemsize == 1 else blocks * OC_BLOCK * depth + inputs


def _padded(inputs: int, adjacent: int) -> int:
    """The inputs of a block of which so many lie side by side."""
    return -(-inputs // adjacent) * adjacent


def _pack_kernel(weight: torch.Tensor, groups: int) -> torch.Tensor:
    """From (OC, IC / groups, KH, KW) to (groups, blocks, KH * KW * IC / groups / adjacent, 16, adjacent)."""
    adjacent = 4 // weight.itemsize
    rows = weight.permute(0, 2, 3, 1).reshape(groups, weight.shape[0] // groups, -1)
    blocks, depth = -(-rows.shape[1] // OC_BLOCK), _padded(rows.shape[2], adjacent)
    padded = F.pad(rows, (0, depth - rows.shape[2], 0, blocks * OC_BLOCK - rows.shape[1]))
    body = padded.reshape(groups * blocks, OC_BLOCK, -1, adjacent).transpose(1, 2).reshape(groups * blocks, -1)
    if weight.dtype != torch.int8:
        return torch.cat([body.reshape(-1), weight.new_zeros(weight.shape[1])])
    sums = padded.reshape(groups * blocks, OC_BLOCK, -1).sum(-1, dtype=torch.int32).view(torch.int8)
    return torch.cat([body, sums], 1).reshape(-1)


def _unpack_kernel(packed: torch.Tensor, shape: tuple[int, ...], groups: int) -> torch.Tensor:
    oc, ic, kh, kw = shape
    adjacent = 4 // packed.itemsize
    blocks, depth = -(-(oc // groups) // OC_BLOCK), _padded(ic * kh * kw, adjacent)
    behind = 4 if packed.dtype == torch.int8 else 0  # bytes of sums
    body = packed[: groups * blocks * OC_BLOCK * (depth + behind)].view(groups * blocks, -1)[:, : depth * OC_BLOCK]
    rows = body.reshape(groups * blocks, -1, OC_BLOCK, adjacent).transpose(1, 2)
    channels = rows.reshape(groups, blocks * OC_BLOCK, -1)[:, : oc // groups, : ic * kh * kw]
    return channels.reshape(oc, kh, kw, ic).permute(0, 3, 1, 2)


def _pack_matrix(weight: torch.Tensor, groups: int) -> torch.Tensor:
    return _pack_kernel(weight.reshape(*weight.shape[-2:], 1, 1), groups)


def _unpack_matrix(packed: torch.Tensor, shape: tuple[int, ...], groups: int) -> torch.Tensor:
    return _unpack_kernel(packed, (*shape[-2:], 1, 1), groups)


def _pack_depthwise(weight: torch.Tensor, groups: int) -> torch.Tensor:
    return weight.reshape(groups, -1).t()


def _unpack_depthwise(packed: torch.Tensor, shape: tuple[int, ...], groups: int) -> torch.Tensor:
    del shape
    return packed.view(-1, groups).t()


_Pack = Callable[["torch.Tensor", int], "torch.Tensor"]
_Unpack = Callable[["torch.Tensor", tuple[int, ...], int], "torch.Tensor"]
_LAYOUTS: dict[Storage, tuple[_Pack, _Unpack]] = {
    Storage.PLAIN: (lambda plain, groups: plain, lambda packed, shape, groups: packed),
    Storage.MATRIX_BLOCKS: (_pack_matrix, _unpack_matrix),
    Storage.KERNEL_BLOCKS: (_pack_kernel, _unpack_kernel),
    Storage.DEPTHWISE: (_pack_depthwise, _unpack_depthwise),
}
