"""Comparisons and logic: the results are uint8, 0 or 1."""

from __future__ import annotations

from ..data_types import FLOATS
from .binary import broadcast_operands
from .shapes import Shape
from .spec import ANY, UINT8, Call, Same, Tensor, operator

_OUTPUT = Tensor("output", UINT8)
_TWO = {
    "equal": (ANY, "Whether ``a == b``."),
    "notEqual": (ANY, "Whether ``a != b``."),
    "greater": (ANY, "Whether ``a > b``."),
    "greaterOrEqual": (ANY, "Whether ``a >= b``."),
    "lesser": (ANY, "Whether ``a < b``."),
    "lesserOrEqual": (ANY, "Whether ``a <= b``."),
    "logicalAnd": (UINT8, "Whether both are not 0."),
    "logicalOr": (UINT8, "Whether one of them is not 0."),
    "logicalXor": (UINT8, "Whether just one of them is not 0."),
}
_ONE = {
    "logicalNot": (UINT8, "Whether it is 0."),
    "isNaN": (FLOATS, "Whether it is no number."),
    "isInfinite": (FLOATS, "Whether it is an infinity."),
}


def _row_of_two(name: str, types: frozenset[str], doc: str) -> None:
    def infer(call: Call) -> Shape:
        return broadcast_operands(call, "a", "b")

    infer.__doc__ = doc
    operator(name, Tensor("a", types), Tensor("b", Same("a")), outputs=_OUTPUT)(infer)


def _row_of_one(name: str, types: frozenset[str], doc: str) -> None:
    def infer(call: Call) -> Shape:
        return call.shape("a")

    infer.__doc__ = doc
    operator(name, Tensor("a", types), outputs=_OUTPUT)(infer)


for _name, (_types, _doc) in _TWO.items():
    _row_of_two(_name, _types, _doc)
for _name, (_types, _doc) in _ONE.items():
    _row_of_one(_name, _types, _doc)
