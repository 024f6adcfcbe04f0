"""Transposed convolutions of integers whose windows lie side by side: each pixel becomes a tile, by a product.

Given::

    %0 = dequantize(%x, scale=s, zero=z)
    %1 = dequantize(@weight, @scales)           # int8, ne = 2, 2, IC, OC
    %2 = conv_2d(%0, %1, @bias, window={kernel: 2, pad: 1, up: 2})

Result::

    constant @tiles: ne = 1, 1, IC, 4 * OC
    %0 = dequantize(@tiles, ...)
    %1 = conv_2d(%x..., %0, ...)                # 4 * OC channels, which are the pixels of tiles
    %2 = ... of %1                              # the tiles' pixels in their places: reshapes and a permutation
"""

from __future__ import annotations

from ..ir._lazy import torch
from ..ir.builder import Builder
from ..ir.dims import same
from ..ir.dtypes import DType
from ..ir.graph import Graph, Node, Value
from ..ir.layout import inverse
from ..ir.op import Dim
from ..ir.ops.spatial import Window, Window2d
from .integer_functions import is_whole
from .rewrite import Rewriter, computed_by, input_of

_TO_CHANNELS_INNERMOST = (1, 2, 0, 3)


def run(graph: Graph) -> Graph:
    """The graph with such convolutions as products."""
    return Rewriter(graph).run({"conv_2d": _tiled})


def _tiled(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    x, dequantized, bias = inputs
    if x is None or dequantized is None or not is_whole(x.producer) or not _lie_side_by_side(node, x):
        return None
    if not computed_by(dequantized, "dequantize") or dequantized.producer is None:
        return None
    weight, scales = rewriter.constant(input_of(dequantized, 0)), dequantized.producer.inputs[1]
    addend = None if bias is None else rewriter.constant(bias)
    factors = None if scales is None else rewriter.constant(scales)
    of_channels = scales is None or same(scales.ne[3], scales.count)
    if weight is None or weight.value.dtype != DType.I8 or not of_channels:
        return None
    if (factors is None) != (scales is None) or (addend is None) != (bias is None):
        return None
    builder, (width, height, inner, outer) = rewriter.builder, dequantized.ne
    pixels = width * height

    def tiles(numbers: torch.Tensor) -> torch.Tensor:
        turned = numbers.reshape(outer, inner, height, width).flip(2, 3)
        return turned.permute(2, 3, 0, 1).reshape(pixels * outer, inner)

    def repeated(numbers: torch.Tensor) -> torch.Tensor:
        return numbers.repeat(pixels)

    along = (1, 1, 1, pixels * outer)
    matrix = rewriter.derived("tiles", [weight], (1, 1, inner, pixels * outer), tiles)
    each = None if factors is None else rewriter.derived(f"of{pixels}", [factors], along, repeated)
    added = None if addend is None else rewriter.derived(f"of{pixels}", [addend], (pixels * outer, 1, 1, 1), repeated)
    y = builder.emit(
        "conv_2d",
        x,
        builder.emit("dequantize", matrix, each, **dequantized.producer.attrs),
        added,
        ne=(*x.ne[:2], pixels * outer, x.ne[3]),
        window=Window2d(),
        groups=1,
        epilogue=node.attrs["epilogue"],
    )
    return _in_place(builder, y, width, height)


def _lie_side_by_side(node: Node, x: Value) -> bool:
    """Whether each pixel of the image is a window of its own, as wide as the image is spread."""

    def is_tile(window: Window, size: Dim, out: Dim) -> bool:
        is_spread = window.up > 1 and window == Window(window.up, 1, window.up - 1, 1, window.up)
        return is_spread and same(out, size * window.up)

    window, ne = node.attrs["window"], node.output.ne
    across, down = is_tile(window.w, x.ne[0], ne[0]), is_tile(window.h, x.ne[1], ne[1])
    return node.attrs["groups"] == 1 and across and down


def _in_place(builder: Builder, y: Value, width: int, height: int) -> Value:
    """An image whose channels are the rows of tiles of that size, one after the other, as the image of their pixels."""
    columns, rows, channels, images = y.ne
    outer = channels // (width * height)
    apart = builder.permute(y, _TO_CHANNELS_INNERMOST)
    apart = builder.reshape(apart, (width * outer, height, columns, rows * images))
    whole = builder.reshape(builder.permute(apart, (0, 2, 1, 3)), (outer, columns * width, rows * height, images))
    return builder.permute(whole, inverse(_TO_CHANNELS_INNERMOST))
