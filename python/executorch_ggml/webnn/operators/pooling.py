"""Pooling of images."""

from __future__ import annotations

from ..data_types import FLOATS
from .convolution import INPUT_LAYOUTS, by_layout, in_layout, window_reach
from .shapes import Shape
from .spec import ANY, Call, Choice, Integers, Same, Tensor, operator

_FUNCTIONS = {
    "averagePool2d": (FLOATS, "The mean of each window, padding left out."),
    "l2Pool2d": (FLOATS, "The square root of each window's sum of squares."),
    "maxPool2d": (ANY, "The greatest element of each window."),
}
_DETAILS = """

    A window is the whole image unless ``window_dimensions`` says otherwise. ``output_sizes`` says itself which of the
    two roundings the result's size has. (It leaves the padding as it is: so do all implementations and the conformance
    tests, though a step of the specification says otherwise.)"""


def _pooled(call: Call) -> Shape:
    sizes = by_layout(call.shape("input"), call["layout"])
    window = call["window_dimensions"] or (sizes["h"], sizes["w"])
    wanted, strides = call["output_sizes"], call["strides"]
    call.options["window_dimensions"] = window
    floors, ceils = [], []
    for i, letter in enumerate("hw"):
        reach = window_reach(window[i], call["dilations"][i])
        room = sizes[letter] + call["padding"][2 * i] + call["padding"][2 * i + 1] - reach
        if room < 0:
            call.fail("window_dimensions", f"at most {room + reach} pixels along {letter}, they span {reach}")
        floors.append(room // strides[i] + 1)
        ceils.append(-(-room // strides[i]) + 1)
    if wanted is not None and list(wanted) not in (floors, ceils):
        call.fail("output_sizes", f"{floors} or {ceils}")
    sizes["h"], sizes["w"] = wanted or (floors if call["output_shape_rounding"] == "floor" else ceils)
    return in_layout(sizes, call["layout"])


def _row(name: str, types: frozenset[str], doc: str) -> None:
    def infer(call: Call) -> Shape:
        return _pooled(call)

    infer.__doc__ = doc + _DETAILS
    operator(
        name,
        Tensor("input", types, (4, 4)),
        Integers("window_dimensions", None, length=2, low=1),
        Integers("padding", (0, 0, 0, 0), length=4),
        Integers("strides", (1, 1), length=2, low=1),
        Integers("dilations", (1, 1), length=2, low=1),
        Choice("layout", "nchw", INPUT_LAYOUTS),
        Choice("output_shape_rounding", "floor", ("floor", "ceil")),
        Integers("output_sizes", None, length=2),
        outputs=Tensor("output", Same("input"), (4, 4)),
    )(infer)


for _name, (_types, _doc) in _FUNCTIONS.items():
    _row(_name, _types, _doc)
