"""3-D images in four dims: a volume (N, C, D, H, W) as N * D frames, whose channels are innermost.

So a volume's frames lie one after the other, and those that a depth window sees can be joined row by row.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.dims import is_one, product
from ....ir.graph import Value
from ....ir.op import Dim
from ..context import Context, Tensor


def frames_of(cx: Context, x: Tensor) -> Value:
    """A volume's frames, ``ne = C, W, H, D * N``: a view where there is one volume."""
    n, c, d, h, w = x.shape
    if is_one(n):
        return cx.builder.permute(x.value, (1, 2, 3, 0))
    flat = cx.builder.reshape(x.value, (product([w, h, d]), c, n))
    return cx.builder.reshape(cx.builder.transpose(flat), (c, w, h, product([d, n])))


def images_of_frames(cx: Context, frames: Value) -> Value:
    """Frames as images, ``ne = W, H, C, D * N``."""
    return cx.builder.permute(frames, (2, 0, 1, 3))


def frames_of_images(cx: Context, images: Value) -> Value:
    """Images as frames, ``ne = C, W, H, D * N``."""
    return cx.builder.permute(images, (1, 2, 0, 3))


def from_frames(cx: Context, frames: Value, shape: Sequence[Dim]) -> Value:
    """The volume (N, C, D, H, W) that frames, ``ne = C, W, H, D * N`` or reshaped, make up."""
    n, c, d, h, w = shape
    if is_one(n):
        return cx.builder.permute(cx.builder.reshape(frames, (c, w, h, d)), (3, 0, 1, 2))
    return cx.builder.transpose(cx.builder.reshape(frames, (c, product([w, h, d]), n)))
