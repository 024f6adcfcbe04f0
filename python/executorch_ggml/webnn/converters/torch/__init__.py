"""From a graph to a ``torch.nn.Module``: the reference of what each operator computes.

It takes and gives tensors in the graph's order, and ``torch.export`` takes it, so it is a way to ``.pte`` as well.
"""

from ...graph_info import GraphInfo
from . import convolution, elementwise, indexing, matrix, movement, normalization, quantization, reduction, resampling
from .module import GraphModule

__all__ = [
    "GraphModule",
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


def convert(graph: GraphInfo) -> GraphModule:
    """The module that computes the graph."""
    return GraphModule(graph)
