"""Convolutions of signals, images and volumes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import torch

from ....ir.dims import ne_of, product, same_dims
from ....ir.dtypes import DType
from ....ir.graph import Value
from ....ir.op import Dim
from ....ir.ops.spatial import NO_EPILOGUE, Window, Window2d
from ..context import FLOATS, Context, Tensor
from ..registry import Refused, lowers
from .quantized import rearranged
from .rearrange import backwards
from .shape import concatenated, padded, turned, window
from .volume import frames_of, frames_of_images, from_frames, images_of_frames

aten = torch.ops.aten


@dataclass(frozen=True)
class Pair:
    """A number for each of the two spatial dims."""

    h: int
    w: int

    @staticmethod
    def of(numbers: Sequence[int], default: int, rank: int) -> Pair:
        """From ATen's list: empty, one for all, or one a dim (a 1-D convolution is one of height 1)."""
        items = list(numbers) or [default]
        return Pair(default, items[0]) if rank == 1 else Pair(items[0], items[-1])


@dataclass(frozen=True)
class Convolution:
    """A 2-D convolution, or a 1-D one as of images of height 1; ``up`` spreads the pixels, as transposed ones do."""

    image: Tensor
    weight: Tensor  # (OC, IC / groups, KH, KW), as torch.conv2d has it
    bias: Tensor | None
    stride: Pair
    padding: Pair
    dilation: Pair
    up: Pair
    groups: int
    shape: tuple[Dim, ...]

    def emit(self, cx: Context) -> Tensor:
        """Append it."""
        return _result(cx, _convolved(cx, self))


@dataclass(frozen=True)
class VolumeConvolution:
    """A 3-D convolution, made of 2-D ones over its frames. Triples are of D, H and W."""

    volume: Tensor
    weight: Tensor  # (OC, IC / groups, KD, KH, KW), as torch.conv3d has it
    bias: Tensor | None
    stride: tuple[int, int, int]
    padding: tuple[int, int, int]  # the near side's; negative: cut
    trail: int  # the depth's far side's
    dilation: tuple[int, int, int]
    up: tuple[int, int, int]
    groups: int
    shape: tuple[Dim, ...]

    def emit(self, cx: Context) -> Tensor:
        """Append it."""
        frames = _sum_of_taps(cx, self) if self.is_sum else _over_frames(cx, self)
        return _result(cx, from_frames(cx, frames, self.shape))

    @property
    def is_sum(self) -> bool:
        """Whether there is a convolution for each depth tap: with one channel a group, taps cannot join channels."""
        oc, ic, kd = (int(n) for n in self.weight.shape[:3])
        return ic == 1 and kd > 1 and self.groups == oc and not self.is_flat and self.up == (1, 1, 1)

    @property
    def is_flat(self) -> bool:
        """Whether a frame's pixels are independent of each other: then it is 2-D over (depth, pixels)."""
        inside = (self.stride, self.dilation, self.up)
        plain = all(numbers[1:] == (1, 1) for numbers in inside) and self.padding[1:] == (0, 0)
        return plain and tuple(self.weight.shape[3:]) == (1, 1) and same_dims(self.volume.shape[3:], self.shape[3:])


def image_shape(shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """The shape of a 1-D signal as an image of height 1; that of an image as it is."""
    return (*shape[:2], 1, shape[2]) if len(shape) == 3 else shape


def image_of(cx: Context, x: Tensor) -> Tensor:
    """A 1-D signal as an image of height 1."""
    if x.rank == 4:
        return x
    n, c, w = x.shape
    return Tensor(cx.builder.reshape(x.value, (w, 1, c, n)), (n, c, 1, w))


@lowers(aten.convolution.default)
def convolution(
    cx: Context,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Tensor | Refused:
    """1-D, 2-D and 3-D convolution, plain or transposed; the weights may be computed."""
    if x.rank not in (3, 4, 5) or weight.rank != x.rank:
        return Refused(f"a convolution of {x.rank}-D input and {weight.rank}-D weights")
    if not all(isinstance(size, int) for size in weight.shape):
        return Refused("a convolution with weights of a symbolic size")
    if 0 in weight.shape:
        return Refused("a convolution without weights")
    if x.dtype not in FLOATS or weight.dtype != x.dtype:
        given = f"{x.dtype.name.lower()} with weights in {weight.dtype.name.lower()}"
        return Refused(f"a convolution in {given}: float32, float16 and bfloat16 are supported, one for both")
    weight = _kept(cx, weight)
    if x.rank == 5:
        return _volume(cx, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
    shape = image_shape(cx.shape())
    kernel = _weight_image(cx, weight)
    rank = x.rank - 2
    steps, pads, gaps = Pair.of(stride, 1, rank), Pair.of(padding, 0, rank), Pair.of(dilation, 1, rank)
    up = Pair(1, 1)
    if transposed:
        kernel = flipped_kernel(cx, kernel, groups)
        kh, kw = (int(n) for n in kernel.shape[2:])
        pads = Pair(gaps.h * (kh - 1) - pads.h, gaps.w * (kw - 1) - pads.w)
        steps, up = Pair(1, 1), steps
    return Convolution(image_of(cx, x), kernel, bias, steps, pads, gaps, up, groups, shape).emit(cx)


def _kept(cx: Context, weight: Tensor) -> Tensor:
    """A weight that is to be stored in fewer bits: in a half type, once all else is folded into it."""
    if weight.stored is None or weight.dtype != DType.F32 or weight.stored.dtype == DType.F32:
        return weight
    half = DType.BF16 if weight.stored.dtype == DType.BF16 else DType.F16
    kept = cx.derived(half.name.lower(), [weight], [int(n) for n in weight.shape], lambda w: w)
    cx.builder.keep_in(kept.value, half)
    return kept


def _triple(numbers: Sequence[int], default: int) -> tuple[int, int, int]:
    items = list(numbers) or [default]
    return items[0], items[len(items) // 2], items[-1]


def _volume(
    cx: Context,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Tensor | Refused:
    """3-D convolution."""
    steps, pads, gaps, up = _triple(stride, 1), _triple(padding, 0), _triple(dilation, 1), (1, 1, 1)
    trail = pads[0]
    if transposed:
        weight = flipped_kernel(cx, weight, groups)
        kd, kh, kw = (gap * (int(n) - 1) for gap, n in zip(gaps, weight.shape[2:], strict=True))
        pads = (kd - pads[0], kh - pads[1], kw - pads[2])
        trail = pads[0] + _triple(output_padding, 0)[0]
        steps, up = up, steps
    return VolumeConvolution(x, weight, bias, steps, pads, trail, gaps, up, groups, cx.shape()).emit(cx)


def _weight_image(cx: Context, weight: Tensor) -> Tensor:
    if weight.rank == 4:
        return weight
    a, b, k = (int(n) for n in weight.shape)
    if weight.data is None:
        return _reshaped(cx, weight, a, b, 1, k)
    return rearranged(cx, weight, "image", (a, b, 1, k), lambda w: w.unsqueeze(2), lambda dim: (dim, 1))


def flipped_kernel(cx: Context, weight: Tensor, groups: int) -> Tensor:
    """A transposed convolution's weight (IC, OC / groups, KH, KW) as that of the plain one over the spread image."""
    ic, oc, *taps = (int(n) for n in weight.shape)
    if weight.data is None:
        return _flipped_at_run_time(cx, weight, groups)

    def flip(w: torch.Tensor) -> torch.Tensor:
        grouped = w.view(groups, ic // groups, oc, *taps).transpose(1, 2)
        return grouped.reshape(groups * oc, ic // groups, *taps).flip(list(range(2, weight.rank)))

    shape = (groups * oc, ic // groups, *taps)
    return rearranged(cx, weight, f"flipped{groups}", shape, flip, lambda dim: (0, groups) if dim == 1 else None)


def _flipped_at_run_time(cx: Context, weight: Tensor, groups: int) -> Tensor:
    ic, oc, *taps = (int(n) for n in weight.shape)
    count = math.prod(taps)
    reversed_taps = backwards(cx, _reshaped(cx, cx.f32(weight), ic, oc, count), 2, count - 1, count)
    swapped = turned(cx, _reshaped(cx, reversed_taps, groups, ic // groups, oc, count), (0, 2, 1, 3))
    return _reshaped(cx, swapped, groups * oc, ic // groups, *taps)


def _reshaped(cx: Context, x: Tensor, *shape: int) -> Tensor:
    return Tensor(cx.builder.reshape(x.value, ne_of(shape)), shape)


def _result(cx: Context, value: Value) -> Tensor:
    """What was computed in f32 as the node's result."""
    return cx.rounded(value, 0 if isinstance(cx.meta, (tuple, list)) else None)


def _convolved(cx: Context, call: Convolution) -> Value:
    """The convolution's node."""
    oc, ic, kh, kw = (int(n) for n in call.weight.shape)
    n, _, oh, ow = call.shape
    across = Window(kw, call.stride.w, call.padding.w, call.dilation.w, call.up.w)
    down = Window(kh, call.stride.h, call.padding.h, call.dilation.h, call.up.h)
    is_depthwise = ic == 1 and call.groups == oc  # its weights are few: nothing is won by keeping half types
    weight = cx.f32(call.weight) if is_depthwise or call.weight.data is None else call.weight
    return cx.builder.emit(
        "conv_2d",
        cx.f32(call.image).value,
        weight.value,
        None if call.bias is None else cx.f32(call.bias).value,
        ne=(ow, oh, oc, n),
        window=Window2d(across, down),
        groups=call.groups,
        epilogue=NO_EPILOGUE,
    )


def _over_frames(cx: Context, call: VolumeConvolution) -> Value:
    """One 2-D convolution's frames.

    Over (depth, pixels) where a frame's pixels are independent of each other; else over frames whose channels are those
    of all the frames that a depth window sees.
    """
    oc, _, kd, _, _ = (int(n) for n in call.weight.shape)
    n, _, od, oh, ow = call.shape
    _, c, d, h, w = call.volume.shape
    if call.is_flat:
        image = cx.builder.reshape(frames_of(cx, call.volume), (c, product([w, h]), d, n))
        kernel = _flat(cx, call.weight)
        flat = _slice(cx, call, image, kernel, call.bias, (n, oc, od, product([oh, ow])), 0, None)
        return frames_of_images(cx, _convolved(cx, flat))
    seen = concatenated(cx, _taps(cx, call, int(c) // call.groups), 0)
    image = cx.builder.reshape(seen, (kd * c, w, h, product([od, n])))
    kernel = _with_depth_in_channels(cx, call.weight)
    over_frames = _slice(cx, call, image, kernel, call.bias, (product([od, n]), oc, oh, ow), 1, 2)
    return frames_of_images(cx, _convolved(cx, over_frames))


def _sum_of_taps(cx: Context, call: VolumeConvolution) -> Value:
    """A 2-D convolution of each depth tap's frames, added up."""
    oc, _, kd, _, _ = (int(n) for n in call.weight.shape)
    n, _, od, oh, ow = call.shape
    _, c, _, h, w = call.volume.shape
    frames = _taps(cx, call, int(c))
    parts = []
    for tap in range(kd):
        image = cx.builder.reshape(frames[tap], (c, w, h, product([od, n])))
        kernel = _tap_of(cx, call.weight, tap)
        bias = call.bias if tap == 0 else None
        parts.append(_convolved(cx, _slice(cx, call, image, kernel, bias, (product([od, n]), oc, oh, ow), 1, 2)))
    return frames_of_images(cx, reduce(lambda a, b: cx.builder.emit("add", a, b), parts))


def _flat(cx: Context, weight: Tensor) -> Tensor:
    """(OC, IC, KD, 1, 1) as (OC, IC, KD, 1)."""
    shape = tuple(int(n) for n in weight.shape[:4])
    if weight.data is None:
        return _reshaped(cx, weight, *shape)
    return cx.derived("flat", [weight], shape, lambda w: w.reshape(shape))


def _with_depth_in_channels(cx: Context, weight: Tensor) -> Tensor:
    """(OC, IC, KD, KH, KW) as (OC, KD * IC, KH, KW)."""
    oc, ic, kd, kh, kw = (int(n) for n in weight.shape)
    shape = (oc, kd * ic, kh, kw)
    if weight.data is None:
        return _reshaped(cx, turned(cx, _reshaped(cx, weight, oc, ic, kd, kh * kw), (0, 2, 1, 3)), *shape)
    return cx.derived("joined", [weight], shape, lambda w: w.permute(0, 2, 1, 3, 4).reshape(shape))


def _tap_of(cx: Context, weight: Tensor, tap: int) -> Tensor:
    """(OC, IC, KD, KH, KW) at one place of KD."""
    oc, ic, kd, kh, kw = (int(n) for n in weight.shape)
    if weight.data is None:
        return _reshaped(cx, window(cx, _reshaped(cx, weight, oc * ic, kd, kh * kw), 1, tap, 1), oc, ic, kh, kw)
    return cx.derived(f"tap{tap}", [weight], (oc, ic, kh, kw), lambda w: w[:, :, tap])


def _slice(
    cx: Context,
    call: VolumeConvolution,
    image: Value,
    kernel: Tensor,
    bias: Tensor | None,
    shape: tuple[Dim, ...],
    down: int,
    across: int | None,
) -> Convolution:
    """A 2-D convolution with two of the three dims' steps (None: of one pixel)."""

    def pair(numbers: tuple[int, int, int], none: int) -> Pair:
        return Pair(numbers[down], none if across is None else numbers[across])

    c, w, h, n = image.ne
    source = Tensor(images_of_frames(cx, image), (n, c, h, w))
    steps, pads, gaps, up = (
        pair(call.stride, 1),
        pair(call.padding, 0),
        pair(call.dilation, 1),
        pair(call.up, 1),
    )
    return Convolution(source, kernel, bias, steps, pads, gaps, up, call.groups, shape)


def _taps(cx: Context, call: VolumeConvolution, run: int) -> list[Value]:
    """What each depth tap sees, ``ne = run, the rest of a frame, depth, batch``: views of the padded volume."""
    n, c, d, h, w = call.volume.shape
    rest, size = product([int(c) // run, w, h]), product([c, w, h])
    frames = Tensor(cx.builder.reshape(frames_of(cx, call.volume), (size, d, n)), (n, d, size))
    up = call.up[0]
    if up > 1:  # zeros between the frames, and after the last one
        apart = Tensor(cx.builder.reshape(frames.value, (size, 1, d, n)), (n, d, 1, size))
        spread = padded(cx, apart, 2, 0, up - 1, 0.0)
        frames = Tensor(cx.builder.reshape(spread.value, (size, up * d, n)), (n, up * d, size))
    frames = padded(cx, frames, 1, call.padding[0], call.trail - (up - 1), 0.0)
    source = cx.builder.reshape(frames.value, (run, rest, frames.shape[1], n))
    ne, step = (run, rest, call.shape[2], n), (1, 1, call.stride[0], 1)
    taps = range(int(call.weight.shape[2]))
    return [cx.builder.view(source, (0, 0, tap * call.dilation[0], 0), ne, step) for tap in taps]
