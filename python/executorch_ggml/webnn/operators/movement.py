"""Operators that move elements: nothing is computed."""

from __future__ import annotations

import itertools

from ..data_types import element_count
from .shapes import MAX_RANK, Shape, broadcasts_to, is_dimension
from .spec import (
    ANY,
    ANY_WITH_4_BITS,
    Call,
    Choice,
    CountOrSizes,
    Flag,
    Integer,
    Integers,
    Number,
    Same,
    Tensor,
    operator,
)

MAX_TENSORS = 8192
_INPUT = Tensor("input", ANY)
_SOME = Tensor("input", ANY, (1, MAX_RANK))
_ALIKE = Tensor("output", Same("input"), Same("input"))
_OUTPUT = Tensor("output", Same("input"))


@operator(
    "concat",
    Tensor("inputs", ANY, (1, MAX_RANK), many=True),
    Integer("axis"),
    outputs=Tensor("output", Same("inputs"), (1, MAX_RANK)),
)
def concat(call: Call) -> Shape:
    """The operands one after the other along ``axis``; in the other dimensions they are alike."""
    inputs = call.operands["inputs"]
    assert isinstance(inputs, (list, tuple))
    if not len(inputs) <= MAX_TENSORS:
        call.fail("inputs", f"at most {MAX_TENSORS}")
    first = inputs[0].shape
    axis = call.axis("axis", len(first))
    for item in inputs:
        alike = item.shape[:axis] + item.shape[axis + 1 :] == first[:axis] + first[axis + 1 :]
        if item.data_type != inputs[0].data_type or len(item.shape) != len(first) or not alike:
            call.fail("inputs", f"operands of one data type and, but for dimension {axis}, one shape")
    return (*first[:axis], sum(item.shape[axis] for item in inputs), *first[axis + 1 :])


@operator("expand", _INPUT, Integers("new_shape"), outputs=_OUTPUT)
def expand(call: Call) -> Shape:
    """Dimensions of size 1 repeated to ``new_shape``."""
    shape: Shape = call["new_shape"]
    if not broadcasts_to(call.shape("input"), shape):
        call.fail("new_shape", f"a shape that the input's, {list(call.shape('input'))}, broadcasts to")
    return shape


@operator(
    "pad",
    _INPUT,
    Integers("beginning_padding"),
    Integers("ending_padding"),
    Choice("mode", "constant", ("constant", "edge", "reflection")),
    Number("value", 0),
    outputs=_ALIKE,
)
def pad(call: Call) -> Shape:
    """Elements added before and after each dimension: ``value``, or the edge repeated or mirrored."""
    shape = call.shape("input")
    for name in ("beginning_padding", "ending_padding"):
        if len(call[name]) != len(shape):
            call.fail(name, f"{len(shape)} integers, one for each dimension")
        if call["mode"] == "reflection" and any(more >= n for more, n in zip(call[name], shape, strict=True)):
            call.fail(name, f"less than the input's dimensions, {list(shape)}, to reflect")
    return tuple(map(sum, zip(call["beginning_padding"], shape, call["ending_padding"], strict=True)))


@operator(
    "reshape",
    Tensor("input", ANY_WITH_4_BITS),
    Integers("new_shape"),
    outputs=_OUTPUT,
)
def reshape(call: Call) -> Shape:
    """The same elements in another shape."""
    shape: Shape = call["new_shape"]
    count = element_count(call.shape("input"))
    if not all(map(is_dimension, shape)) or element_count(shape) != count:
        call.fail("new_shape", f"dimensions of at least 1 that make {count} elements")
    return shape


@operator("reverse", _INPUT, Integers("axes", None), outputs=_ALIKE)
def reverse(call: Call) -> Shape:
    """The other way round along ``axes``, or all dimensions."""
    rank = len(call.shape("input"))
    call.options["axes"] = tuple(range(rank)) if call["axes"] is None else call.axes("axes", rank)
    return call.shape("input")


@operator("slice", _INPUT, Integers("starts"), Integers("sizes"), Integers("strides", None), outputs=_ALIKE)
def slice_(call: Call) -> Shape:
    """In each dimension ``sizes`` elements from ``starts``, and of them every ``strides``-th."""
    shape = call.shape("input")
    call.options["strides"] = (1,) * len(shape) if call["strides"] is None else call["strides"]
    for name in ("starts", "sizes", "strides"):
        if len(call[name]) != len(shape):
            call.fail(name, f"{len(shape)} integers, one for each dimension")
    for name in ("sizes", "strides"):
        if 0 in call[name]:
            call.fail(name, "integers of at least 1")
    if any(start + size > n for start, size, n in zip(call["starts"], call["sizes"], shape, strict=True)):
        call.fail("sizes", f"at most what is left from starts, {list(call['starts'])}, of {list(shape)}")
    return tuple(-(-size // stride) for size, stride in zip(call["sizes"], call["strides"], strict=True))


@operator(
    "split",
    _SOME,
    CountOrSizes("splits", low=1),
    Integer("axis", 0),
    outputs=Tensor("outputs", Same("input"), Same("input"), many=True),
    returns_list=True,
)
def split(call: Call) -> list[Shape]:
    """Cut along ``axis`` into ``splits`` equal parts, or parts of the sizes that it lists."""
    shape = call.shape("input")
    axis = call.axis("axis", len(shape))
    sizes, whole = call["splits"], shape[axis]
    if isinstance(sizes, int):
        if whole % sizes or sizes > MAX_TENSORS:
            call.fail("splits", f"a divisor of {whole}, at most {MAX_TENSORS}")
        sizes = (whole // sizes,) * sizes
    elif sum(sizes) != whole or len(sizes) > MAX_TENSORS:
        call.fail("splits", f"at most {MAX_TENSORS} sizes that add up to {whole}")
    call.options["splits"] = sizes
    return [(*shape[:axis], size, *shape[axis + 1 :]) for size in sizes]


@operator("tile", _INPUT, Integers("repetitions", low=1), outputs=_ALIKE)
def tile(call: Call) -> Shape:
    """The whole repeated along each dimension."""
    shape = call.shape("input")
    if len(call["repetitions"]) != len(shape):
        call.fail("repetitions", f"{len(shape)} integers, one for each dimension")
    return tuple(itertools.starmap(int.__mul__, zip(shape, call["repetitions"], strict=True)))


@operator("transpose", Tensor("input", ANY_WITH_4_BITS), Integers("permutation", None), outputs=_ALIKE)
def transpose(call: Call) -> Shape:
    """Dimension ``permutation[i]`` becomes dimension ``i``; without it the dimensions are reversed."""
    shape = call.shape("input")
    if call["permutation"] is None:
        call.options["permutation"] = tuple(reversed(range(len(shape))))
    if sorted(call["permutation"]) != list(range(len(shape))):
        call.fail("permutation", f"each integer below {len(shape)} once")
    return tuple(shape[axis] for axis in call["permutation"])


@operator(
    "triangular",
    Tensor("input", ANY, (2, MAX_RANK)),
    Flag("upper", True),
    Integer("diagonal", 0, low=-(2**31), high=2**31 - 1),
    outputs=_ALIKE,
)
def triangular(call: Call) -> Shape:
    """The upper or lower triangle of each matrix, from ``diagonal`` on, and 0 elsewhere."""
    return call.shape("input")
