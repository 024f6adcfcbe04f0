"""The MLX functions of the op table, one module a family, imported here so that ``TABLE`` is complete."""

from ..registry import TABLE
from . import custom, elementwise, indexing, matrix, movement, normalization, recurrent, sampling, spatial

__all__ = [
    "TABLE",
    "custom",
    "elementwise",
    "indexing",
    "matrix",
    "movement",
    "normalization",
    "recurrent",
    "sampling",
    "spatial",
]
