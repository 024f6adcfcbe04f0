"""Quantized matrices stored in panels, as the CPU's int8 GEMM reads them, so that they are used where they are mapped.

Given::

    constant @weight: q4_0[64, 96, 1, 1]
    %0 = mul_mat(@weight, %x)
    %1 = get_rows(@weight, %tokens)

Result::

    constant @weight: q4_0[64, 96, 1, 1] stored as PANELS
    %0 = mul_mat(@weight, %x)
    %1 = get_rows(@weight, %tokens)

A matrix that something else reads too stays plain.
"""

from __future__ import annotations

from ..ir.dims import is_one
from ..ir.graph import Constant, Graph, Node, Value
from ..ir.panels import has_panels
from ..ir.storage import PLAIN, Storage, StorageLayout

PANELS = StorageLayout(Storage.PANELS)


def run(graph: Graph) -> Graph:
    """The graph with its matrices in panels. Raises ValueError for one whose bytes are in another file."""
    other_reads = _other_reads(graph)
    for constant in graph.constants:
        if constant.value in other_reads or not _fits(constant):
            continue
        if constant.outside:
            raise ValueError(
                f"layout 'cpu': {constant.key} stays in its GGUF file, in ggml's own layout; put the weights into the "
                f"program (without external=True, --external-weights), or leave the layout out"
            )
        constant.storage = PANELS
    return graph


def applies(graph: Graph) -> bool:
    """Whether a matrix of the graph is in panels."""
    return any(constant.storage == PANELS for constant in graph.constants)


def _fits(constant: Constant) -> bool:
    is_matrix = all(is_one(size) for size in constant.value.ne[2:])
    return is_matrix and constant.storage == PLAIN and has_panels(constant.value.dtype)


def _other_reads(graph: Graph) -> set[Value]:
    """What is read otherwise than as the matrix of a product with one matrix, or as the table of ``get_rows``."""
    reads = {port.value for port in graph.outputs}
    for node in graph.nodes:
        reads.update(value for value in node.inputs[_reads_panels(node) :] if value is not None)
    return reads


def _reads_panels(node: Node) -> bool:
    """Whether the first input may be in panels."""
    if node.op == "mul_mat":
        rows = node.inputs[1]
        return rows is not None and all(is_one(size) for size in rows.ne[2:])
    return node.op == "get_rows"
