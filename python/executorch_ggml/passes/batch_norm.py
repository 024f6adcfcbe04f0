"""Batch norm, a bias, or any scale and shift per channel, folded into the layer before it.

Given::

    %0 = conv_2d(%x, @weight, @bias)    # or linear; views may stand between
    %1 = mul(%0, @scale)
    %2 = add(%1, @shift)

Result::

    %0 = conv_2d(%x, @weight * scale, @bias * scale + shift)
"""

from __future__ import annotations

from collections.abc import Callable

from ..ir._lazy import torch
from ..ir.dtypes import DType
from ..ir.graph import Constant, Graph, Node, Value
from ..ir.ops.movement import shape_of
from ..ir.ops.spatial import Activation
from .layers import Layer
from .rewrite import Rewriter, Rule, present

Fold = Callable[[Rewriter, Layer, Constant], Value | None]


def run(graph: Graph) -> Graph:
    """The graph with its batch norms folded."""
    return Rewriter(graph).run({"mul": _with_constant(_scaled), "add": _with_constant(_shifted)})


def _with_constant(fold: Fold) -> Rule:
    """The rule that folds what one operand, a constant per channel, does to the layer that the other one is."""

    def rule(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
        a, b = present(inputs)
        for value, operand in ((a, b), (b, a)):
            layer = Layer.behind(rewriter, value)
            if layer is None or layer.epilogue.activation != Activation.NONE:
                continue
            constant = layer.per_channel(rewriter, operand)
            if constant is not None and constant.value.dtype == DType.F32:
                return fold(rewriter, layer, constant)
        return None

    return rule


def _scaled(rewriter: Rewriter, layer: Layer, scale: Constant) -> Value | None:
    x, weight, bias = layer.node.inputs
    assert weight is not None
    rows = rewriter.constant(weight)
    offsets = None if bias is None else rewriter.constant(bias)
    if rows is None or weight.dtype != DType.F32 or (bias is not None and offsets is None):
        return None  # a weight of a half type would be rounded twice
    shape = shape_of(weight.ne)
    channels = 0 if layer.node.op == "conv_2d" else 2  # the dim of a weight in torch's order of four

    def scaled_rows(w: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        return w.view(shape) * s.view([-1 if dim == channels else 1 for dim in range(4)])

    folded = rewriter.derived("scaled", [rows, scale], weight.ne, scaled_rows)
    if offsets is not None:
        bias = rewriter.derived("scaled", [offsets, scale], offsets.value.ne, torch.mul)
    return layer.emit(rewriter, inputs=(x, folded, bias))


def _shifted(rewriter: Rewriter, layer: Layer, shift: Constant) -> Value | None:
    x, weight, bias = layer.node.inputs
    if bias is None:
        ne = (shift.value.count, 1, 1, 1)
        in_line = shift.value.ne == ne
        offsets = shift.value if in_line else rewriter.derived("bias", [shift], ne, lambda t: t)
    else:
        known = rewriter.constant(bias)
        if known is None:
            return None
        offsets = rewriter.derived("shifted", [known, shift], known.value.ne, torch.add)
    return layer.emit(rewriter, inputs=(x, weight, offsets))
