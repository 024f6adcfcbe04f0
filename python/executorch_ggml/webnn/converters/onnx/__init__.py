"""From a graph to an ONNX model, checked, in forms that ONNX Runtime has kernels for.

Where it has none for a data type, a wider one is used: half types are computed in float32, narrow and unsigned
integers in int32 or int64, of which results keep the lowest bits. 4-bit integers are in 8 bits but for constants.
"""

from __future__ import annotations

import onnx

from ...decompositions import decompose
from ...errors import OperationError
from ...graph_info import GraphInfo
from . import convolution, elementwise, indexing, matrix, movement, normalization, quantization, reduction, resampling
from .writer import EMITTERS, CannotError, Value, Writer

__all__ = [
    "convert",
    "convolution",
    "elementwise",
    "indexing",
    "matrix",
    "movement",
    "normalization",
    "quantization",
    "reduction",
    "resampling",
]


def convert(graph: GraphInfo) -> onnx.ModelProto:
    """The model. Raises OperationError, with all reasons, where ONNX Runtime could not run it."""
    graph = decompose(graph)
    writer = Writer(graph)
    values: dict[int, Value] = {}
    for name, place in graph.inputs.items():
        values[place] = writer.input(name, graph.operands[place])
    for place, array in graph.constants.items():
        values[place] = writer.operand_constant(array, graph.operands[place])
    reasons: dict[str, None] = {}
    for operation in graph.operations:
        operands = operation.operands_from(values.__getitem__)
        results = [graph.operands[place] for place in operation.outputs]
        writer.results = results
        try:
            made = EMITTERS[operation.name](writer, **operands, **operation.options)
        except CannotError as cannot:
            reasons[f"{operation.name}: {cannot}"] = None
            made = [Value("", result.data_type, result.shape) for result in results]
        for place, result, value in zip(
            operation.outputs, results, made if isinstance(made, list) else [made], strict=True
        ):
            values[place] = writer.cast(value, result.data_type)
    if reasons:
        raise OperationError("; ".join(reasons))
    for name, place in graph.outputs.items():
        writer.output(name, values[place])
    return writer.model()
