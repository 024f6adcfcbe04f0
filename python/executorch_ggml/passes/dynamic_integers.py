"""Linear layers in int8: weights when the program is written, what they multiply at run time, both row by row.

Given::

    constant @weight: f32[64, 96, 1, 1]
    %0 = linear(%x, @weight, @bias, epilogue=relu)

Result::

    constant @weight.int8: i8[64, 96, 1, 1]
    constant @weight.int8_scales: f32[96, 1, 1, 1]
    %0 = unary(%x, kind=ABS)
    %1 = reduce(%0, kind=MAX, axes=(0))
    %2 = clamp(%1, min=2 ** -100)
    %3 = scale_bias(%2, s=1 / 127)
    %4 = div(%x, %3)
    %5 = quantize(%4, inverse=1)
    %6 = quantized_linear(%5, @weight.int8, @weight.int8_scales)
    %7 = mul(%6, %3)
    %8 = add(%7, @bias)
    %9 = relu(%8)

The largest number of a row, of either sign, is 127. Sums are in int32. A row with NaN or infinity in it gives no finite
number, and does not change other rows.
"""

from __future__ import annotations

import math
from functools import partial

from ..ir._lazy import torch
from ..ir.builder import Builder
from ..ir.dtypes import DType
from ..ir.formulas import holds
from ..ir.graph import Constant, Graph, Node, Value
from ..ir.ops.custom import ReduceKind, UnaryKind
from ..ir.ops.quantized import UNBOUNDED, is_short
from .integer_layers import scaled_rows
from .layers import activated, own_weight
from .rewrite import Rewriter

LEAST = 2.0**-100  # of the largest number in a row: a row of zeros has a scale too
LEVELS = 127


def run(graph: Graph) -> Graph:
    """The graph with its linear layers in int8."""
    return Rewriter(graph).run({"linear": _quantized})


def applies(graph: Graph) -> bool:
    """Whether the pass has quantized layers of a graph."""
    return any(_SUFFIX in constant.key for constant in graph.constants)  # a digest is behind it in a program


_SUFFIX = ".int8_scales"


def _quantized(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    x, weight, bias = inputs
    constant = own_weight(rewriter, weight)
    if x is None or weight is None or constant is None or not holds(is_short, weight.ne[0]):
        return None
    builder = rewriter.builder
    scale = _row_scales(builder, x)
    grid = {"inverse": 1.0, "zero": 0, "low": -LEVELS, "high": LEVELS, "dtype": DType.I8}
    integers = builder.emit("quantize", builder.emit("div", x, scale), **grid)
    matrix, scales = _weight(builder, constant, weight)
    y = builder.emit("quantized_linear", integers, matrix, scales, None, zero=0, output=UNBOUNDED)
    addend = None if bias is None else builder.reshape(bias, (bias.count,))
    return activated(builder, scaled_rows(builder, y, scale, addend), node.attrs["epilogue"])


def _row_scales(builder: Builder, x: Value) -> Value:
    """What the integers of each row are multiplied with."""
    largest = builder.reduce(builder.emit("unary", x, kind=UnaryKind.ABS), ReduceKind.MAX, (0,))
    return builder.emit("scale_bias", builder.emit("clamp", largest, min=LEAST, max=math.inf), s=1 / LEVELS, b=0.0)


def _weight(builder: Builder, constant: Constant, weight: Value) -> tuple[Value, Value]:
    """A matrix as int8, and the scale of each of its rows."""
    rows = int(weight.ne[1])
    data = partial(_rows, constant, rows)
    matrix = builder.constant(f"{constant.key}.int8", DType.I8, weight.ne, lambda: _integers(data()))
    return matrix, builder.constant(f"{constant.key}{_SUFFIX}", DType.F32, (rows, 1, 1, 1), lambda: _scales(data()))


def _rows(constant: Constant, rows: int) -> torch.Tensor:
    assert constant.data is not None
    return constant.data().reshape(rows, -1)


def _scales(rows: torch.Tensor) -> torch.Tensor:
    return rows.abs().amax(1).clamp_min(LEAST) / LEVELS


def _integers(rows: torch.Tensor) -> torch.Tensor:
    return torch.round(rows / _scales(rows)[:, None]).clamp(-LEVELS, LEVELS).to(torch.int8)
