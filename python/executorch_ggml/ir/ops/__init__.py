"""The op table: one module a family, imported here so that ``OPS`` is complete."""

from ..op import OPS
from . import custom, elementwise, indexing, matrix, movement, normalization, quantized, recurrent, spatial

__all__ = [
    "OPS",
    "custom",
    "elementwise",
    "indexing",
    "matrix",
    "movement",
    "normalization",
    "quantized",
    "recurrent",
    "spatial",
]
