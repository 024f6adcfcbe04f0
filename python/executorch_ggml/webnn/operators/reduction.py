"""Reductions, places of extremes, and running sums."""

from __future__ import annotations

from collections.abc import Sequence

from ..data_types import FLOATS, integer_range
from .shapes import MAX_RANK, Shape
from .spec import ANY, WIDE, Call, Chosen, Flag, Integer, Integers, Same, Tensor, TypeName, operator

_FUNCTIONS = {
    "reduceL1": (WIDE, "The sum of absolute values."),
    "reduceL2": (FLOATS, "The square root of the sum of squares."),
    "reduceLogSum": (FLOATS, "The logarithm of the sum."),
    "reduceLogSumExp": (FLOATS, "The logarithm of the sum of exponentials."),
    "reduceMax": (ANY, "The greatest."),
    "reduceMean": (FLOATS, "The mean."),
    "reduceMin": (ANY, "The least."),
    "reduceProduct": (WIDE, "The product."),
    "reduceSum": (WIDE, "The sum."),
    "reduceSumSquare": (WIDE, "The sum of squares."),
}
_DETAILS = """

    Over ``axes``, or all dimensions; over no axes each element is taken alone. ``keep_dimensions`` keeps what is
    reduced as dimensions of size 1."""


def _reduced(shape: Shape, axes: Sequence[int], keep: bool) -> Shape:
    if keep:
        return tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


def _row(name: str, types: frozenset[str], doc: str) -> None:
    def infer(call: Call) -> Shape:
        shape = call.shape("input")
        axes = tuple(range(len(shape))) if call["axes"] is None else call.axes("axes", len(shape))
        call.options["axes"] = axes
        return _reduced(shape, axes, call["keep_dimensions"])

    infer.__doc__ = doc + _DETAILS
    operator(
        name,
        Tensor("input", types),
        Integers("axes", None),
        Flag("keep_dimensions", False),
        outputs=Tensor("output", Same("input")),
    )(infer)


def _arg_row(name: str, doc: str) -> None:
    def infer(call: Call) -> Shape:
        shape = call.shape("input")
        axis = call.axis("axis", len(shape))
        if shape[axis] > integer_range(call["output_data_type"])[1]:
            call.fail("output_data_type", f"a type that counts to {shape[axis]}")
        return _reduced(shape, [axis], call["keep_dimensions"])

    infer.__doc__ = doc
    operator(
        name,
        Tensor("input", ANY, (1, MAX_RANK)),
        Integer("axis"),
        Flag("keep_dimensions", False),
        TypeName("output_data_type", "int32", types=frozenset({"int32", "int64"})),
        outputs=Tensor("output", Chosen("output_data_type")),
    )(infer)


for _name, (_types, _doc) in _FUNCTIONS.items():
    _row(_name, _types, _doc)
_arg_row("argMin", "Where along ``axis`` the least element is, the first of equals.")
_arg_row("argMax", "Where along ``axis`` the greatest element is, the first of equals.")


@operator(
    "cumulativeSum",
    Tensor("input", WIDE, (1, MAX_RANK)),
    Integer("axis"),
    Flag("exclusive", False),
    Flag("reversed", False),
    outputs=Tensor("output", Same("input"), Same("input")),
)
def cumulative_sum(call: Call) -> Shape:
    """The sum so far along ``axis``: without the element itself if ``exclusive``, from the end if ``reversed``."""
    call.axis("axis", len(call.shape("input")))
    return call.shape("input")
