"""Normalizations and softmax."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .module import computes

Tensor = torch.Tensor


def _along(vector: Tensor | None, axis: int, rank: int) -> Tensor | None:
    return None if vector is None else vector.reshape([-1 if i == axis else 1 for i in range(rank)])


def _scaled(x: Tensor, scale: Tensor | None, bias: Tensor | None) -> Tensor:
    x = x if scale is None else x * scale
    return x if bias is None else x + bias


def _normalized(x: Tensor, axes: Sequence[int], epsilon: float) -> Tensor:
    if not axes:
        return x - x
    centred = x - x.mean(list(axes), keepdim=True)
    return centred / torch.sqrt((centred * centred).mean(list(axes), keepdim=True) + epsilon)


@computes("batch_normalization")
def batch_normalization(
    input: Tensor,
    mean: Tensor,
    variance: Tensor,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    axis: int,
    epsilon: float,
) -> Tensor:
    """By given moments."""
    rank = input.dim()
    along = [-1 if i == axis else 1 for i in range(rank)]
    made = (input - mean.reshape(along)) / torch.sqrt(variance.reshape(along) + epsilon)
    return _scaled(made, _along(scale, axis, rank), _along(bias, axis, rank))


@computes("instance_normalization")
def instance_normalization(
    input: Tensor, scale: Tensor | None = None, bias: Tensor | None = None, *, epsilon: float, layout: str
) -> Tensor:
    """Over an image's pixels."""
    axis = layout.index("c")
    pixels = [i for i in (1, 2, 3) if i != axis]
    return _scaled(_normalized(input, pixels, epsilon), _along(scale, axis, 4), _along(bias, axis, 4))


@computes("layer_normalization")
def layer_normalization(
    input: Tensor, scale: Tensor | None = None, bias: Tensor | None = None, *, axes: Sequence[int], epsilon: float
) -> Tensor:
    """Over any axes, which the scale and bias have in the order given."""

    def placed(tensor: Tensor | None) -> Tensor | None:
        if tensor is None:
            return None
        order = sorted(range(len(axes)), key=lambda i: axes[i])
        shape = [size if i in axes else 1 for i, size in enumerate(input.shape)]
        return tensor.permute(order).reshape(shape)

    return _scaled(_normalized(input, axes, epsilon), placed(scale), placed(bias))


@computes("softmax")
def softmax(input: Tensor, axis: int) -> Tensor:
    """Along one axis."""
    return torch.softmax(input, axis)
