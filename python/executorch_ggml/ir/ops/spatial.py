"""Ops over images in ggml's order, ``ne = W, H, C, N``. Those named ``nhwc`` are the CPU's: channels innermost.

A target replaces the ops in ggml's order by those that it has kernels for, except for the calls that ggml computes.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from .._lazy import F, torch
from ..dtypes import DType
from ..formulas import count, formula, is_one, known
from ..op import Dim, Dims, Operand, op
from .movement import shape_of


class Activation(enum.IntEnum):
    """What a convolution applies to its result."""

    NONE = 0
    CLAMP = 1  # to [low, high]: relu, relu6, hardtanh
    SILU = 2
    HARDSWISH = 3
    GELU_ERF = 4


@dataclass(frozen=True)
class Epilogue:
    """What a convolution applies to its result: an activation, and the bounds of CLAMP."""

    activation: Activation = Activation.NONE
    low: float = 0.0
    high: float = 0.0


NO_EPILOGUE = Epilogue()


@dataclass(frozen=True)
class Window:
    """A sliding window along one axis; ``up - 1`` zeros stand between the elements of the input."""

    kernel: int = 1
    stride: int = 1
    pad: int = 0
    dilation: int = 1
    up: int = 1


@dataclass(frozen=True)
class Window2d:
    """The windows along an image's two axes."""

    w: Window = Window()
    h: Window = Window()


@dataclass(frozen=True)
class Window3d:
    """The windows along a volume's three axes."""

    w: Window = Window()
    h: Window = Window()
    d: Window = Window()


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


def activate(x: torch.Tensor, epilogue: Epilogue) -> torch.Tensor:
    """The result of a convolution with its epilogue applied."""
    apply = {
        Activation.NONE: lambda: x,
        Activation.CLAMP: lambda: torch.clamp(x, epilogue.low, epilogue.high),
        Activation.SILU: lambda: F.silu(x),
        Activation.HARDSWISH: lambda: F.hardswish(x),
        Activation.GELU_ERF: lambda: F.gelu(x),
    }
    return apply[Activation(epilogue.activation)]()


def far_pad(size: int, out: int, window: Window) -> int:
    """How much padding the far side needs so that ``out`` windows fit (negative: so much is cut)."""
    return (out - 1) * window.stride + (window.kernel - 1) * window.dilation + 1 - size - window.pad


def _fitted(image: torch.Tensor, ne: Dims, window: Window2d) -> torch.Tensor:
    """The image as the windows see it: spread out and padded."""
    _, _, oh, ow = shape_of(ne)
    n, c, h, w = image.shape
    wide = image.new_zeros(n, c, (h - 1) * window.h.up + 1, (w - 1) * window.w.up + 1)
    wide[:, :, :: window.h.up, :: window.w.up] = image
    far_h, far_w = far_pad(wide.shape[2], oh, window.h), far_pad(wide.shape[3], ow, window.w)
    return F.pad(wide, (window.w.pad, far_w, window.h.pad, far_h))


def _on_planes(reference: Callable[..., torch.Tensor], x: torch.Tensor, *others: Any, **attrs: Any) -> torch.Tensor:
    """An op's reference on an image with channels innermost."""
    return reference(x.permute(0, 3, 1, 2), *others, **attrs).permute(0, 2, 3, 1)


@formula
def planes(ne: Dims) -> Dims:
    """The dims of an image with channels innermost, in ggml's order."""
    return (ne[1], ne[2], ne[0], ne[3])


@formula
def is_window(window: Window) -> bool:
    """Whether the numbers are sane and small."""
    return (
        1 <= window.kernel < 2**24
        and 1 <= window.stride < 2**24
        and 1 <= window.dilation < 2**24
        and 1 <= window.up < 2**24
        and -(2**24) < window.pad < 2**24
    )


@formula
def slides(window: Window2d) -> bool:
    """Expects `window` to have a kernel, stride, dilation and up from 1 on, all numbers being less than 2^24."""
    return is_window(window.w) and is_window(window.h)


@formula
def is_pool_window(window: Window) -> bool:
    """Whether the numbers are sane and small; a kernel of 0 is adaptive and has no gaps."""
    return (
        0 <= window.kernel < 2**24
        and 1 <= window.stride < 2**24
        and 1 <= window.dilation < 2**24
        and (window.kernel > 0 or window.dilation == 1)
        and window.up == 1
        and -(2**24) < window.pad < 2**24
    )


@formula
def pools_over(window: Window2d) -> bool:
    """Expects `window` to have a stride and dilation from 1 on, an up of 1, and a kernel from 1 on, or 0 (adaptive)."""
    return is_pool_window(window.w) and is_pool_window(window.h)


@formula
def pools_over_volume(window: Window3d) -> bool:
    """Expects `window` to have a stride and dilation from 1 on, an up of 1, and a kernel from 1 on, or 0 (adaptive)."""
    return is_pool_window(window.w) and is_pool_window(window.h) and is_pool_window(window.d)


@formula
def reach(out: Dim, window: Window) -> int:
    """How far the windows of a result's axis reach."""
    return out * window.stride + window.kernel * window.dilation + abs(window.pad)


@formula
def reaches(x: Dims, ne: Dims, window: Window2d) -> bool:
    """Expects `window` over `x`, for a result `ne`, to touch places in the image or out of it that 59 bits count."""
    return (reach(ne[1], window.h) + x[1] * x[3]) * (x[0] * x[2]) < 2**59 and reach(ne[0], window.w) * x[2] < 2**59


@formula
def has_few_taps(window: Window2d) -> bool:
    """Expects `window` to have 1 to 65536 taps: a convolution keeps something for each."""
    return window.w.kernel >= 1 and window.h.kernel >= 1 and window.w.kernel * window.h.kernel <= 2**16


@formula
def fits_groups(x: Dims, ne: Dims, groups: int) -> bool:
    """Expects `groups` to divide the channels of `x` and of the result `ne`, and these to be fewer than 2^26."""
    return known(x[2]) and known(ne[2]) and 1 <= groups <= ne[2] <= 2**26 and x[2] % groups == 0 and ne[2] % groups == 0


@formula
def is_kernel(weight: Operand, x: Dims, ne: Dims, window: Window2d, groups: int) -> bool:
    """Expects `weight` to have the dims of `window`, the channels of `x` over `groups` and those of the result `ne`."""
    return (
        weight.ne[0] == window.w.kernel
        and weight.ne[1] == window.h.kernel
        and weight.ne[2] == x[2] // groups
        and weight.ne[3] == ne[2]
    )


@formula
def is_bias(bias: Operand | None, channels: Dim) -> bool:
    """Expects `bias` to have an element for each of the `channels`."""
    return bias is None or count(bias.ne) == channels


@formula
def keeps_batch(x: Dims, ne: Dims) -> bool:
    """Expects the result `ne` to have as many images as `x`."""
    return x[3] == ne[3]


@formula
def keeps_channels(x: Dims, ne: Dims) -> bool:
    """Expects the result `ne` to have as many channels as `x`."""
    return x[2] == ne[2]


@formula
def pools_volumes(x: Dims, ne: Dims, depth: Dim, out_depth: Dim) -> bool:
    """Expects `x` and the result `ne` to be as many volumes, of `depth` and of `out_depth` images each."""
    return (
        depth > 0
        and out_depth > 0
        and x[3] % depth == 0
        and ne[3] % out_depth == 0
        and x[3] // depth == ne[3] // out_depth
    )


@formula
def pool_taps(window: Window, size: Dim, out: Dim) -> int:
    """How many pixels a pooling's window sees along an axis, at most."""
    return min(size, window.kernel if window.kernel > 0 else size // max(1, out) + 2)


@formula
def has_grid(x: Dims, grid: Operand) -> bool:
    """Expects `grid` to have two numbers a place, and as many images as `x`."""
    return grid.ne[0] == 2 and grid.ne[3] == x[3]


@formula
def counts_in_f32(x: Dims) -> bool:
    """Expects `x` to be of 2^24 pixels each way at most: places are computed in float32."""
    return x[0] <= 2**24 and x[1] <= 2**24


@formula
def interpolates(a: Dims, ne: Dims) -> bool:
    """Expects `a` and the result `ne` to be 1 to 2^20 pixels each way, and the outer dims the same.

    Places are found in f32, which counts no further.
    """
    return all(0 < n <= 2**20 for n in (a[0], a[1], ne[0], ne[1])) and a[2] == ne[2] and a[3] == ne[3]


@formula
def fits_windows(size: Dim, out: Dim, window: Window) -> bool:
    """Whether so many windows fit, with the same padding on both sides."""
    return (
        window.pad >= 0
        and window.up == 1
        and (window.kernel - 1) * window.dilation + 1 <= size + 2 * window.pad
        and (size + 2 * window.pad - (window.kernel - 1) * window.dilation - 1) // window.stride + 1 == out
    )


@formula
def slides_evenly(x: Dims, ne: Dims, window: Window2d) -> bool:
    """Whether the window, padded as much on both sides, fits as often as the result says."""
    return fits_windows(x[0], ne[0], window.w) and fits_windows(x[1], ne[1], window.h)


@formula
def is_by_channel(weight: Operand, x: Dims, ne: Dims, groups: int) -> bool:
    """Whether each channel is convolved with its own kernel."""
    return is_one(weight.ne[2]) and x[2] == groups and ne[2] == groups


@formula
def convolves_as_ggml(x: Dims, weight: Operand, ne: Dims, window: Window2d, groups: int) -> bool:
    """Whether ggml has an op for a convolution: even padding, and one group, or one a channel."""
    return (
        weight.dtype != DType.BF16
        and slides_evenly(x, ne, window)
        and (groups == 1 or is_by_channel(weight, x, ne, groups))
    )


@formula
def has_strips(weight: Operand, window: Window2d, kernel: int) -> bool:
    """Whether strips of columns may compute a convolution by channels (kernels/convolution/conv_2d_dw_isa.cpp)."""
    return (
        weight.ne[2] == 1
        and window.w.kernel == kernel
        and window.w.dilation == 1
        and window.w.up == 1
        and window.w.stride <= 2
    )


_SLIDES_BY_ONE = " and ".join(
    f"window.{axis}.kernel == 3 and window.{axis}.stride == 1 and window.{axis}.dilation == 1 and window.{axis}.up == 1"
    for axis in ("w", "h")
)
_BY_WINOGRAD = f"groups == 1 and weight.ne[2] >= 16 and weight.ne[3] >= 16 and {_SLIDES_BY_ONE}"
_FAMILIES = {
    "winograd": _BY_WINOGRAD,
    "depthwise_3": "has_strips(weight, window, 3)",
    "depthwise_5": "has_strips(weight, window, 5)",
    "depthwise_7": "has_strips(weight, window, 7)",
}

_CONVOLVED = {"x": "f32 cont", "weight": "float cont", "bias": "f32? cont"}


def _convolution_checks(x: str, ne: str) -> tuple[str, ...]:
    """What a convolution expects of an image and a result, given their dims in ggml's order."""
    return (
        "has_few_taps(window)",
        "slides(window)",
        f"fits_groups({x}, {ne}, groups)",
        f"is_kernel(weight, {x}, {ne}, window, groups)",
        f"is_bias(bias, {ne}[2])",
        f"keeps_batch({x}, {ne})",
        f"reaches({x}, {ne}, window)",
    )


@op(
    80,
    inputs=_CONVOLVED,
    result="x.dtype, ne",
    checks=_convolution_checks("x.ne", "ne"),
    work="ne[0] * ne[1] * ne[3] * count(weight.ne)",
    call="compositions::conv_2d(self, x, weight, window, groups)",
    stock=(
        "bias is None and epilogue.activation == Activation.NONE"
        " and convolves_as_ggml(x.ne, weight, ne, window, groups)"
    ),
)
def conv_2d(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    *,
    ne: Dims,
    window: Window2d,
    groups: int,
    epilogue: Epilogue,
) -> torch.Tensor:
    """Convolution of images, computed in f32 (``ggml_conv_2d_direct``). ``weight`` is ``ne = KW, KH, IC, OC``.

    ``IC`` is per group. ``pad`` is the near side's; the far side's follows from ``ne``. ``up > 1`` reads the input as
    if ``up - 1`` zeros stood between its pixels: a transposed convolution.
    """
    if 0 in shape_of(ne):
        return x.new_zeros(shape_of(ne))
    flat = None if bias is None else bias.reshape(-1)
    steps = [(getattr(window.h, name), getattr(window.w, name)) for name in ("stride", "dilation")]
    return activate(F.conv2d(_fitted(x, ne, window), weight.float(), flat, steps[0], 0, steps[1], groups), epilogue)


@op(
    84,
    inputs=_CONVOLVED,
    result="x.dtype, ne",
    checks=_convolution_checks("planes(x.ne)", "planes(ne)"),
    work="ne[1] * ne[2] * ne[3] * count(weight.ne)",
    call="self.conv_2d_nhwc(x, weight, bias, window, groups, epilogue)",
    kernel="conv_2d",
    families=_FAMILIES,
)
def conv_2d_nhwc(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    *,
    ne: Dims,
    window: Window2d,
    groups: int,
    epilogue: Epilogue,
) -> torch.Tensor:
    """``conv_2d`` with channels innermost, which is what the CPU's kernels vectorize over (custom)."""
    attrs = {"window": window, "groups": groups, "epilogue": epilogue}
    return _on_planes(conv_2d, x, weight, bias, ne=planes(ne), **attrs)


class _Windows(NamedTuple):
    """The windows of a pooling along one axis: the places of their taps, one row a window."""

    places: torch.Tensor
    inside: torch.Tensor
    counted: torch.Tensor  # how many an average divides by, of each window

    @staticmethod
    def of(size: int, out: int, window: Window, count_pad: bool = False) -> _Windows:
        """The window's places; where its kernel is 0, those of ``out`` windows that cover the axis evenly."""
        number = torch.arange(out)[:, None]
        if window.kernel == 0:
            first, end = number * size // out, -(-(number + 1) * size // out)
            places = first + torch.arange(int((end - first).max()))
            inside = places < end
        else:
            places = number * window.stride - window.pad + torch.arange(window.kernel) * window.dilation
            inside = (places >= 0) & (places < size)
        counted = (places < size + window.pad) if count_pad and window.kernel > 0 else inside
        return _Windows(places.clamp(0, size - 1), inside, counted.sum(1))


@formula
def pools_as_ggml(x: Dims, ne: Dims, kind: PoolKind, window: Window2d) -> bool:
    """Whether ggml has an op for a pooling: of windows without gaps, all of one size, all of whose places count."""
    return (
        kind != PoolKind.AVG
        and window.w.kernel > 0
        and window.h.kernel > 0
        and window.w.dilation == 1
        and window.h.dilation == 1
        and window.w.pad * 2 <= window.w.kernel
        and window.h.pad * 2 <= window.h.kernel
        and slides_evenly(x, ne, window)
    )


@formula
def averages_floats(x: Operand, kind: PoolKind) -> bool:
    """Expects `x` to be of float32 where `kind` is an average."""
    return x.dtype == DType.F32 or kind == PoolKind.MAX


def _pooling_checks(x: str, ne: str) -> tuple[str, ...]:
    """What a pooling expects of an image and a result, given their dims in ggml's order."""
    return (
        f"keeps_channels({x}, {ne})",
        f"keeps_batch({x}, {ne})",
        "pools_over(window)",
        f"reaches({x}, {ne}, window)",
    )


@op(
    82,
    inputs={"x": "f32|i8|u8 cont"},
    result="x.dtype, ne",
    checks=("averages_floats(x, kind)", *_pooling_checks("x.ne", "ne")),
    work="count(ne) * pool_taps(window.w, x.ne[0], ne[0]) * pool_taps(window.h, x.ne[1], ne[1])",
    call="compositions::pool_2d(self, x, kind, window)",
    stock="is_f32(x) and divisor == 0 and pools_as_ggml(x.ne, ne, kind, window)",
)
def pool_2d(x: torch.Tensor, *, ne: Dims, kind: PoolKind, window: Window2d, divisor: int) -> torch.Tensor:
    """Pooling of images (``ggml_pool_2d``).

    The average is over the window's pixels inside the image, with ``AVG_PAD`` also those inside its padding (``pad`` on
    both sides), or over ``divisor`` where that is not 0. NaN wins in MAX. A kernel of 0 is adaptive: window ``i`` of
    ``n`` is from ``floor(i * size / n)`` to ``ceil((i + 1) * size / n)``.
    """
    _, _, oh, ow = shape_of(ne)
    count_pad = kind == PoolKind.AVG_PAD
    down = _Windows.of(x.shape[2], oh, window.h, count_pad)
    across = _Windows.of(x.shape[3], ow, window.w, count_pad)
    taps = x[:, :, down.places][:, :, :, :, across.places]  # batch, channel, row, its taps, column, its taps
    inside = down.inside[:, :, None, None] & across.inside
    if kind == PoolKind.MAX:
        lowest = float("-inf") if x.is_floating_point() else torch.iinfo(x.dtype).min
        return taps.masked_fill(~inside, lowest).amax((3, 5))
    count = down.counted[:, None] * across.counted if divisor == 0 else torch.tensor(divisor)
    return taps.masked_fill(~inside, 0.0).sum((3, 5)) / count


@op(
    85,
    inputs={"x": "f32|i8|u8 cont"},
    result="x.dtype, ne",
    checks=("averages_floats(x, kind)", *_pooling_checks("planes(x.ne)", "planes(ne)")),
    work="count(ne) * pool_taps(window.w, x.ne[1], ne[1]) * pool_taps(window.h, x.ne[2], ne[2])",
    call="custom",
    kernel="pool_2d",
)
def pool_2d_nhwc(x: torch.Tensor, *, ne: Dims, kind: PoolKind, window: Window2d, divisor: int) -> torch.Tensor:
    """``pool_2d`` with channels innermost (custom)."""
    return _on_planes(pool_2d, x, ne=planes(ne), kind=kind, window=window, divisor=divisor)


def _places_checks(x: str, ne: str) -> tuple[str, ...]:
    """What the places of maxima expect of images and a result, given their dims in ggml's order."""
    return (
        f"keeps_channels({x}, {ne})",
        f"pools_volumes({x}, {ne}, depth, out_depth)",
        "pools_over_volume(window)",
    )


@op(
    110,
    inputs={"x": "f32 cont"},
    result="DType.I64, ne",
    checks=_places_checks("x.ne", "ne"),
    work=(
        "count(ne) * pool_taps(window.w, x.ne[0], ne[0]) * pool_taps(window.h, x.ne[1], ne[1])"
        " * pool_taps(window.d, x.ne[3], ne[3])"
    ),
    call="replaced",
)
def max_pool_index(x: torch.Tensor, *, ne: Dims, depth: Dim, out_depth: Dim, window: Window3d) -> torch.Tensor:
    """Where the maxima of a pooling are, counted through a volume's pixels.

    Images are the frames of volumes, ``depth`` of them each. The windows are as in ``pool_2d``. The first of equals
    counts, and the last NaN.
    """
    frames, channels, oh, ow = shape_of(ne)
    n, (d, h, w) = frames // int(out_depth), (int(depth), *x.shape[2:])
    volume = x.reshape(n, d, channels, h, w)
    axes = [
        _Windows.of(size, out, along)
        for size, out, along in ((w, ow, window.w), (h, oh, window.h), (d, int(out_depth), window.d))
    ]
    best, place = None, None
    taps = itertools.product(*(range(axis.places.shape[1]) for axis in reversed(axes)))
    for tap in taps:
        z, row, column = (axis.places[:, t] for axis, t in zip(reversed(axes), tap, strict=True))
        inside = [axis.inside[:, t] for axis, t in zip(reversed(axes), tap, strict=True)]
        here = inside[0][:, None, None, None] & inside[1][:, None] & inside[2]  # frame, channel, row, column
        value = volume[:, z][:, :, :, row][:, :, :, :, column]
        number = ((z[:, None, None, None] * h + row[:, None]) * w + column).expand_as(value)
        if best is None or place is None:
            best, place = torch.full_like(value, float("-inf")), torch.full_like(number, -1)
        larger = here & ((value > best) | value.isnan() | (place < 0))
        best, place = torch.where(larger, value, best), torch.where(larger, number, place)
    assert place is not None
    return place.reshape(shape_of(ne))


@op(
    86,
    inputs={"x": "f32 cont"},
    result="DType.I64, ne",
    checks=_places_checks("planes(x.ne)", "planes(ne)"),
    work=(
        "count(ne) * pool_taps(window.w, x.ne[1], ne[1]) * pool_taps(window.h, x.ne[2], ne[2])"
        " * pool_taps(window.d, x.ne[3], ne[3])"
    ),
    call="custom",
    kernel="max_pool_index",
)
def max_pool_index_nhwc(x: torch.Tensor, *, ne: Dims, depth: Dim, out_depth: Dim, window: Window3d) -> torch.Tensor:
    """``max_pool_index`` with channels innermost (custom)."""
    return _on_planes(max_pool_index, x, ne=planes(ne), depth=depth, out_depth=out_depth, window=window)


@op(
    83,
    inputs={"a": "f32 cont"},
    result="a.dtype, ne",
    checks=("interpolates(a.ne, ne)",),
    call="ggml_interpolate(ctx, a, ne[0], ne[1], ne[2], ne[3], scale_mode(mode))",
)
def interpolate(a: torch.Tensor, *, ne: Dims, mode: ScaleMode) -> torch.Tensor:
    """Resize the two inner dims to ``ne`` (``ggml_interpolate``)."""
    size = shape_of(ne)[2:]
    if mode == ScaleMode.NEAREST:
        return F.interpolate(a, size, mode="nearest")
    return F.interpolate(a, size, mode="bilinear", align_corners=mode == ScaleMode.BILINEAR_ALIGN_CORNERS)


@op(
    88,
    inputs={"a": "f32 cont"},
    result="a.dtype, ne",
    checks=("interpolates(planes(a.ne), planes(ne))",),
    work="count(ne) * (1 if mode == ScaleMode.NEAREST else 4)",
    call="custom",
    kernel="interpolate",
)
def interpolate_nhwc(a: torch.Tensor, *, ne: Dims, mode: ScaleMode) -> torch.Tensor:
    """``interpolate`` with channels innermost (custom)."""
    return _on_planes(interpolate, a, ne=planes(ne), mode=mode)


_SAMPLE_WORK = "count(result.ne) * (16 if kind == SampleKind.BICUBIC else 4)"


@op(
    111,
    inputs={"x": "f32 cont", "grid": "f32 cont"},
    result="x.dtype, (grid.ne[1], grid.ne[2], x.ne[2], grid.ne[3])",
    checks=("has_grid(x.ne, grid)", "counts_in_f32(x.ne)"),
    work=_SAMPLE_WORK,
    call="replaced",
)
def grid_sample(
    x: torch.Tensor, grid: torch.Tensor, *, kind: SampleKind, border: SampleBorder, align_corners: bool
) -> torch.Tensor:
    """Pixels sampled at coordinates between -1 and 1; ``grid`` is ``ne = 2, W, H, N``."""
    mode, padding = SampleKind(kind).name.lower(), SampleBorder(border).name.lower()
    return F.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=align_corners)


@op(
    87,
    inputs={"x": "f32 cont", "grid": "f32 cont"},
    result="x.dtype, (x.ne[0], grid.ne[1], grid.ne[2], grid.ne[3])",
    checks=("has_grid(planes(x.ne), grid)", "counts_in_f32(planes(x.ne))"),
    work=_SAMPLE_WORK,
    call="custom",
    kernel="grid_sample",
)
def grid_sample_nhwc(
    x: torch.Tensor, grid: torch.Tensor, *, kind: SampleKind, border: SampleBorder, align_corners: bool
) -> torch.Tensor:
    """``grid_sample`` with channels innermost (custom)."""
    return _on_planes(grid_sample, x, grid, kind=kind, border=border, align_corners=align_corners)
