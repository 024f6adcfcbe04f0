"""Layers: products with a matrix, and convolutions and pooling of images."""

from __future__ import annotations

from dataclasses import replace

from ...ir._lazy import torch
from ...ir.builder import Builder
from ...ir.dims import floor_div, is_one, product, same
from ...ir.dtypes import DType
from ...ir.graph import Node, Value
from ...ir.op import Dim, Dims
from ...ir.ops.spatial import NO_EPILOGUE, PoolKind, Window, Window2d, far_pad
from ...passes.layers import activated
from ...passes.rewrite import Rewriter, present
from ..images import nhwc
from .elementwise import arithmetic
from .rules import stock

MOST_GROUPS = 64  # each is a convolution of its own


@stock("linear")
def linear(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value:
    """A product, a bias, an activation."""
    builder = rewriter.builder
    x, weight, bias = inputs
    assert weight is not None
    y = builder.emit("mul_mat", weight, x)
    if bias is not None:
        y = arithmetic(builder, "add", y, builder.reshape(bias, (bias.count,)))
    return activated(builder, y, node.attrs["epilogue"])


@stock("conv_2d")
def conv_2d(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value:
    """A convolution, a bias, an activation; of many groups the CPU's. ggml has none in bf16: weights are widened."""
    builder = rewriter.builder
    x, weight, bias = inputs
    assert x is not None
    assert weight is not None
    groups, ne = node.attrs["groups"], node.attrs["ne"]
    by_channel = is_one(weight.ne[2]) and same(x.ne[2], groups) and same(ne[2], groups)
    if not (by_channel or groups <= MOST_GROUPS):
        return nhwc(rewriter, node, inputs)
    if weight.dtype == DType.BF16:
        weight = builder.convert(weight, DType.F32)
    image, window = _fitted(builder, x, ne, node.attrs["window"])
    if by_channel:
        y = _convolved(builder, image, weight, ne, window, groups)
    else:
        y = _grouped(builder, image, weight, ne, window, groups)
    if bias is not None:
        y = arithmetic(builder, "add", y, builder.reshape(bias, (1, 1, bias.count)))
    return activated(builder, y, node.attrs["epilogue"])


def _convolved(builder: Builder, image: Value, weight: Value, ne: Dims, window: Window2d, groups: int = 1) -> Value:
    """A convolution that ggml has an op for."""
    return builder.emit("conv_2d", image, weight, None, ne=ne, window=window, groups=groups, epilogue=NO_EPILOGUE)


def _grouped(builder: Builder, image: Value, weight: Value, ne: Dims, window: Window2d, groups: int) -> Value:
    """Each group's channels convolved by themselves."""
    parts = []
    channels, filters = image.ne[2] // groups, ne[2] // groups
    for group in range(groups):
        part = builder.view(image, (0, 0, group * channels, 0), (*image.ne[:2], channels, image.ne[3]))
        kernel = builder.view(weight, (0, 0, 0, group * filters), (*weight.ne[:3], filters))
        result = (ne[0], ne[1], filters, ne[3])
        parts.append(_convolved(builder, part, kernel, result, window))
    joined = parts[0]
    for part in parts[1:]:
        joined = builder.emit("concat", joined, part, dim=2)
    return joined


def _fitted(builder: Builder, image: Value, ne: Dims, window: Window2d) -> tuple[Value, Window2d]:
    """An image, and windows over it, with the same padding on both sides and no gaps between its elements."""
    windows = []
    for dim, along in enumerate((window.w, window.h)):
        if along.up != 1:
            image = _spread(builder, image, dim, along.up)
        size = image.ne[dim]
        if along.pad >= 0 and same(_windows(size, along), ne[dim]):
            windows.append(replace(along, up=1))
            continue
        image = _padded(builder, image, dim, along.pad, far_pad(size, ne[dim], along))
        windows.append(replace(along, up=1, pad=0))
    return image, Window2d(*windows)


def _windows(size: Dim, window: Window) -> Dim:
    """How many windows fit, as ggml counts them."""
    return floor_div(size + 2 * window.pad - window.dilation * (window.kernel - 1) - 1, window.stride) + 1


def _spread(builder: Builder, image: Value, dim: int, up: int) -> Value:
    """``up - 1`` zeros behind each element along a dim."""
    ne = image.ne
    inner = product(ne[:dim])
    apart = builder.reshape(builder.cont(image), (inner, 1, ne[dim], product(ne[dim + 1 :])))
    wide = builder.emit("pad_ext", apart, lead=(0, 0, 0, 0), trail=(0, up - 1, 0, 0))
    return builder.reshape(wide, (*ne[:dim], ne[dim] * up, *ne[dim + 1 :]))


def _padded(builder: Builder, image: Value, dim: int, near: Dim, far: Dim) -> Value:
    """Zeros on both sides of a dim, or what is negative cut."""
    start, ne = [0, 0, 0, 0], list(image.ne)
    lead, trail = [0, 0, 0, 0], [0, 0, 0, 0]
    if isinstance(near, int) and near < 0:
        start[dim], ne[dim], near = -near, ne[dim] + near, 0
    if isinstance(far, int) and far < 0:
        ne[dim], far = ne[dim] + far, 0
    image = builder.view(image, start, ne)
    lead[dim], trail[dim] = near, far
    if _is_zero(near) and _is_zero(far):
        return image
    return builder.emit("pad_ext", builder.cont(image), lead=tuple(lead), trail=tuple(trail))


def _is_zero(size: Dim) -> bool:
    """Whether a size is known to be 0."""
    return isinstance(size, int) and size == 0


stock("grid_sample", "max_pool_index", "quantized_conv_2d", "quantized_pool_2d")(nhwc)


@stock("pool_2d")
def pool_2d(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value:
    """Pooling of floats where each window has as many elements as the next; else the CPU's."""
    (image,) = present(inputs)
    pooled = _pooled(rewriter.builder, node, image) if image.dtype == DType.F32 else None
    return pooled or nhwc(rewriter, node, inputs)


def _pooled(builder: Builder, node: Node, image: Value) -> Value | None:
    kind, divisor, ne = node.attrs["kind"], node.attrs["divisor"], node.attrs["ne"]
    window = _even(node.attrs["window"], image.ne, ne)
    if is_one(ne[0]) and is_one(ne[1]) and kind != PoolKind.MAX and _is_adaptive(node.attrs["window"]):
        rows = builder.reshape(builder.cont(image), (product(image.ne[:2]), image.ne[2], image.ne[3]))
        return builder.reshape(builder.emit("mean", rows), ne)
    if window is None:
        return None
    if kind == PoolKind.MAX:
        return builder.emit("pool_2d", image, ne=ne, kind=kind, window=window, divisor=0)
    uneven = kind == PoolKind.AVG and divisor == 0 and (window.w.pad or window.h.pad)
    if uneven and not all(isinstance(size, int) for size in image.ne[:2]):
        return None
    factor = window.w.kernel * window.h.kernel / divisor if divisor else 1.0
    y = builder.emit("pool_2d", image, ne=ne, kind=PoolKind.AVG_PAD, window=window, divisor=0)
    if uneven:
        return arithmetic(builder, "mul", y, _per_counted(builder, image.ne, window))
    return y if factor == 1.0 else builder.emit("scale_bias", y, s=factor, b=0.0)


def _is_adaptive(window: Window2d) -> bool:
    return window.w.kernel == 0 and window.h.kernel == 0


def _even(window: Window2d, sizes: Dims, ne: Dims) -> Window2d | None:
    """The windows as ggml has them; None where it has none such."""
    windows = []
    for given, size, out in zip((window.w, window.h), sizes, ne, strict=False):
        along = given if given.kernel else _adapted(size, out)
        if along is None:
            return None
        if along.dilation != 1 or along.pad < 0 or 2 * along.pad > along.kernel or not same(_windows(size, along), out):
            return None
        windows.append(along)
    return Window2d(*windows)


def _adapted(size: Dim, out: Dim) -> Window | None:
    """The windows of adaptive pooling where they are all of one size."""
    if not isinstance(size, int) or not isinstance(out, int) or out == 0 or size == 0 or size % out != 0:
        return None
    return Window(kernel=size // out, stride=size // out)


def _per_counted(builder: Builder, sizes: Dims, window: Window2d) -> Value:
    """What turns an average over all of a window's places into one over those inside the image: a number a window."""
    (w, h), across, down = sizes[:2], window.w, window.h

    def factors() -> torch.Tensor:
        shares = torch.nn.functional.avg_pool2d(
            torch.ones(1, 1, h, w), (down.kernel, across.kernel), (down.stride, across.stride), (down.pad, across.pad)
        )
        return 1.0 / shares

    ne = (_windows(w, across), _windows(h, down), 1, 1)
    windows = [f"{size}k{along.kernel}s{along.stride}p{along.pad}" for size, along in ((w, across), (h, down))]
    return builder.constant(f"pool.{'x'.join(windows)}", DType.F32, ne, factors)
