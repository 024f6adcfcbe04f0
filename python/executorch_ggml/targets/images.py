"""Images with channels innermost, as the CPU's kernels read them."""

from __future__ import annotations

from ..ir.graph import Node, Value
from ..ir.op import Dims
from ..ir.ops import OPS
from ..ir.ops.custom import ROUNDED_TO
from ..ir.ops.spatial import planes
from ..passes.rewrite import Rewriter, computed_by, input_of

TO_NHWC = (1, 2, 0, 3)  # of an image in ggml's order, ne = W, H, C, N, to ne = C, W, H, N
FROM_NHWC = (2, 0, 1, 3)
IMAGE_OPS = tuple(name for name in OPS if f"{name}_nhwc" in OPS)


def nhwc(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value:
    """An op of images as the kernel's, between permutations."""
    builder, (x, *others) = rewriter.builder, inputs
    assert x is not None
    x = input_of(x, 0) if computed_by(x, "cont") else x  # the permuted one is copied
    attrs = {name: _nhwc_dims(value) if name == "ne" else value for name, value in node.attrs.items()}
    result = builder.emit(f"{node.op}_nhwc", _permuted(rewriter, x), *others, **attrs)
    return builder.permute(result, FROM_NHWC)


def _permuted(rewriter: Rewriter, x: Value) -> Value:
    """An image in NHWC. Rounding moves behind the permutation, where the convolution fuses it."""
    rounding = x.producer
    if rounding is None or rounding.op != "unary" or rounding.attrs["kind"] not in ROUNDED_TO:
        return rewriter.builder.permute(x, TO_NHWC)
    permuted = rewriter.builder.permute(input_of(x, 0), TO_NHWC)
    return rewriter.builder.emit("unary", rewriter.builder.cont(permuted), **rounding.attrs)


def planar(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value:
    """A kernel's op of images as the one in ggml's order, between permutations: the inverse of :func:`nhwc`."""
    builder, (x, *others) = rewriter.builder, inputs
    assert x is not None
    attrs = {name: planes(value) if name == "ne" else value for name, value in node.attrs.items()}
    result = builder.emit(node.op.removesuffix("_nhwc"), builder.permute(x, FROM_NHWC), *others, **attrs)
    return builder.permute(result, TO_NHWC)


def _nhwc_dims(ne: Dims) -> Dims:
    return ne[2], ne[0], ne[1], ne[3]
