"""The W3C Web Neural Network API for Python, on ggml: https://www.w3.org/TR/webnn/.

    ml = webnn.ML()
    context = ml.create_context(accelerated=False)
    builder = context.create_graph_builder()
    x = builder.input("x", [2, 3], "float32")
    graph = builder.build({"output": builder.relu(x)})
    context.compute(graph, {"x": array})["output"]

Methods and options have the specification's names in snake_case. What the specification makes a promise is done when
the call returns.
"""

from .context import ML, MLContext, MLGraph, MLGraphBuilder
from .data_types import DataType
from .errors import BackendUnavailable, GraphFileError, InvalidStateError, OperationError
from .files import load, save
from .graph_info import GraphInfo, Operand, Operation
from .operand import MLOperand
from .registry import register_converter, register_executor
from .tensor import MLTensor

__all__ = [
    "ML",
    "BackendUnavailable",
    "DataType",
    "GraphFileError",
    "GraphInfo",
    "InvalidStateError",
    "MLContext",
    "MLGraph",
    "MLGraphBuilder",
    "MLOperand",
    "MLTensor",
    "Operand",
    "Operation",
    "OperationError",
    "load",
    "register_converter",
    "register_executor",
    "save",
]
