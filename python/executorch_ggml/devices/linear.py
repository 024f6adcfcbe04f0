"""Linear layers as matrix products: programs have convolutions of one pixel, with weights packed for the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..ir.builder import Builder
from ..ir.dtypes import DType
from ..ir.graph import Constant, Value
from ..ir.ops.spatial import OC_BLOCK, Activation, Epilogue, Window, Window2d
from .arrays import Contents, contents


def as_product(b: Builder, x: Value, weight: Value, bias: Value | None, attrs: Mapping[str, Any]) -> Value | None:
    """The result of ``conv_2d`` as a matrix product in f32, a bias and an activation; None where it is not one."""
    if not is_linear(attrs) or tuple(attrs["ne"])[1:] != x.ne[1:]:
        return None
    constant = next((each for each in b.graph.constants if each.value is weight), None)
    if constant is None:
        return None
    product = b.emit("mul_mat", _matrix(b, constant, int(attrs["ne"][0]), int(x.ne[0])), x)
    if bias is not None:
        product = b.emit("add", product, b.reshape(bias, (bias.count,)))
    return _activated(b, product, attrs["epilogue"])


def is_linear(attrs: Mapping[str, Any]) -> bool:
    """Whether a convolution of as many pixels as there are in the image multiplies each by the same matrix."""
    window: Window2d = attrs["window"]
    axes = [replace(axis, dilation=1) for axis in (window.w, window.h)]  # a single tap has none
    return attrs["groups"] == 1 and axes == [Window(), Window()]


def _matrix(b: Builder, constant: Constant, features: int, inputs: int) -> Value:
    """The matrix of the weights that ``pack_conv_weight`` packed: a row for each of the features."""
    dtype = constant.value.dtype

    def matrix() -> np.ndarray[Any, Any]:
        packed = contents(constant)
        if dtype == DType.BF16:
            packed = (packed.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
        blocks = -(-features // OC_BLOCK)
        rows = packed[: blocks * OC_BLOCK * inputs].reshape(blocks, inputs, OC_BLOCK).transpose(0, 2, 1)
        return np.ascontiguousarray(rows.reshape(-1, inputs)[:features], np.float32).reshape(-1)

    key = f"{constant.key}:matrix{features}x{inputs}"
    return b.constant(key, DType.F32, (inputs, features, 1, 1), Contents(matrix, DType.F32, key))


def _activated(b: Builder, value: Value, epilogue: Epilogue) -> Value:
    low, high = epilogue.low, epilogue.high
    match epilogue.activation:
        case Activation.NONE:
            return value
        case Activation.CLAMP if (low, high) == (0.0, float("inf")):
            return b.emit("relu", value)
        case Activation.CLAMP:
            return b.emit("clamp", value, min=low, max=high)
        case other:
            return b.emit(other.name.lower(), value)
