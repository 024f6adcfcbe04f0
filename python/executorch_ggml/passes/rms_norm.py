"""RMS norm written out as one node.

Given::

    %0 = sqr(%x)
    %1 = mean(%0)
    %2 = scale_bias(%1, s=1.0, b=eps)
    %3 = unary(%2, kind=RSQRT)
    %4 = mul(%x, %3)

Result::

    %0 = rms_norm(%x, eps=eps)
"""

from __future__ import annotations

from ..ir.dims import same_dims
from ..ir.graph import Graph, Node, Value
from ..ir.ops.custom import UnaryKind
from .rewrite import Rewriter, present


def run(graph: Graph) -> Graph:
    """The graph with its RMS norms as nodes."""
    return Rewriter(graph).run({"mul": _rms_norm})


def _rms_norm(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    a, b = present(inputs)
    for x, factor in ((a, b), (b, a)):
        eps = _epsilon(x, factor)
        if eps is not None and same_dims(x.ne, node.output.ne):
            return rewriter.builder.emit("rms_norm", x, eps=eps)
    return None


def _epsilon(x: Value, factor: Value) -> float | None:
    """The eps for which ``factor`` is ``rsqrt(mean(x * x) + eps)`` along rows, or None."""
    steps: list[Node] = []
    value: Value | None = factor
    while value is not None and value.producer is not None and value.producer.inputs and len(steps) < 4:
        steps.append(value.producer)
        value = value.producer.inputs[0]
    if [step.op for step in steps] != ["unary", "scale_bias", "mean", "sqr"] or value is not x:
        return None
    root, shift = steps[0].attrs, steps[1].attrs
    is_norm = root["kind"] == UnaryKind.RSQRT and shift["s"] == 1.0 and shift["b"] >= 0.0
    return float(shift["b"]) if is_norm else None
