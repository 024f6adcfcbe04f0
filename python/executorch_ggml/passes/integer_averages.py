"""Averages of integers: pooling, and means over an image's pixels or over rows, summed in int32 and rounded once.

Given::

    %0 = dequantize(%x, scale=s, zero=z)
    %1 = pool_2d(%0, kind=AVG, ...)         # or reduce(kind=MEAN); a relu or clamp may follow
    %2 = quantize(%1, inverse=i, zero=y)

Result::

    %0 = quantized_pool_2d(%x, kind=AVG, ..., zero=z, factor=s * i, output=(I8, y, low, high))
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from ..ir.builder import Builder
from ..ir.dtypes import DType
from ..ir.formulas import holds
from ..ir.graph import Graph, Node, Value
from ..ir.layout import inverse
from ..ir.op import Dims
from ..ir.ops.custom import ReduceKind
from ..ir.ops.quantized import sums_few
from ..ir.ops.spatial import PoolKind, Window, Window2d
from .integer_functions import clamped, is_whole, rounding_to
from .layers import Layer
from .rewrite import Rewriter, input_of, present

_FROM_CHANNELS_INNERMOST = (2, 0, 1, 3)
_ADAPTIVE, _ONE = Window(kernel=0), Window(kernel=1)


def run(graph: Graph) -> Graph:
    """The graph with averages of integers where they are rounded to integers again."""
    return Rewriter(graph).run({"quantize": _quantized})


def _quantized(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    (x,) = present(inputs)
    average, bounds = clamped(x)
    layer = Layer.behind(rewriter, average, ops=("pool_2d", "reduce", "mean"))
    if layer is None or rewriter.reads(x) != 1 or node.attrs["dtype"] not in (DType.I8, DType.U8):
        return None
    dequantize = input_of(layer.node.output, 0).producer
    if dequantize is None or not is_whole(dequantize):
        return None
    factor = dequantize.attrs["scale"] * node.attrs["inverse"]
    grids = {
        "zero": dequantize.attrs["zero"],
        "factor": 1.0 if math.isclose(factor, 1.0, rel_tol=1e-6) else factor,
        "output": rounding_to(node.attrs, *bounds),
    }
    pooled = _pooled(rewriter.builder, layer.node, input_of(dequantize.output, 0), grids)
    return None if pooled is None else layer.shown(rewriter, pooled)


def _pooled(builder: Builder, average: Node, x: Value, grids: dict[str, Any]) -> Value | None:
    """The average of integers that a node computes of floats."""
    if average.op == "pool_2d":
        return _emitted(builder, x, grids, **average.attrs) if average.attrs["kind"] != PoolKind.MAX else None
    if average.attrs.get("kind", ReduceKind.MEAN) != ReduceKind.MEAN:
        return None
    axes: Collection[int] = average.attrs.get("axes", (0,))
    if 0 in axes:  # a plane of an image
        return _mean(builder, x, axes, grids) if not {2, 3} & set(axes) else None
    if 3 in axes:
        return None
    rows = builder.permute(x, _FROM_CHANNELS_INNERMOST)
    mean = _mean(builder, rows, [axis - 1 for axis in axes], grids)
    return None if mean is None else builder.permute(mean, inverse(_FROM_CHANNELS_INNERMOST))


def _mean(builder: Builder, x: Value, axes: Collection[int], grids: dict[str, Any]) -> Value | None:
    """The mean of images along their width, height or both."""
    width, height = (1 if axis in axes else x.ne[axis] for axis in (0, 1))
    window = Window2d(*(_ADAPTIVE if axis in axes else _ONE for axis in (0, 1)))
    return _emitted(builder, x, grids, ne=(width, height, *x.ne[2:]), kind=PoolKind.AVG, window=window, divisor=0)


def _emitted(
    builder: Builder, x: Value, grids: dict[str, Any], *, ne: Dims, window: Window2d, **how: Any
) -> Value | None:
    if not holds(sums_few, x.ne, ne, window):
        return None
    return builder.emit("quantized_pool_2d", x, ne=ne, window=window, **how, **grids)
