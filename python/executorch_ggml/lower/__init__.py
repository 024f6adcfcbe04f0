"""Lowerings from ATen to the IR: one module a family, imported here so that the registry is complete."""

from . import (
    attention,
    convolution,
    creation,
    distance,
    elementwise,
    embedding_bag,
    indexing,
    matmul,
    normalization,
    padding,
    pooling,
    rearrange,
    reduction,
    resizing,
    scan,
    scatter,
    shape,
    sorting,
)
from .graph import Lowering
from .registry import LOWERINGS, Refused, lowers

__all__ = [
    "LOWERINGS",
    "Lowering",
    "Refused",
    "attention",
    "convolution",
    "creation",
    "distance",
    "elementwise",
    "embedding_bag",
    "indexing",
    "lowers",
    "matmul",
    "normalization",
    "padding",
    "pooling",
    "rearrange",
    "reduction",
    "resizing",
    "scan",
    "scatter",
    "shape",
    "sorting",
]
