"""The operator table: every operator of the specification, a row each, by family."""

from . import (
    activation,
    binary,
    convolution,
    indexing,
    logical,
    matrix,
    movement,
    normalization,
    pooling,
    quantization,
    recurrent,
    reduction,
    resampling,
    unary,
)
from .spec import OPERATORS, OperatorSpec

__all__ = [
    "OPERATORS",
    "OperatorSpec",
    "activation",
    "binary",
    "convolution",
    "indexing",
    "logical",
    "matrix",
    "movement",
    "normalization",
    "pooling",
    "quantization",
    "recurrent",
    "reduction",
    "resampling",
    "unary",
]
