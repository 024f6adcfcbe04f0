"""Convolutions, channels innermost; batch norm and the activation after it folded in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Protocol

import torch

from ....ir.dims import ne_of, product, same_dims
from ....ir.dtypes import DType
from ....ir.graph import Value
from ....ir.op import Dim
from ....ir.ops.spatial import NO_EPILOGUE, OC_BLOCK, Activation, Epilogue, Window, Window2d, pack_conv_weight
from ..context import FLOATS, Context, Tensor
from ..registry import Refused, lowers
from .rearrange import backwards
from .shape import concatenated, padded, turned, window
from .volume import frames_of, from_frames

aten = torch.ops.aten

# ne of an image in torch's order is (W, H, C, N); of one with channels innermost (C, W, H, N).
TO_CHANNELS_INNER = (1, 2, 0, 3)
FROM_CHANNELS_INNER = (2, 0, 1, 3)


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


class Rebuildable(Protocol):
    """A product that may still be emitted again with an activation in it."""

    @property
    def epilogue(self) -> Epilogue:
        """What it applies now."""

    def emit(self, cx: Context, epilogue: Epilogue) -> Tensor | None:
        """Append it with another epilogue; None where it cannot have one."""


@dataclass(frozen=True)
class Convolution:
    """A convolution that may still be rebuilt with a batch norm or an activation in it."""

    image: Tensor
    weight: Tensor  # (OC, IC / groups, KH, KW), as torch.conv2d has it
    bias: Tensor | None
    stride: Pair
    padding: Pair
    dilation: Pair
    up: Pair
    groups: int
    shape: tuple[Dim, ...]
    epilogue: Epilogue = NO_EPILOGUE
    kept_in: DType | None = None  # the type that the weight is rounded to when all else is folded into it

    def emit(self, cx: Context, epilogue: Epilogue) -> Tensor:
        """Append it with another epilogue."""
        call = replace(self, epilogue=epilogue)
        return _recorded(cx, call, cx.builder.permute(_convolved(cx, call), FROM_CHANNELS_INNER))


@dataclass(frozen=True)
class VolumeConvolution:
    """A 3-D convolution that may still be rebuilt, made of 2-D ones over its frames. Triples are of D, H and W."""

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
    epilogue: Epilogue = NO_EPILOGUE
    kept_in: DType | None = None

    def emit(self, cx: Context, epilogue: Epilogue) -> Tensor | None:
        """Append it with another epilogue, unless it is a sum of several convolutions."""
        call = replace(self, epilogue=epilogue)
        if epilogue.activation != Activation.NONE and call.is_sum:
            return None
        made = _sum_of_taps(cx, call) if call.is_sum else _over_frames(cx, call)
        return _recorded(cx, call, from_frames(cx, made, call.shape))

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


@dataclass(frozen=True)
class PackedLinear:
    """``rows @ weight.T + bias`` as a convolution of one pixel: its kernel is faster than ``ggml_mul_mat`` in f32."""

    rows: Value
    weight: Tensor
    bias: Tensor | None
    epilogue: Epilogue = NO_EPILOGUE

    def emit(self, cx: Context, epilogue: Epilogue) -> Tensor:
        """Append it with another epilogue."""
        call = replace(self, epilogue=epilogue)
        features = int(self.weight.shape[0])
        packed = packed_weight(cx, _as_kernel(cx, self.weight), 1)
        bias = None if self.bias is None else cx.f32(self.bias).value
        rows = cx.builder.convert(self.rows, DType.F32)
        ne = (features, *rows.ne[1:])
        made = cx.builder.emit(
            "conv_2d", rows, packed.value, bias, ne=ne, window=Window2d(), groups=1, epilogue=epilogue
        )
        result = cx.rounded(made)
        cx.records[result.value] = call
        return result


def _as_kernel(cx: Context, weight: Tensor) -> Tensor:
    """A matrix as the weight of a convolution of one pixel."""
    features, inputs = (int(n) for n in weight.shape)
    return cx.derived("kernel", [weight], (features, inputs, 1, 1), lambda w: w.view(features, inputs, 1, 1))


def image_shape(shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """The shape of a 1-D signal as an image of height 1; that of an image as it is."""
    return (*shape[:2], 1, shape[2]) if len(shape) == 3 else shape


def image_of(cx: Context, x: Tensor) -> Tensor:
    """A 1-D signal as an image of height 1."""
    if x.rank == 4:
        return x
    n, c, w = x.shape
    return Tensor(cx.builder.reshape(x.value, (w, 1, c, n)), (n, c, 1, w))


def channels_inner(cx: Context, x: Tensor) -> Tensor:
    """The image with channels innermost; free where it came from another such op."""
    n, c, h, w = x.shape
    return Tensor(cx.builder.permute(x.value, TO_CHANNELS_INNER), (n, h, w, c))


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
    """1-D, 2-D and 3-D convolution, plain or transposed; weights that are not constant are packed at run time."""
    if x.rank not in (3, 4, 5) or weight.rank != x.rank:
        return Refused(f"a convolution of {x.rank}-D input and {weight.rank}-D weights")
    if not all(isinstance(size, int) for size in weight.shape):
        return Refused("a convolution with weights of a symbolic size")
    if 0 in weight.shape:
        return Refused("a convolution without weights")
    if x.dtype not in FLOATS or weight.dtype != x.dtype:
        given = f"{x.dtype.name.lower()} with weights in {weight.dtype.name.lower()}"
        return Refused(f"a convolution in {given}: float32, float16 and bfloat16 are supported, one for both")
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
    made = Convolution(image_of(cx, x), kernel, bias, steps, pads, gaps, up, groups, shape, kept_in=_kept_in(weight))
    return made.emit(cx, NO_EPILOGUE)


def _kept_in(weight: Tensor) -> DType | None:
    """The half type of a weight that is to be stored in fewer bits: the kernel reads packed weights, no blocks."""
    if weight.stored is None or weight.dtype != DType.F32 or weight.stored.dtype == DType.F32:
        return None
    return DType.BF16 if weight.stored.dtype == DType.BF16 else DType.F16


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
    kept_in = _kept_in(weight)
    steps, pads, gaps, up = _triple(stride, 1), _triple(padding, 0), _triple(dilation, 1), (1, 1, 1)
    trail = pads[0]
    if transposed:
        weight = flipped_kernel(cx, weight, groups)
        kd, kh, kw = (gap * (int(n) - 1) for gap, n in zip(gaps, weight.shape[2:], strict=True))
        pads = (kd - pads[0], kh - pads[1], kw - pads[2])
        trail = pads[0] + _triple(output_padding, 0)[0]
        steps, up = up, steps
    made = VolumeConvolution(x, weight, bias, steps, pads, trail, gaps, up, groups, cx.shape(), kept_in=kept_in).emit(
        cx, NO_EPILOGUE
    )
    assert made is not None  # it has no activation yet
    return made


def _weight_image(cx: Context, weight: Tensor) -> Tensor:
    if weight.rank == 4:
        return weight
    a, b, k = (int(n) for n in weight.shape)
    if weight.data is None:
        return _reshaped(cx, weight, a, b, 1, k)
    return cx.derived("image", [weight], (a, b, 1, k), lambda w: w.unsqueeze(2))


def flipped_kernel(cx: Context, weight: Tensor, groups: int) -> Tensor:
    """A transposed convolution's weight (IC, OC / groups, KH, KW) as that of the plain one over the spread image."""
    ic, oc, *taps = (int(n) for n in weight.shape)
    if weight.data is None:
        return _flipped_at_run_time(cx, weight, groups)

    def flip(w: torch.Tensor) -> torch.Tensor:
        grouped = w.view(groups, ic // groups, oc, *taps).transpose(1, 2)
        return grouped.reshape(groups * oc, ic // groups, *taps).flip(list(range(2, weight.rank)))

    return cx.derived(f"flipped{groups}", [weight], (groups * oc, ic // groups, *taps), flip)


def _flipped_at_run_time(cx: Context, weight: Tensor, groups: int) -> Tensor:
    ic, oc, *taps = (int(n) for n in weight.shape)
    count = math.prod(taps)
    reversed_taps = backwards(cx, _reshaped(cx, cx.f32(weight), ic, oc, count), 2, count - 1, count)
    swapped = turned(cx, _reshaped(cx, reversed_taps, groups, ic // groups, oc, count), (0, 2, 1, 3))
    return _reshaped(cx, swapped, groups * oc, ic // groups, *taps)


def _reshaped(cx: Context, x: Tensor, *shape: int) -> Tensor:
    return Tensor(cx.builder.reshape(x.value, ne_of(shape)), shape)


def _recorded(cx: Context, call: Rebuildable, made: Value) -> Tensor:
    """The node's result, remembered so that what follows can be folded in."""
    result = cx.rounded(made, 0 if isinstance(cx.meta, (tuple, list)) else None)
    cx.records[result.value] = call
    return result


def _convolved(cx: Context, call: Convolution) -> Value:
    """The convolution's node, channels innermost."""
    oc, ic, kh, kw = (int(n) for n in call.weight.shape)
    n, _, oh, ow = call.shape
    image = channels_inner(cx, cx.f32(call.image))
    across = Window(kw, call.stride.w, call.padding.w, call.dilation.w, call.up.w)
    down = Window(kh, call.stride.h, call.padding.h, call.dilation.h, call.up.h)
    attrs = {"ne": (oc, ow, oh, n), "window": Window2d(across, down), "epilogue": call.epilogue}
    bias = None if call.bias is None else cx.f32(call.bias).value
    depthwise = call.groups == oc and ic == 1 and call.groups == image.shape[-1] and call.up == Pair(1, 1)
    if depthwise:
        packed = _packed_depthwise(cx, cx.f32(call.weight))  # they are few: nothing is won by keeping half types
        return cx.builder.emit("conv_2d_dw", image.value, packed.value, bias, **attrs)
    weight = call.weight if call.kept_in is None else cx.tensor(call.weight, call.kept_in)
    packed = packed_weight(cx, weight, call.groups)
    return cx.builder.emit("conv_2d", image.value, packed.value, bias, groups=call.groups, **attrs)


def _packed_depthwise(cx: Context, weight: Tensor) -> Tensor:
    oc, _, kh, kw = (int(n) for n in weight.shape)
    if weight.data is None:
        return turned(cx, _reshaped(cx, weight, oc, kh, kw), (1, 2, 0))
    return cx.derived("depthwise", [weight], (kh, kw, oc), lambda w: w.reshape(oc, kh, kw).permute(1, 2, 0))


def _over_frames(cx: Context, call: VolumeConvolution) -> Value:
    """One 2-D convolution, channels innermost.

    Over (depth, pixels) where a frame's pixels are independent of each other; else over frames whose channels are those
    of all the frames that a depth window sees.
    """
    oc, _, kd, _, _ = (int(n) for n in call.weight.shape)
    n, _, od, oh, ow = call.shape
    _, c, d, h, w = call.volume.shape
    if call.is_flat:
        image = cx.builder.reshape(frames_of(cx, call.volume), (c, product([w, h]), d, n))
        kernel = _flat(cx, call.weight)
        return _convolved(cx, _slice(cx, call, image, kernel, call.bias, (n, oc, od, product([oh, ow])), 0, None))
    seen = concatenated(cx, _taps(cx, call, int(c) // call.groups), 0)
    image = cx.builder.reshape(seen, (kd * c, w, h, product([od, n])))
    kernel = _with_depth_in_channels(cx, call.weight)
    return _convolved(cx, _slice(cx, call, image, kernel, call.bias, (product([od, n]), oc, oh, ow), 1, 2))


def _sum_of_taps(cx: Context, call: VolumeConvolution) -> Value:
    """A 2-D convolution of each depth tap's frames, added up; channels innermost."""
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
    return reduce(lambda a, b: cx.builder.emit("add", a, b), parts)


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
    source = Tensor(cx.builder.permute(image, FROM_CHANNELS_INNER), (n, c, h, w))
    steps, pads, gaps, up = (
        pair(call.stride, 1),
        pair(call.padding, 0),
        pair(call.dilation, 1),
        pair(call.up, 1),
    )
    return Convolution(source, kernel, bias, steps, pads, gaps, up, call.groups, shape, call.epilogue, call.kept_in)


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


def packed_weight(cx: Context, weight: Tensor, groups: int) -> Tensor:
    """The weight as the conv_2d kernel reads it (see ``pack_conv_weight``), packed at run time if not constant."""
    oc, ic, kh, kw = (int(n) for n in weight.shape)
    blocks = -(-(oc // groups) // OC_BLOCK)
    size = groups * blocks * OC_BLOCK * kh * kw * ic + ic
    if weight.data is None:
        return _packed_at_run_time(cx, weight, groups, blocks)
    return cx.derived(f"packed{groups}", [weight], (size,), lambda w: pack_conv_weight(w, groups))


def _packed_at_run_time(cx: Context, weight: Tensor, groups: int, blocks: int) -> Tensor:
    oc, ic, kh, kw = (int(n) for n in weight.shape)
    channels = _reshaped(cx, cx.f32(weight), groups, oc // groups, ic * kh * kw)
    whole_blocks = padded(cx, channels, 1, 0, blocks * OC_BLOCK - oc // groups, 0.0)
    by_taps = turned(cx, _reshaped(cx, whole_blocks, groups * blocks, OC_BLOCK, ic, kh * kw), (0, 3, 2, 1))
    packed = _reshaped(cx, by_taps, groups * blocks * OC_BLOCK * ic * kh * kw)
    return padded(cx, packed, 0, 0, ic, 0.0)


def with_batch_norm(
    cx: Context, x: Tensor, gamma: Tensor | None, beta: Tensor | None, mean: Tensor, variance: Tensor, eps: float
) -> Tensor | None:
    """The convolution that made ``x`` with an inference batch norm folded into its weights, or None.

    Given: ``batch_norm(conv(x, w, b))``.
    Result: ``conv(x, w * s, (b - mean) * s + beta)`` with ``s = gamma / sqrt(var + eps)``.
    """
    call = cx.records.get(x.value)
    statistics = [t for t in (mean, variance, gamma, beta) if t is not None]
    foldable = (
        isinstance(call, (Convolution, VolumeConvolution))
        and call.epilogue.activation == Activation.NONE
        and cx.single_use
    )
    foldable = foldable and x.dtype == DType.F32  # weights of half types would be rounded once more
    if "batch_norm" not in cx.fusions or not foldable or any(t.data is None for t in statistics):
        return None
    assert isinstance(call, (Convolution, VolumeConvolution))
    if call.weight.data is None or (call.bias is not None and call.bias.data is None):
        return None
    if not same_dims(image_shape(x.shape), call.shape):
        return None  # the same elements seen in another shape: their channels are others
    has_gamma, has_beta, has_bias = gamma is not None, beta is not None, call.bias is not None

    def scale(variance: torch.Tensor, rest: Sequence[torch.Tensor]) -> torch.Tensor:
        inverse = torch.rsqrt(variance.double() + eps)
        return inverse * rest[0].double() if has_gamma else inverse

    def new_weight(w: torch.Tensor, _: torch.Tensor, variance: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        return (w.double() * scale(variance, rest).view(-1, *[1] * (w.dim() - 1))).float()

    def new_bias(mean: torch.Tensor, variance: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        shift = (rest[-1].double() if has_bias else 0.0) - mean.double()
        offset = rest[has_gamma].double() if has_beta else 0.0
        return (shift * scale(variance, rest) + offset).float()

    shape = [int(n) for n in call.weight.shape]
    weight = cx.derived(f"folded{eps:g}", [call.weight, *statistics], shape, new_weight)
    biased = [*statistics, call.bias] if call.bias is not None else statistics
    bias = cx.derived(f"folded_bias{eps:g}", biased, (shape[0],), new_bias)
    return replace(call, weight=weight, bias=bias).emit(cx, NO_EPILOGUE)


def with_bias(cx: Context, x: Tensor, bias: Tensor) -> Tensor | None:
    """The linear layer that made ``x`` with a constant added inside it, or None where that is not what is added."""
    maker = x.value.producer
    source = maker.inputs[0] if maker is not None and maker.op == "reshape" else None
    call = cx.records.get(x.value) or (None if source is None else cx.records.get(source))
    if not isinstance(call, PackedLinear) or call.bias is not None or call.epilogue.activation != Activation.NONE:
        return None
    features = call.weight.shape[0]
    fits = bias.data is not None and tuple(bias.shape) == (features,) and x.shape[-1:] == (features,)
    fits = fits and x.dtype == bias.dtype == DType.F32 and cx.is_sole_reader_of(aten.mm.default, aten.linear.default)
    return replace(call, bias=bias).emit(cx, NO_EPILOGUE) if fits else None


def with_activation(cx: Context, x: Tensor, kind: str, low: float = 0.0, high: float = 0.0) -> Tensor | None:
    """The product that made ``x`` with an activation applied inside it, or None where there is none to rebuild."""
    call: Rebuildable | None = cx.records.get(x.value)
    if call is None or "activation" not in cx.fusions or call.epilogue.activation != Activation.NONE:
        return None
    if not cx.single_use or math.isnan(low) or math.isnan(high):
        return None
    return call.emit(cx, Epilogue(Activation[kind.upper()], low, high))
