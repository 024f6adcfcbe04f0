"""Convolution and transposed convolution of images, channels innermost.

Constant filters are packed for the convolution's own kernel. Others are multiplied: for each place in the window the
image's view, side by side, by the filter as a matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from ....ir.ops.custom import BinaryKind
from ....lower.context import Context
from ....lower.convolution import Convolution, Epilogue, Pair, _flipped
from ....lower.shape import concatenated, joined, padded, turned, window
from .emitter import Emitter, Tensor, emits

aten = torch.ops.aten


def _turned(cx: Emitter, x: Tensor, layout: str, wanted: str) -> Tensor:
    """A tensor in another layout; a constant ahead of time."""
    order = [layout.index(letter) for letter in wanted]
    if order == list(range(len(order))):
        return x
    if x.data is not None:
        shape = [int(x.shape[axis]) for axis in order]
        return cx.derived(f"{layout}-{wanted}", [x], shape, lambda w: w.permute(order))
    return turned(cx, x, order)


def _is_constant(*tensors: Tensor | None) -> bool:
    return all(tensor is None or tensor.data is not None for tensor in tensors)


@dataclass(frozen=True)
class _Turned:
    """A convolution seen with its channels last, that may still be rebuilt with an activation in it."""

    call: Convolution

    @property
    def epilogue(self) -> Epilogue:
        """What it applies now."""
        return self.call.epilogue

    def emit(self, cx: Context, epilogue: Epilogue) -> Tensor:
        """Append it with another epilogue."""
        assert isinstance(cx, Emitter)
        image = self.call.emit(cx.to(self.call.shape, cx.dtype()), epilogue)
        made = turned(cx, image, (0, 2, 3, 1))
        cx.records[made.value] = _Turned(replace(self.call, epilogue=epilogue))
        return made


def _emitted(cx: Emitter, call: Convolution, layout: str) -> Tensor:
    """The convolution, remembered so that what follows can be folded in."""
    if layout == "nhwc":
        return _Turned(call).emit(cx, Epilogue())
    return call.emit(cx, Epilogue())


@emits("conv2d")
def conv2d(
    cx: Emitter,
    input: Tensor,
    filter: Tensor,
    bias: Tensor | None = None,
    *,
    padding: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    groups: int,
    input_layout: str,
    filter_layout: str,
) -> Tensor:
    """Convolution; the padding at the end follows from the result's size."""
    x, weight = _turned(cx, input, input_layout, "nchw"), _turned(cx, filter, filter_layout, "oihw")
    shape = _nchw(cx, input_layout)
    inside = cx.to(shape, cx.dtype())
    if _is_constant(weight, bias):
        pads = Pair(padding[0], padding[2])
        call = Convolution(x, weight, bias, Pair(*strides), pads, Pair(*dilations), Pair(1, 1), groups, shape)
        return _emitted(cx, call, input_layout)
    made = _by_products(inside, x, weight, bias, (padding[0], padding[2]), strides, dilations, groups)
    return _turned(cx, made, "nchw", input_layout)


@emits("conv_transpose2d")
def conv_transpose2d(
    cx: Emitter,
    input: Tensor,
    filter: Tensor,
    bias: Tensor | None = None,
    *,
    padding: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    output_padding: Sequence[int],
    output_sizes: Sequence[int] | None,
    groups: int,
    input_layout: str,
    filter_layout: str,
) -> Tensor:
    """The convolution of the image spread out with the filter turned round."""
    del output_padding, output_sizes
    x, weight = _turned(cx, input, input_layout, "nchw"), _turned(cx, filter, filter_layout, "iohw")
    shape = _nchw(cx, input_layout)
    inside = cx.to(shape, cx.dtype())
    lead = [dilations[i] * (int(weight.shape[2 + i]) - 1) - padding[2 * i] for i in range(2)]
    if _is_constant(weight, bias):
        kernel, up = _flipped(cx, weight, groups), Pair(*strides)
        call = Convolution(x, kernel, bias, Pair(1, 1), Pair(*lead), Pair(*dilations), up, groups, shape)
        return _emitted(cx, call, input_layout)
    for i in range(2):
        x = _spread(inside, x, 2 + i, strides[i])
    made = _by_products(inside, x, _flipped_now(cx, weight, groups), bias, lead, (1, 1), dilations, groups)
    return _turned(cx, made, "nchw", input_layout)


def _nchw(cx: Emitter, layout: str) -> tuple[int, ...]:
    return tuple(int(cx.shape()[layout.index(letter)]) for letter in "nchw")


def _by_products(
    cx: Emitter,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    lead: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    groups: int,
) -> Tensor:
    """A convolution (N, C, H, W) as a product of matrices for each group, in float32."""
    n, outs, *size = (int(m) for m in cx.shape())
    _, inner, *taps = (int(m) for m in weight.shape)
    image = turned(cx, cx.f32(x), (0, 2, 3, 1))
    for i in range(2):
        reach = (size[i] - 1) * strides[i] + (taps[i] - 1) * dilations[i] + 1
        image = padded(cx, image, 1 + i, lead[i], reach - lead[i] - int(image.shape[1 + i]), 0.0)
    matrix = turned(cx, cx.f32(weight), (0, 2, 3, 1))
    parts = []
    for group in range(groups):
        channels = window(cx, image, 3, group * inner, inner)
        views = []
        for row in range(taps[0]):
            rows = window(cx, channels, 1, row * dilations[0], size[0], strides[0])
            views += [window(cx, rows, 2, c * dilations[1], size[1], strides[1]).value for c in range(taps[1])]
        count, width = n * size[0] * size[1], taps[0] * taps[1] * inner
        patches = cx.builder.reshape(concatenated(cx, views, 0), (width, count))
        own = window(cx, matrix, 0, group * (outs // groups), outs // groups)
        kernel = cx.builder.reshape(own.value, (width, outs // groups))
        made = cx.builder.emit("mul_mat", kernel, patches)
        parts.append(cx.reshaped(Tensor(made, (count, outs // groups)), (n, *size, outs // groups)))
    made_image = joined(cx, parts, 3)
    if bias is not None:
        made_image = cx.both(BinaryKind.ADD, made_image, cx.reshaped(cx.f32(bias), (1, 1, 1, outs)))
    return turned(cx, made_image, (0, 3, 1, 2))


def _spread(cx: Emitter, x: Tensor, axis: int, step: int) -> Tensor:
    """Zeros between the elements of an axis."""
    if step == 1:
        return x
    sizes = [int(n) for n in x.shape]
    outer, inner = sizes[0] * sizes[1] * (sizes[2] if axis == 3 else 1), sizes[3] if axis == 2 else 1
    apart = cx.reshaped(x, (outer, sizes[axis], 1, inner))
    wide = padded(cx, apart, 2, 0, step - 1, 0.0)
    whole = cx.reshaped(wide, [size * step if i == axis else size for i, size in enumerate(sizes)])
    return window(cx, whole, axis, 0, (sizes[axis] - 1) * step + 1)


def _flipped_now(cx: Emitter, weight: Tensor, groups: int) -> Tensor:
    """A transposed convolution's filter (IC, OC / groups, H, W) as that of the plain one, when it is not constant."""
    ins, outs, *taps = (int(n) for n in weight.shape)
    x = cx.to(weight.shape, weight.dtype).aten(aten.flip.default, weight, [2, 3])
    parts = []
    for group in range(groups):
        own = window(cx, x, 0, group * (ins // groups), ins // groups)
        parts.append(turned(cx, own, (1, 0, 2, 3)))
    made = joined(cx, parts, 0)
    assert tuple(made.shape) == (groups * outs, ins // groups, *taps)
    return made
