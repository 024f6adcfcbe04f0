"""Layers that are matrix products, as such: what a device written in Python can do best."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ...ir.arrays import Contents, contents
from ...ir.builder import Builder
from ...ir.dtypes import DType
from ...ir.graph import Constant, Value
from ...ir.ops.spatial import NO_EPILOGUE, Activation, Epilogue, Window, Window2d


def as_product(
    b: Builder, op: str, x: Value, weight: Value, bias: Value | None, attrs: Mapping[str, Any]
) -> Value | None:
    """A layer as a matrix product in f32, a bias and an activation; None where it is another convolution."""
    if op == "conv_2d_nhwc" and (not is_linear(attrs) or tuple(attrs["ne"])[1:] != x.ne[1:]):
        return None
    rows = (weight.ne[0], weight.ne[1]) if op == "linear" else (weight.ne[2], weight.ne[3])
    product = b.emit("mul_mat", b.reshape(_as_f32(b, weight), rows), x)
    if bias is not None:
        product = b.emit("add", product, b.reshape(bias, (bias.count,)))
    return _activated(b, product, attrs.get("epilogue", NO_EPILOGUE))


def is_linear(attrs: Mapping[str, Any]) -> bool:
    """Whether a convolution of as many pixels as there are in the image multiplies each by the same matrix."""
    window: Window2d = attrs["window"]
    axes = [replace(axis, dilation=1) for axis in (window.w, window.h)]  # a single tap has none
    return attrs["groups"] == 1 and axes == [Window(), Window()]


def _as_f32(b: Builder, weight: Value) -> Value:
    """A weight of a half type widened, ahead of time where it is constant."""
    constant = b.constant_of(weight)
    if constant is None or weight.dtype == DType.F32:
        return b.convert(weight, DType.F32)
    key = f"{constant.key}:f32"
    return b.constant(key, DType.F32, weight.ne, Contents(lambda: _widened(constant), DType.F32, key))


def _widened(constant: Constant) -> np.ndarray[Any, Any]:
    halves = contents(constant)
    if constant.value.dtype == DType.BF16:
        halves = (halves.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return np.ascontiguousarray(halves, np.float32).reshape(-1)


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
