"""Weights of layers stored as the CPU's kernels read them, so that they are used where they lie in the mapped file.

Given::

    constant @weight: f32[64, 96, 1, 1]
    %0 = linear(%x, @weight, @bias)         # or conv_2d

Result::

    constant @weight.matrix_blocks: f32[64, 96, 1, 1] stored as MATRIX_BLOCKS
    %0 = linear(%x, @weight.matrix_blocks, @bias)

A constant that something else reads too stays beside its copy. A reshaped one is a weight like any other.
"""

from __future__ import annotations

from ..ir.graph import Graph, Node, Value
from ..ir.storage import PLAIN, Storage, StorageLayout
from .layers import LAYERS, QUANTIZED_LAYERS
from .rewrite import Rewriter


def run(graph: Graph) -> Graph:
    """The graph with its layers' weights in blocks."""
    return Rewriter(graph).run(dict.fromkeys((*LAYERS, *QUANTIZED_LAYERS), _blocked))


def layout_for(node: Node) -> StorageLayout:
    """How a layer's kernel reads its weight."""
    if node.op in ("linear", "quantized_linear"):
        return StorageLayout(Storage.MATRIX_BLOCKS)
    weight, groups, window = node.inputs[1], node.attrs["groups"], node.attrs["window"]
    assert weight is not None
    is_dense = window.w.up == window.h.up == 1
    if weight.ne[2] == 1 and weight.ne[3] == groups and is_dense:
        return StorageLayout(Storage.DEPTHWISE, groups)
    return StorageLayout(Storage.KERNEL_BLOCKS, groups)


def _blocked(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    x, weight, *others = inputs
    constant = None if weight is None else rewriter.constant(weight)
    if weight is None or constant is None or constant.outside or constant.storage != PLAIN:
        return None
    layout = layout_for(node)
    groups = f"{layout.groups}" if layout.groups != 1 else ""
    shape = "" if constant.value.ne == weight.ne else "x".join(map(str, weight.ne))
    key = f"{constant.key}{shape}.{layout.kind.name.lower()}{groups}"
    copy = rewriter.builder.constant(key, weight.dtype, weight.ne, constant.data)
    stored = rewriter.builder.constant_of(copy)
    assert stored is not None
    stored.storage = layout
    return rewriter.builder.emit(node.op, x, copy, *others, **node.attrs)
