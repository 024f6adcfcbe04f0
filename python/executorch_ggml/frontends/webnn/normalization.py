"""Normalizations and softmax."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ...ir.ops.custom import BinaryKind, ReduceKind
from ..aten.ops.normalization import scale_and_shift
from ..aten.ops.reduction import reduced
from ..aten.ops.shape import turned
from .emitter import Emitter, Tensor, emits

aten = torch.ops.aten


def _along(cx: Emitter, vector: Tensor | None, axis: int, rank: int) -> Tensor | None:
    if vector is None:
        return None
    return cx.reshaped(cx.f32(vector), [int(vector.shape[0]) if i == axis else 1 for i in range(rank)])


def _scaled(cx: Emitter, x: Tensor, scale: Tensor | None, bias: Tensor | None) -> Tensor:
    x = x if scale is None else cx.both(BinaryKind.MUL, x, scale)
    return x if bias is None else cx.both(BinaryKind.ADD, x, bias)


def _mean(cx: Emitter, x: Tensor, axes: Sequence[int]) -> Tensor:
    shape = [1 if i in axes else int(size) for i, size in enumerate(x.shape)]
    return cx.reshaped(Tensor(reduced(cx, x, axes, ReduceKind.MEAN), tuple(shape)), shape)


def _normalized(cx: Emitter, x: Tensor, axes: Sequence[int], epsilon: float) -> Tensor:
    if not axes:
        return cx.both(BinaryKind.SUB, x, x)
    centred = cx.both(BinaryKind.SUB, x, _mean(cx, x, axes))
    variance = _mean(cx, cx.unary("sqr", centred), axes)
    return cx.both(BinaryKind.DIV, centred, cx.unary("sqrt", cx.affine(variance, 1.0, epsilon)))


@emits("batch_normalization")
def batch_normalization(
    cx: Emitter,
    input: Tensor,
    mean: Tensor,
    variance: Tensor,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    axis: int,
    epsilon: float,
) -> Tensor:
    """By given moments: a scale and a shift."""
    shape = [int(mean.shape[0]) if i == axis else 1 for i in range(input.rank)]
    affine = (
        cx.reshaped(Tensor(value, mean.shape), shape)
        for value in scale_and_shift(cx, mean, variance, scale, bias, epsilon)
    )
    return _scaled(cx, cx.f32(input), *affine)


@emits("instance_normalization")
def instance_normalization(
    cx: Emitter, input: Tensor, scale: Tensor | None = None, bias: Tensor | None = None, *, epsilon: float, layout: str
) -> Tensor:
    """Over an image's pixels."""
    axis = layout.index("c")
    x = _normalized(cx, cx.f32(input), [i for i in (1, 2, 3) if i != axis], epsilon)
    return _scaled(cx, x, _along(cx, scale, axis, 4), _along(cx, bias, axis, 4))


@emits("layer_normalization")
def layer_normalization(
    cx: Emitter,
    input: Tensor,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    axes: Sequence[int],
    epsilon: float,
) -> Tensor:
    """Over any axes, which the scale and bias have in the order given; over the last ones ggml's own."""
    sizes = [int(size) for size in input.shape]
    if axes and list(axes) == list(range(len(sizes) - len(axes), len(sizes))):
        return cx.aten(aten.layer_norm.default, input, [sizes[axis] for axis in axes], scale, bias, epsilon)

    def placed(tensor: Tensor | None) -> Tensor | None:
        if tensor is None:
            return None
        order = sorted(range(len(axes)), key=lambda i: axes[i])
        x = turned(cx, cx.f32(tensor), order) if axes else cx.f32(tensor)
        return cx.reshaped(x, [size if i in axes else 1 for i, size in enumerate(sizes)])

    return _scaled(cx, _normalized(cx, cx.f32(input), axes, epsilon), placed(scale), placed(bias))


@emits("softmax")
def softmax(cx: Emitter, input: Tensor, axis: int) -> Tensor:
    """Along one axis."""
    return cx.aten(aten._softmax.default, input, axis, False)
