"""From floats to integers with a scale and a zero point, and back."""

from __future__ import annotations

from ..data_types import FLOATS
from .shapes import Shape, blocks_fill
from .spec import Call, Same, Tensor, operator

_QUANTIZED = frozenset({"uint8", "int8", "uint32", "int32", "uint4", "int4"})


def _checked(call: Call) -> Shape:
    shape = call.shape("input")
    if not blocks_fill(call.shape("scale"), shape):
        call.fail("scale", f"a shape whose dimensions divide those of input, {list(shape)}")
    call.expect_shape("zero_point", call.shape("scale"))
    return shape


@operator(
    "dequantizeLinear",
    Tensor("input", _QUANTIZED),
    Tensor("scale", FLOATS, Same("input")),
    Tensor("zero_point", Same("input"), Same("input")),
    outputs=Tensor("output", Same("scale"), Same("input")),
)
def dequantize_linear(call: Call) -> Shape:
    """``(input - zero_point) * scale``; every scale and zero point is for a block of the input."""
    return _checked(call)


@operator(
    "quantizeLinear",
    Tensor("input", FLOATS),
    Tensor("scale", Same("input"), Same("input")),
    Tensor("zero_point", _QUANTIZED, Same("input")),
    outputs=Tensor("output", Same("zero_point"), Same("input")),
)
def quantize_linear(call: Call) -> Shape:
    """``round_even(input / scale) + zero_point``, limited to the zero point's data type."""
    return _checked(call)
