"""How a constant's elements lie in a program. Each layout is a bijection of the plain one: any device can have it back.

A layout says nothing of what is computed. The CPU's kernels use weights in blocks where they lie in the mapped file;
where another device or another kernel needs the plain order, the elements are put back while they are copied.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass

from ._lazy import torch

OC_BLOCK = 16  # output channels of a block: one 512-bit or two 256-bit vectors


class Storage(enum.IntEnum):
    """A storage layout. The numbers are the wire format: append only."""

    PLAIN = 0  # dense, in the order of the dims
    MATRIX_BLOCKS = 1  # the rows of a matrix, interleaved in blocks of 16
    KERNEL_BLOCKS = 2  # the output channels of a convolution's weight, interleaved in blocks of 16, group by group
    DEPTHWISE = 3  # a depthwise convolution's weight, channels innermost


@dataclass(frozen=True)
class StorageLayout:
    """A layout, and the groups of the convolution that a weight is of where it depends on them."""

    kind: Storage = Storage.PLAIN
    groups: int = 1


PLAIN = StorageLayout()


def pack(plain: torch.Tensor, layout: StorageLayout) -> torch.Tensor:
    """The elements in the layout's order, in one dim. ``plain`` has a constant's dims, outermost first.

    Blocks are padded with zeros, and a run of zeros as long as the input channels follows: what kernels read in place
    of the pixels outside an image.
    """
    return _LAYOUTS[layout.kind][0](plain, layout.groups).reshape(-1)


def unpack(packed: torch.Tensor, shape: tuple[int, ...], layout: StorageLayout) -> torch.Tensor:
    """The inverse of :func:`pack`; ``shape`` is the constant's, outermost first."""
    return _LAYOUTS[layout.kind][1](packed.reshape(-1), shape, layout.groups).reshape(shape)


def stored_count(shape: tuple[int, ...], layout: StorageLayout) -> int:
    """How many elements :func:`pack` gives for a constant of a shape, outermost first."""
    if layout.kind in (Storage.PLAIN, Storage.DEPTHWISE):
        return math.prod(shape)
    outputs, inputs, *taps = shape if layout.kind == Storage.KERNEL_BLOCKS else shape[-2:]
    blocks = layout.groups * -(-(outputs // layout.groups) // OC_BLOCK)
    return blocks * OC_BLOCK * inputs * math.prod(taps) + inputs


def _pack_kernel(weight: torch.Tensor, groups: int) -> torch.Tensor:
    """From (OC, IC / groups, KH, KW) to (groups, blocks, KH, KW, IC / groups, 16)."""
    oc, ic, kh, kw = weight.shape
    blocks = -(-(oc // groups) // OC_BLOCK)
    padded = weight.new_zeros(groups, blocks * OC_BLOCK, ic, kh, kw)
    padded[:, : oc // groups] = weight.reshape(groups, oc // groups, ic, kh, kw)
    packed = padded.view(groups, blocks, OC_BLOCK, ic, kh, kw).permute(0, 1, 4, 5, 3, 2)
    return torch.cat([packed.reshape(-1), weight.new_zeros(ic)])


def _unpack_kernel(packed: torch.Tensor, shape: tuple[int, ...], groups: int) -> torch.Tensor:
    oc, ic, kh, kw = shape
    blocks = -(-(oc // groups) // OC_BLOCK)
    body = packed[: groups * blocks * kh * kw * ic * OC_BLOCK]
    full = body.view(groups, blocks, kh, kw, ic, OC_BLOCK).permute(0, 1, 5, 4, 2, 3)
    return full.reshape(groups, blocks * OC_BLOCK, ic, kh, kw)[:, : oc // groups]


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
