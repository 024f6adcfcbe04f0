"""Quantization: which ggml type each weight is stored in, importance matrices, and what it costs."""

from ..ir.codec import dequantize, quantize
from .config import Choice, GgmlQuantConfig
from .fitting import Sensitivity, sensitivity
from .importance import Importance, arguments
from .report import Quality, QuantReport, TensorReport, compare, dequantized, quantizable, report
from .types import TYPES, fitting

__all__ = [
    "TYPES",
    "Choice",
    "GgmlQuantConfig",
    "Importance",
    "Quality",
    "QuantReport",
    "Sensitivity",
    "TensorReport",
    "arguments",
    "compare",
    "dequantize",
    "dequantized",
    "fitting",
    "quantizable",
    "quantize",
    "report",
    "sensitivity",
]
