"""Layers with constant weights, as passes see them: a `linear` or `conv_2d` node, behind views of its result."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from ..ir.builder import Builder
from ..ir.dims import is_one, product, same
from ..ir.dtypes import DType
from ..ir.graph import Constant, Node, Value
from ..ir.ops.spatial import Activation, Epilogue
from ..ir.storage import PLAIN
from .rewrite import Rewriter, computed_by, input_of

LAYERS = {"linear": 0, "conv_2d": 2}  # by op, the dim of its result that has the channels
QUANTIZED_LAYERS = {"quantized_linear": 0, "quantized_conv_2d": 2}
_VIEWS = frozenset({"permute", "reshape", "cont"})


@dataclass(frozen=True)
class Layer:
    """A layer and the views through which a value shows its result, the innermost first. Nothing else reads either."""

    node: Node
    views: tuple[Node, ...]

    @staticmethod
    def behind(
        rewriter: Rewriter, value: Value, *, rounded: bool = False, ops: Collection[str] = LAYERS.keys()
    ) -> Layer | None:
        """The layer whose result a value shows whole, if it is for this one reader alone; None where there is none.

        ``rounded``: as it was before it was rounded to a half type and widened again.
        """
        views: list[Node] = []
        if rewriter.reads(value) != 1:
            return None
        while value.producer is not None and (value.producer.op in _VIEWS or (rounded and _is_conversion(value))):
            if value.producer.op in _VIEWS:
                views.insert(0, value.producer)
            value = input_of(value, 0)
            if rewriter.reads(value) > 1:
                return None
        node = value.producer
        is_layer = node is not None and node.op in ops and value.dtype == DType.F32
        return Layer(node, tuple(views)) if node is not None and is_layer else None

    @property
    def epilogue(self) -> Epilogue:
        """What the layer applies to its result."""
        epilogue: Epilogue = self.node.attrs["epilogue"]
        return epilogue

    def emit(self, rewriter: Rewriter, *, inputs: Sequence[Value | None] | None = None, **attrs: Any) -> Value:
        """The same value with other inputs or attributes of the layer."""
        node = self.node
        return self.shown(rewriter, rewriter.builder.emit(node.op, *(inputs or node.inputs), **{**node.attrs, **attrs}))

    def shown(self, rewriter: Rewriter, value: Value) -> Value:
        """The views of another result of the layer's dims."""
        for view in self.views:
            if view.op == "permute":
                value = rewriter.builder.permute(value, view.attrs["axes"])
            elif view.op == "reshape":
                value = rewriter.builder.reshape(value, view.attrs["ne"])
        return value

    def per_channel(self, rewriter: Rewriter, value: Value) -> Constant | None:
        """The constant that a value is, if it has one number a channel of the layer as the views show it."""
        wide = [dim for dim, size in enumerate(value.ne) if not is_one(size)]
        constant = rewriter.constant(value)
        if constant is None or len(wide) != 1:
            return None
        dim: int | None = wide[0]
        shown = self.views[-1].output if self.views else self.node.output
        if dim is None or not same(value.ne[dim], shown.ne[dim]):
            return None
        for view in reversed(self.views):
            dim = _dim_before(view, dim)
            if dim is None:
                return None
        return constant if dim == LAYERS[self.node.op] else None


def activated(builder: Builder, value: Value, epilogue: Epilogue) -> Value:
    """A layer's epilogue as ops."""
    match Activation(epilogue.activation):
        case Activation.NONE:
            return value
        case Activation.CLAMP if epilogue.low == 0.0 and math.isinf(epilogue.high):
            return builder.emit("relu", value)
        case Activation.CLAMP:
            return builder.emit("clamp", value, min=epilogue.low, max=epilogue.high)
        case Activation.SILU:
            return builder.emit("silu", value)
        case Activation.HARDSWISH:
            return builder.emit("hardswish", value)
        case Activation.GELU_ERF:
            return builder.emit("gelu_erf", value)


def weight_at_hand(rewriter: Rewriter, weight: Value | None) -> Constant | None:
    """The constant that is a layer's weight, plain in the program."""
    constant = None if weight is None else rewriter.constant(weight)
    if constant is None or constant.data is None or constant.outside:
        return None
    return constant if constant.storage == PLAIN else None


def own_weight(rewriter: Rewriter, weight: Value | None) -> Constant | None:
    """The same, of f32, if nothing keeps it in another type."""
    constant = weight_at_hand(rewriter, weight)
    return constant if constant is not None and constant.value.dtype == DType.F32 and constant.kept_in is None else None


def _is_conversion(value: Value) -> bool:
    """Whether a value is f32 rounded to a half type, or that widened."""
    if not computed_by(value, "convert"):
        return False
    return {value.dtype, input_of(value, 0).dtype} in ({DType.F32, DType.F16}, {DType.F32, DType.BF16})


def _dim_before(view: Node, dim: int) -> int | None:
    """The dim of a view's source that a dim of its result is, or None where it is none by itself."""
    if view.op == "permute":
        return int(view.attrs["axes"].index(dim))
    if view.op == "cont":
        return dim
    source, shown = input_of(view.output, 0).ne, view.output.ne
    for index in range(4):
        if same(source[index], shown[dim]) and same(product(source[:index]), product(shown[:dim])):
            return index
    return None
