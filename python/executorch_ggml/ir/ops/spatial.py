"""Ops over images. Custom nodes keep channels innermost (``ne = C, W, H, N``): that is what vectorizes."""

from __future__ import annotations

import enum
import itertools
from typing import NamedTuple

from .._lazy import F, torch
from ..dtypes import DType
from ..op import Dim, Dims, Rule, op, shaped
from .movement import shape_of

OC_BLOCK = 16  # output channels of a block of packed weights: one 512-bit or two 256-bit vectors


class Activation(enum.IntEnum):
    """What a convolution applies to its result."""

    NONE = 0
    CLAMP = 1  # to [act_min, act_max]: relu, relu6, hardtanh
    SILU = 2
    HARDSWISH = 3
    GELU_ERF = 4


class PoolKind(enum.IntEnum):
    """Pooling function."""

    MAX = 0
    AVG = 1  # padding not counted
    AVG_PAD = 2  # padding counted


class ScaleMode(enum.IntEnum):
    """``ggml_scale_mode``, with align_corners as ggml's flag 256."""

    NEAREST = 0
    BILINEAR = 1
    BILINEAR_ALIGN_CORNERS = 2


class SampleKind(enum.IntEnum):
    """How ``grid_sample`` interpolates, as ATen numbers it."""

    BILINEAR = 0
    NEAREST = 1  # half to even
    BICUBIC = 2


class SampleBorder(enum.IntEnum):
    """What ``grid_sample`` sees outside the image, as ATen numbers it."""

    ZEROS = 0
    BORDER = 1
    REFLECTION = 2


def pack_conv_weight(weight: torch.Tensor, groups: int) -> torch.Tensor:
    """Pack ``(OC, IC / groups, KH, KW)`` as ``conv_2d`` reads it, as a flat tensor.

    Order: group, block of 16 output channels (the last one padded with zeros), KH, KW, input channel, the 16 output
    channels. One row of ``IC / groups`` zeros follows: what the kernel reads in place of padding.
    """
    oc, ic, kh, kw = weight.shape
    blocks = -(-(oc // groups) // OC_BLOCK)
    padded = weight.new_zeros(groups, blocks * OC_BLOCK, ic, kh, kw)
    padded[:, : oc // groups] = weight.view(groups, oc // groups, ic, kh, kw)
    packed = padded.view(groups, blocks, OC_BLOCK, ic, kh, kw).permute(0, 1, 4, 5, 3, 2)
    return torch.cat([packed.reshape(-1), weight.new_zeros(ic)])


def unpack_conv_weight(packed: torch.Tensor, oc: int, ic: int, kh: int, kw: int, groups: int) -> torch.Tensor:
    """The inverse of :func:`pack_conv_weight`; ``ic`` is per group."""
    blocks = -(-(oc // groups) // OC_BLOCK)
    body = packed.reshape(-1)[: groups * blocks * kh * kw * ic * OC_BLOCK]
    full = body.view(groups, blocks, kh, kw, ic, OC_BLOCK).permute(0, 1, 5, 4, 2, 3)
    return full.reshape(groups, blocks * OC_BLOCK, ic, kh, kw)[:, : oc // groups].reshape(oc, ic, kh, kw)


def _activate(x: torch.Tensor, activation: Activation, low: float, high: float) -> torch.Tensor:
    apply = {
        Activation.NONE: lambda: x,
        Activation.CLAMP: lambda: torch.clamp(x, low, high),
        Activation.SILU: lambda: F.silu(x),
        Activation.HARDSWISH: lambda: F.hardswish(x),
        Activation.GELU_ERF: lambda: F.gelu(x),
    }
    return apply[Activation(activation)]()


def _window(size: int, out: int, kernel: int, stride: int, pad: int, dilation: int) -> int:
    """How much padding the far side needs so that ``out`` windows fit (negative: so much is cut)."""
    return (out - 1) * stride + (kernel - 1) * dilation + 1 - size - pad


def _spread(x: torch.Tensor, up_h: int, up_w: int) -> torch.Tensor:
    """Put ``up - 1`` zeros between the pixels of an NCHW tensor: a transposed convolution's input."""
    n, c, h, w = x.shape
    wide = x.new_zeros(n, c, (h - 1) * up_h + 1, (w - 1) * up_w + 1)
    wide[:, :, ::up_h, ::up_w] = x
    return wide


@op(
    80,
    inputs={"x": "f32 cont", "weight": "float cont", "bias": "f32? cont"},
    result=shaped(),
    checks=(
        "convolves(x, weight, bias, ne, kernel_w, kernel_h, groups)",
        "window(kernel_w, stride_w, pad_w, dilation_w, up_w)",
        "window(kernel_h, stride_h, pad_h, dilation_h, up_h)",
        "reaches(x, ne, kernel_w, stride_w, pad_w, dilation_w, kernel_h, stride_h, pad_h, dilation_h)",
    ),
    call="custom",
    kernel="conv_2d",
)
def conv_2d(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    *,
    ne: Dims,
    kernel_w: int,
    kernel_h: int,
    stride_w: int,
    stride_h: int,
    pad_w: int,
    pad_h: int,
    dilation_w: int,
    dilation_h: int,
    up_w: int,
    up_h: int,
    groups: int,
    activation: Activation,
    act_min: float,
    act_max: float,
) -> torch.Tensor:
    """Convolution, channels innermost, with packed weights, bias and activation (custom), computed in f32.

    ``pad`` is the near side's; the far side's follows from ``ne``. ``up > 1`` reads the input as if ``up - 1`` zeros
    stood between its pixels: a transposed convolution.
    """
    if 0 in shape_of(ne):
        return x.new_zeros(shape_of(ne))
    _, oh, ow, oc = shape_of(ne)
    kernel = unpack_conv_weight(weight.float(), oc, x.shape[-1] // groups, kernel_h, kernel_w, groups)
    image = _spread(x.permute(0, 3, 1, 2), up_h, up_w)
    far_h = _window(image.shape[2], oh, kernel_h, stride_h, pad_h, dilation_h)
    far_w = _window(image.shape[3], ow, kernel_w, stride_w, pad_w, dilation_w)
    image = F.pad(image, (pad_w, far_w, pad_h, far_h))
    flat = None if bias is None else bias.reshape(-1)
    y = F.conv2d(image, kernel, flat, (stride_h, stride_w), 0, (dilation_h, dilation_w), groups)
    return _activate(y, activation, act_min, act_max).permute(0, 2, 3, 1)


@op(
    81,
    inputs={"x": "f32 cont", "weight": "f32 cont", "bias": "f32? cont"},
    result=shaped(),
    checks=(
        "convolves_depthwise(x, weight, bias, ne, kernel_w, kernel_h)",
        "window(kernel_w, stride_w, pad_w, dilation_w)",
        "window(kernel_h, stride_h, pad_h, dilation_h)",
        "reaches(x, ne, kernel_w, stride_w, pad_w, dilation_w, kernel_h, stride_h, pad_h, dilation_h)",
    ),
    call="custom",
    kernel="conv_2d_dw",
)
def conv_2d_dw(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    *,
    ne: Dims,
    kernel_w: int,
    kernel_h: int,
    stride_w: int,
    stride_h: int,
    pad_w: int,
    pad_h: int,
    dilation_w: int,
    dilation_h: int,
    activation: Activation,
    act_min: float,
    act_max: float,
) -> torch.Tensor:
    """Depthwise convolution, channels innermost (custom). ``weight`` is ``ne = C, KW, KH``."""
    _, oh, ow, c = shape_of(ne)
    image = x.permute(0, 3, 1, 2)
    far_h = _window(image.shape[2], oh, kernel_h, stride_h, pad_h, dilation_h)
    far_w = _window(image.shape[3], ow, kernel_w, stride_w, pad_w, dilation_w)
    image = F.pad(image, (pad_w, far_w, pad_h, far_h))
    kernel = weight.reshape(kernel_h, kernel_w, c).permute(2, 0, 1).unsqueeze(1)
    flat = None if bias is None else bias.reshape(-1)
    y = F.conv2d(image, kernel, flat, (stride_h, stride_w), 0, (dilation_h, dilation_w), c)
    return _activate(y, activation, act_min, act_max).permute(0, 2, 3, 1)


class _Windows(NamedTuple):
    """The windows of a pooling along one axis: the places of their taps, one row a window."""

    places: torch.Tensor
    inside: torch.Tensor
    counted: torch.Tensor  # how many an average divides by, of each window

    @staticmethod
    def of(size: int, out: int, kernel: int, stride: int, pad: int, dilation: int, count_pad: bool = False) -> _Windows:
        """Windows of ``kernel`` taps; where it is 0, ``out`` that cover the axis evenly."""
        number = torch.arange(out)[:, None]
        if kernel == 0:
            first, end = number * size // out, -(-(number + 1) * size // out)
            places = first + torch.arange(int((end - first).max()))
            inside = places < end
        else:
            places = number * stride - pad + torch.arange(kernel) * dilation
            inside = (places >= 0) & (places < size)
        counted = (places < size + pad) if count_pad and kernel > 0 else inside
        return _Windows(places.clamp(0, size - 1), inside, counted.sum(1))


@op(
    82,
    inputs={"x": "f32 cont"},
    result=shaped(),
    checks=(
        "pools(x, ne)",
        "pool_window(kernel_w, stride_w, pad_w, dilation_w)",
        "pool_window(kernel_h, stride_h, pad_h, dilation_h)",
        "reaches(x, ne, kernel_w, stride_w, pad_w, dilation_w, kernel_h, stride_h, pad_h, dilation_h)",
    ),
    call="custom",
    kernel="pool_2d",
)
def pool_2d(
    x: torch.Tensor,
    *,
    ne: Dims,
    kind: PoolKind,
    kernel_w: int,
    kernel_h: int,
    stride_w: int,
    stride_h: int,
    pad_w: int,
    pad_h: int,
    dilation_w: int,
    dilation_h: int,
    divisor: int,
) -> torch.Tensor:
    """Pooling, channels innermost (custom).

    The average is over the window's pixels inside the image, with ``AVG_PAD`` also those inside its padding (``pad`` on
    both sides), or over ``divisor`` where that is not 0. NaN wins in MAX. A kernel of 0 is adaptive: window ``i`` of
    ``n`` is from ``floor(i * size / n)`` to ``ceil((i + 1) * size / n)``.
    """
    _, oh, ow, _ = shape_of(ne)
    count_pad = kind == PoolKind.AVG_PAD
    down = _Windows.of(x.shape[1], oh, kernel_h, stride_h, pad_h, dilation_h, count_pad)
    across = _Windows.of(x.shape[2], ow, kernel_w, stride_w, pad_w, dilation_w, count_pad)
    taps = x[:, down.places][:, :, :, across.places]  # batch, row, its taps, column, its taps, channel
    inside = (down.inside[:, :, None, None] & across.inside)[..., None]
    if kind == PoolKind.MAX:
        return taps.masked_fill(~inside, float("-inf")).amax((2, 4))
    count = (down.counted[:, None] * across.counted)[..., None] if divisor == 0 else torch.tensor(divisor)
    return taps.masked_fill(~inside, 0.0).sum((2, 4)) / count


@op(
    110,
    inputs={"x": "f32 cont"},
    result=Rule(lambda x, ne, **_: (DType.I64, ne), "typed(DType::I64, ne)"),
    checks=(
        "pools_volumes(x, ne, depth, out_depth)",
        "pool_windows(kernel, stride, pad, dilation)",
    ),
    call="custom",
    kernel="max_pool_index",
)
def max_pool_index(
    x: torch.Tensor,
    *,
    ne: Dims,
    depth: Dim,
    out_depth: Dim,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    pad: tuple[int, ...],
    dilation: tuple[int, ...],
) -> torch.Tensor:
    """Where the maxima of a pooling are, counted through a volume's pixels; channels innermost (custom).

    Images are the frames of volumes, ``depth`` of them each. The numbers of a window are those of width, height and
    depth, as in ``pool_2d``. The first of equals counts, and the last NaN.
    """
    frames, oh, ow, channels = shape_of(ne)
    n, (d, h, w) = frames // int(out_depth), (int(depth), *x.shape[1:3])
    volume = x.reshape(n, d, h, w, channels)
    axes = [
        _Windows.of(size, out, kernel[i], stride[i], pad[i], dilation[i])
        for i, (size, out) in enumerate(((w, ow), (h, oh), (d, int(out_depth))))
    ]
    best, place = None, None
    taps = itertools.product(*(range(axis.places.shape[1]) for axis in reversed(axes)))
    for tap in taps:
        z, row, column = (axis.places[:, t] for axis, t in zip(reversed(axes), tap, strict=True))
        inside = [axis.inside[:, t] for axis, t in zip(reversed(axes), tap, strict=True)]
        here = (inside[0][:, None, None] & inside[1][:, None] & inside[2])[..., None].expand(n, -1, -1, -1, channels)
        value = volume[:, z][:, :, row][:, :, :, column]
        number = ((z[:, None, None] * h + row[:, None]) * w + column)[..., None].expand_as(value)
        if best is None or place is None:
            best, place = torch.full_like(value, float("-inf")), torch.full_like(number, -1)
        larger = here & ((value > best) | value.isnan() | (place < 0))
        best, place = torch.where(larger, value, best), torch.where(larger, number, place)
    assert place is not None
    return place.reshape(frames, oh, ow, channels)


@op(
    83,
    inputs={"a": "f32 cont"},
    result=shaped(),
    checks=("interpolates(a, ne)",),
    call="ggml_interpolate(ctx, a, ne[0], ne[1], ne[2], ne[3], scale_mode(mode))",
)
def interpolate(a: torch.Tensor, *, ne: Dims, mode: ScaleMode) -> torch.Tensor:
    """Resize the two inner dims to ``ne`` (``ggml_interpolate``)."""
    size = shape_of(ne)[2:]
    if mode == ScaleMode.NEAREST:
        return F.interpolate(a, size, mode="nearest")
    return F.interpolate(a, size, mode="bilinear", align_corners=mode == ScaleMode.BILINEAR_ALIGN_CORNERS)


@op(
    111,
    inputs={"x": "f32 cont", "grid": "f32 cont"},
    result=Rule(lambda x, grid, **_: (x.dtype, (x.ne[0], *grid.ne[1:])), "sampled({0}, {1})"),
    checks=("samples(x, grid)",),
    call="custom",
    kernel="grid_sample",
)
def grid_sample(
    x: torch.Tensor, grid: torch.Tensor, *, kind: SampleKind, border: SampleBorder, align_corners: bool
) -> torch.Tensor:
    """Pixels at places between -1 and 1, channels innermost; ``grid`` is ``ne = 2, W, H, N`` (custom)."""
    mode, padding = SampleKind(kind).name.lower(), SampleBorder(border).name.lower()
    y = F.grid_sample(x.permute(0, 3, 1, 2), grid, mode=mode, padding_mode=padding, align_corners=align_corners)
    return y.permute(0, 2, 3, 1)
