"""Elementwise functions of one operand, and casts."""

from __future__ import annotations

from ..data_types import FLOATS
from .shapes import Shape
from .spec import ANY_WITH_4_BITS, SIGNED, Call, Chosen, Same, Tensor, TypeName, operator

_FUNCTIONS = {
    "abs": (SIGNED, "Absolute value."),
    "ceil": (FLOATS, "Rounded up."),
    "cos": (FLOATS, "Cosine."),
    "erf": (FLOATS, "Error function."),
    "exp": (FLOATS, "Exponential."),
    "floor": (FLOATS, "Rounded down."),
    "identity": (ANY_WITH_4_BITS, "The same values."),
    "log": (FLOATS, "Natural logarithm."),
    "neg": (SIGNED, "``-x``."),
    "reciprocal": (FLOATS, "``1 / x``."),
    "roundEven": (FLOATS, "Rounded, halves to the even neighbour."),
    "sin": (FLOATS, "Sine."),
    "sign": (SIGNED, "-1, 0 or 1; 0 for NaN."),
    "sqrt": (FLOATS, "Square root."),
    "tan": (FLOATS, "Tangent."),
}


def same_shape(name: str, types: frozenset[str], doc: str) -> None:
    """A row whose result is like its one operand."""

    def infer(call: Call) -> Shape:
        return call.shape("input")

    infer.__doc__ = doc
    operator(name, Tensor("input", types), outputs=Tensor("output", Same("input"), Same("input")))(infer)


for _name, (_types, _doc) in _FUNCTIONS.items():
    same_shape(_name, _types, _doc)


@operator(
    "cast",
    Tensor("input", ANY_WITH_4_BITS),
    TypeName("data_type", types=ANY_WITH_4_BITS),
    outputs=Tensor("output", Chosen("data_type"), Same("input")),
)
def cast(call: Call) -> Shape:
    """The values as another data type.

    Floats lose their fraction on the way to integers; integers that do not fit keep their lowest bits.
    """
    return call.shape("input")
