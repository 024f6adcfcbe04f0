"""From a graph to the project's IR, operator by operator, with the lowerings' own composing functions.

Nothing is traced: the operator table says every result's shape, which is all that a lowering asks of a trace. The IR
has no unsigned integers wider than 8 bits and no 4-bit ones, so uint32 is carried in int64, uint64 in int64 of the same
bits, and 4-bit integers in 8 bits.
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.dims import ne_of
from ...ir.graph import Graph, IRError
from ...passes import run_passes
from ...webnn.decompositions import decompose
from ...webnn.errors import OperationError
from ...webnn.graph_info import GraphInfo
from ..aten.context import Tensor
from ..aten.registry import Refused
from . import (
    convolution,
    elementwise,
    indexing,
    matrix,
    movement,
    normalization,
    pooling,
    quantization,
    reduction,
    resampling,
)
from .emitter import CARRIERS, EMITTERS, Emitter, constant

__all__ = [
    "convert",
    "convolution",
    "elementwise",
    "indexing",
    "matrix",
    "movement",
    "normalization",
    "pooling",
    "quantization",
    "reduction",
    "resampling",
]


def convert(graph: GraphInfo) -> Graph:
    """The IR, with its constants' data. Raises OperationError, with all reasons, for what it cannot say."""
    graph = decompose(graph)
    builder = Builder()
    values: dict[int, Tensor] = {}
    for name, place in graph.inputs.items():
        operand = graph.operands[place]
        value = builder.input(name, CARRIERS[operand.data_type], operand.shape, ne_of(operand.shape))
        values[place] = Tensor(value, operand.shape)
    for place, array in graph.constants.items():
        values[place] = constant(builder, f"constant{place}", array, graph.operands[place].data_type)
    reasons: dict[str, None] = {}
    for operation in graph.operations:
        operands = operation.operands_from(values.__getitem__)
        first = next(operation.reads())
        results = [graph.operands[place] for place in operation.outputs]
        cx = Emitter(builder, results, graph.operands[first].data_type)
        builder.origin = operation.label or operation.name
        try:
            made = EMITTERS[operation.name](cx, **operands, **operation.options)
            tensors = list(made) if isinstance(made, (list, tuple)) else [made]
            refused = next((tensor for tensor in tensors if isinstance(tensor, Refused)), None)
            if refused is not None:
                raise IRError(refused.reason)
            values.update(zip(operation.outputs, map(cx.finished, tensors, range(len(tensors))), strict=True))
        except IRError as error:
            reasons[f"{operation.name}: {error}"] = None
            values.update((place, cx.placeholder(i)) for i, place in enumerate(operation.outputs))
    if reasons:
        raise OperationError("; ".join(reasons))
    for name, place in graph.outputs.items():
        builder.output(name, values[place].value, graph.operands[place].shape)
    return run_passes(builder.finish())
