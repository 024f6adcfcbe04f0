"""Elementwise functions of two operands of one type, broadcast both ways; and selection."""

from __future__ import annotations

from .shapes import Shape, broadcast
from .spec import ANY, SIGNED, UINT8, Call, Same, Tensor, operator

_FUNCTIONS = {
    "add": "The sum. Integers wrap.",
    "sub": "The difference. Integers wrap.",
    "mul": "The product. Integers wrap.",
    "div": "The quotient. Integers are truncated towards zero.",
    "max": "The greater of the two.",
    "min": "The lesser of the two.",
    "pow": "``a`` to the power of ``b``.",
}


def broadcast_operands(call: Call, first: str, second: str) -> Shape:
    """The common shape of two operands."""
    shape = broadcast(call.shape(first), call.shape(second))
    if shape is None:
        call.fail(second, f"a shape that broadcasts with {first}'s, {list(call.shape(first))}")
    return shape


def _row(name: str, doc: str) -> None:
    def infer(call: Call) -> Shape:
        return broadcast_operands(call, "a", "b")

    infer.__doc__ = doc
    operator(name, Tensor("a", ANY), Tensor("b", Same("a")), outputs=Tensor("output", Same("a")))(infer)


for _name, _doc in _FUNCTIONS.items():
    _row(_name, _doc)


@operator("prelu", Tensor("input", SIGNED), Tensor("slope", Same("input")), outputs=Tensor("output", Same("input")))
def prelu(call: Call) -> Shape:
    """``max(0, x) + slope * min(0, x)``, broadcast both ways."""
    return broadcast_operands(call, "input", "slope")


@operator(
    "where",
    Tensor("condition", UINT8),
    Tensor("true_value", ANY),
    Tensor("false_value", Same("true_value")),
    outputs=Tensor("output", Same("true_value")),
)
def where(call: Call) -> Shape:
    """``true_value`` where the condition is not 0, else ``false_value``, all broadcast."""
    values = broadcast_operands(call, "true_value", "false_value")
    shape = broadcast(call.shape("condition"), values)
    if shape is None:
        call.fail("condition", f"a shape that broadcasts with the values', {list(values)}")
    return shape
