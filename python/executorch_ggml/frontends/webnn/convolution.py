"""Convolution and transposed convolution of images."""

from __future__ import annotations

from collections.abc import Sequence

from ..aten.ops.convolution import Convolution, Pair, flipped_kernel
from ..aten.ops.quantized import rearranged
from ..aten.ops.shape import turned
from .emitter import Emitter, Tensor, emits


def _turned(cx: Emitter, x: Tensor, layout: str, wanted: str) -> Tensor:
    """A tensor in another layout; a constant ahead of time."""
    order = [layout.index(letter) for letter in wanted]
    if order == list(range(len(order))):
        return x
    if x.data is not None:
        shape = [int(x.shape[axis]) for axis in order]
        return rearranged(
            cx, x, f"{layout}-{wanted}", shape, lambda w: w.permute(order), lambda dim: (order.index(dim), 1)
        )
    return turned(cx, x, order)


def _emitted(cx: Emitter, call: Convolution, layout: str) -> Tensor:
    """The convolution, in the layout asked for."""
    if layout == "nchw":
        return call.emit(cx)
    return turned(cx, call.emit(cx.to(call.shape, cx.dtype())), (0, 2, 3, 1))


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
    pads = Pair(padding[0], padding[2])
    call = Convolution(x, weight, bias, Pair(*strides), pads, Pair(*dilations), Pair(1, 1), groups, shape)
    return _emitted(cx, call, input_layout)


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
    lead = [dilations[i] * (int(weight.shape[2 + i]) - 1) - padding[2 * i] for i in range(2)]
    kernel, up = flipped_kernel(cx, weight, groups), Pair(*strides)
    call = Convolution(x, kernel, bias, Pair(1, 1), Pair(*lead), Pair(*dilations), up, groups, shape)
    return _emitted(cx, call, input_layout)


def _nchw(cx: Emitter, layout: str) -> tuple[int, ...]:
    return tuple(int(cx.shape()[layout.index(letter)]) for letter in "nchw")
