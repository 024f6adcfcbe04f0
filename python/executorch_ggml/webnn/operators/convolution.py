"""Convolution and transposed convolution of images."""

from __future__ import annotations

from ..data_types import FLOATS
from .shapes import Shape, is_dimension
from .spec import Call, Choice, Integer, Integers, Same, Tensor, operator

INPUT_LAYOUTS = ("nchw", "nhwc")
_INPUT = Tensor("input", FLOATS, (4, 4))
_FILTER = Tensor("filter", Same("input"), (4, 4))
_BIAS = Tensor("bias", Same("input"), (1, 1), optional=True)
_OUTPUT = Tensor("output", Same("input"), (4, 4))
_WINDOW = (
    Integers("padding", (0, 0, 0, 0), length=4),
    Integers("strides", (1, 1), length=2, low=1),
    Integers("dilations", (1, 1), length=2, low=1),
)
_GROUPS = Integer("groups", 1, low=1)
_INPUT_LAYOUT = Choice("input_layout", "nchw", INPUT_LAYOUTS)


def by_layout(shape: Shape, layout: str) -> dict[str, int]:
    """Sizes by the letters of a layout."""
    return dict(zip(layout, shape, strict=True))


def in_layout(sizes: dict[str, int], layout: str) -> Shape:
    """The other way round."""
    return tuple(sizes[letter] for letter in layout)


def window_reach(size: int, dilation: int) -> int:
    """How many pixels a dilated window spans."""
    return (size - 1) * dilation + 1


def _bias(call: Call, channels: int) -> None:
    call.expect_shape("bias", (channels,))


@operator(
    "conv2d",
    _INPUT,
    _FILTER,
    *_WINDOW,
    _GROUPS,
    _INPUT_LAYOUT,
    Choice("filter_layout", "oihw", ("oihw", "hwio", "ohwi", "ihwo")),
    _BIAS,
    outputs=_OUTPUT,
)
def conv2d(call: Call) -> Shape:
    """2-D convolution.

    ``padding`` is beginning and end of the height, then of the width; ``strides`` and ``dilations`` are of height and
    width. The ``i`` of the filter's layout is input channels over ``groups``.
    """
    sizes, filter_ = (
        by_layout(call.shape("input"), call["input_layout"]),
        by_layout(call.shape("filter"), call["filter_layout"]),
    )
    groups, padding = call["groups"], call["padding"]
    if sizes["c"] % groups or sizes["c"] // groups != filter_["i"]:
        call.fail("filter", f"input channels over groups, {sizes['c']} / {groups}, in the i of {call['filter_layout']}")
    if filter_["o"] % groups:
        call.fail("groups", f"a divisor of the {filter_['o']} output channels")
    _bias(call, filter_["o"])
    for i, letter in enumerate("hw"):
        reach = window_reach(filter_[letter], call["dilations"][i])
        room = sizes[letter] + padding[2 * i] + padding[2 * i + 1] - reach
        if room < 0:
            call.fail("filter", f"a window of at most {room + reach} pixels along {letter}, it spans {reach}")
        sizes[letter] = room // call["strides"][i] + 1
    return in_layout(sizes | {"c": filter_["o"]}, call["input_layout"])


@operator(
    "convTranspose2d",
    _INPUT,
    _FILTER,
    *_WINDOW,
    Integers("output_padding", (0, 0), length=2),
    Integers("output_sizes", None, length=2),
    _GROUPS,
    _INPUT_LAYOUT,
    Choice("filter_layout", "iohw", ("iohw", "hwoi", "ohwi")),
    _BIAS,
    outputs=_OUTPUT,
)
def conv_transpose2d(call: Call) -> Shape:
    """2-D transposed convolution.

    ``output_sizes`` (height and width) or else ``output_padding`` says which of the possible sizes the result has. The
    ``o`` of the filter's layout is output channels over ``groups``.
    """
    sizes, filter_ = (
        by_layout(call.shape("input"), call["input_layout"]),
        by_layout(call.shape("filter"), call["filter_layout"]),
    )
    strides, padding, wanted = call["strides"], call["padding"], call["output_sizes"]
    if sizes["c"] != filter_["i"]:
        call.fail("filter", f"the {sizes['c']} input channels in the i of {call['filter_layout']}")
    if sizes["c"] % call["groups"]:
        call.fail("groups", f"a divisor of the {sizes['c']} input channels")
    channels = filter_["o"] * call["groups"]
    _bias(call, channels)
    if wanted is None and any(more >= stride for more, stride in zip(call["output_padding"], strides, strict=True)):
        call.fail("output_padding", f"less than the strides, {list(strides)}")
    for i, letter in enumerate("hw"):
        reach = window_reach(filter_[letter], call["dilations"][i])
        least = (sizes[letter] - 1) * strides[i] + reach - padding[2 * i] - padding[2 * i + 1]
        sizes[letter] = least + call["output_padding"][i] if wanted is None else wanted[i]
        if wanted is not None and not least <= wanted[i] < least + strides[i]:
            call.fail("output_sizes", f"{least} to {least + strides[i] - 1} along {letter}")
        if not is_dimension(sizes[letter]):
            call.fail("padding", f"a result of at least 1 pixel along {letter}, it would have {sizes[letter]}")
    return in_layout(sizes | {"c": channels}, call["input_layout"])
