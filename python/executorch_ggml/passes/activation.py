"""An activation as the last step of the layer before it.

Given::

    %0 = linear(%x, @weight, @bias)    # or conv_2d; views may stand between
    %1 = relu(%0)                      # or clamp, silu, hardswish, gelu_erf

Result::

    %0 = linear(%x, @weight, @bias, epilogue=(CLAMP, 0.0, inf))
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..ir.graph import Graph, Node, Value
from ..ir.ops.spatial import Activation, Epilogue
from .layers import Layer
from .rewrite import Rewriter, present

_EPILOGUES: dict[str, Callable[[dict[str, Any]], Epilogue]] = {
    "relu": lambda attrs: Epilogue(Activation.CLAMP, 0.0, math.inf),
    "clamp": lambda attrs: Epilogue(Activation.CLAMP, attrs["min"], attrs["max"]),
    "silu": lambda attrs: Epilogue(Activation.SILU),
    "hardswish": lambda attrs: Epilogue(Activation.HARDSWISH),
    "gelu_erf": lambda attrs: Epilogue(Activation.GELU_ERF),
}


def run(graph: Graph) -> Graph:
    """The graph with its activations in the layers before them."""
    return Rewriter(graph).run(dict.fromkeys(_EPILOGUES, _activated))


def _activated(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    (x,) = present(inputs)
    layer = Layer.behind(rewriter, x, rounded=True)
    epilogue = _EPILOGUES[node.op](node.attrs)
    if layer is None or layer.epilogue.activation != Activation.NONE:
        return None
    if math.isnan(epilogue.low) or math.isnan(epilogue.high):
        return None
    return layer.emit(rewriter, epilogue=epilogue)
