"""Layout propagation: images with channels innermost, permutations carried towards the outputs, pairs cancelled.

Given::

    %0 = conv_2d(%image, @weight)           # ne = W, H, C, N
    %1 = mul(%0, %scale)
    %2 = conv_2d(%1, @other)

Result::

    %0 = permute(%image, axes=(1, 2, 0, 3))
    %1 = cont(%0)
    %2 = conv_2d_nhwc(%1, @weight)          # ne = C, W, H, N
    %3 = permute(%scale, axes=(1, 2, 0, 3))
    %4 = mul(%2, %3)
    %5 = conv_2d_nhwc(%4, @other)
    %6 = permute(%5, axes=(2, 0, 1, 3))

What the table says computes the same in any order of dims (its column ``along``) is computed where its first permuted
operand lies, unless a normalization or a product of rows reads it, at once or after more such work: these would copy it
back. A copy of a permuted tensor is left out: whatever reads it says by itself whether it must be dense.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...ir.builder import IDENTITY
from ...ir.graph import Graph, Node, Value
from ...ir.layout import Axes, common_layout, inverse, layout_of
from ...ir.op import OpSpec
from ...ir.ops import OPS
from ...ir.ops.custom import ReduceKind
from ...passes.rewrite import Rewriter, Rule, present
from ..images import IMAGE_OPS, nhwc

_OVER_ROWS = {"mean": ReduceKind.MEAN, "sum_rows": ReduceKind.SUM}
_OF_ROWS = ("norm", "rms_norm", "linear", "quantized_linear", "mul_mat")


def run(graph: Graph) -> Graph:
    """The graph with channels innermost in images, and its permutations as far towards the outputs as they go."""
    of_rows = _read_by_rows(graph)

    def carried(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
        return None if node.output in of_rows else _carried(rewriter, node, inputs)

    rules: dict[str, Rule] = {name: carried for name, spec in OPS.items() if spec.along is not None}
    rules |= dict.fromkeys(("reduce", *_OVER_ROWS), _reduced)
    rules |= dict.fromkeys(IMAGE_OPS, nhwc)
    return Rewriter(graph).run({**rules, "cont": _dense})


def _read_by_rows(graph: Graph) -> set[Value]:
    """What ops that want dense rows read, at once or after work that is the same in any order of dims."""
    found: set[Value] = set()
    for node in reversed(graph.nodes):
        passes_on = node.spec.along is not None or node.op in ("cont", "reshape")
        if node.op in _OF_ROWS or (passes_on and node.output in found):
            found.update(present(node.inputs))
    return found


def _dense(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value:
    del node
    (x,) = present(inputs)
    return rewriter.builder.cont(x) if layout_of(x) == IDENTITY else x


def _carried(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    """The node on the tensors that its operands are permutations of."""
    axes, values = common_layout(rewriter.builder, present(inputs))
    if axes == IDENTITY or not _may_move(node.spec, axes):
        return None
    attrs = _moved(node.spec, node.attrs, inverse(axes))
    return rewriter.builder.permute(rewriter.builder.emit(node.op, *values, **attrs), axes)


def _may_move(spec: OpSpec, axes: Axes) -> bool:
    """Whether the dims that an op always works along stay in their places."""
    return all(axes[dim] == dim for dim in spec.along or () if isinstance(dim, int))


def _moved(spec: OpSpec, attrs: Mapping[str, Any], places: Axes) -> dict[str, Any]:
    """The attributes, with other numbers for the dims that they name."""
    return {**attrs, **{name: places[attrs[name]] for name in spec.along or () if isinstance(name, str)}}


def _reduced(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value:
    """A reduction of the tensor that its operand is a permutation of, where it may be one of rows."""
    (x,) = present(inputs)
    axes = layout_of(x)
    base = rewriter.builder.permute(x, inverse(axes))
    kind = _OVER_ROWS[node.op] if node.op in _OVER_ROWS else node.attrs["kind"]
    places = sorted(inverse(axes)[dim] for dim in node.attrs.get("axes", (0,)))
    return rewriter.builder.permute(rewriter.builder.reduce(base, kind, places), axes)
