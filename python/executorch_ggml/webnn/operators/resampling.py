"""Resizing of images."""

from __future__ import annotations

import math

from .shapes import Shape
from .spec import Call, Choice, Integers, Reals, Same, Tensor, operator


@operator(
    "resample2d",
    Tensor("input", frozenset({"float32", "float16", "uint8", "int8"}), (4, 4)),
    Choice("mode", "nearest-neighbor", ("nearest-neighbor", "linear")),
    Reals("scales", (1.0, 1.0), length=2),
    Integers("sizes", None, length=2, low=1),
    Integers("axes", (2, 3), length=2),
    outputs=Tensor("output", Same("input"), (4, 4)),
)
def resample2d(call: Call) -> Shape:
    """Two dimensions, ``axes``, resized to ``sizes``, or by ``scales``."""
    shape = list(call.shape("input"))
    for i, axis in enumerate(call.axes("axes", 4)):
        size = math.floor(shape[axis] * call["scales"][i]) if call["sizes"] is None else call["sizes"][i]
        if size < 1:
            call.fail("scales", f"scales that leave at least 1 of the {shape[axis]} elements along dimension {axis}")
        shape[axis] = size
    call.options["sizes"] = tuple(shape[axis] for axis in call["axes"])
    return tuple(shape)
