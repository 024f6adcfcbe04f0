"""An activation times another tensor (SwiGLU, GEGLU) as one node.

Given::

    %0 = silu(%x)          # or gelu, gelu_erf; read by nothing else
    %1 = mul(%0, %y)

Result::

    %0 = swiglu_split(%x, %y)
"""

from __future__ import annotations

from ..ir.dims import same_dims
from ..ir.dtypes import DType
from ..ir.graph import Graph, Node, Value
from .rewrite import Rewriter, input_of, present

_GATES = {"silu": "swiglu_split", "gelu": "geglu_split", "gelu_erf": "geglu_erf_split"}


def run(graph: Graph) -> Graph:
    """The graph with its gates as nodes."""
    return Rewriter(graph).run({"mul": _gate})


def _gate(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    a, b = present(inputs)
    for activated, other in ((a, b), (b, a)):
        name = None if activated.producer is None else _GATES.get(activated.producer.op)
        if name is None or other.dtype != DType.F32 or not same_dims(activated.ne, other.ne):
            continue
        if rewriter.reads(activated) == 1:
            return rewriter.builder.emit(name, input_of(activated, 0), other)
    return None
