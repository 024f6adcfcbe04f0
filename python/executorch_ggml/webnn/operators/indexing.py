"""Reading and writing at indices. Negative indices count from the end; those out of range are clamped."""

from __future__ import annotations

from .shapes import MAX_RANK, Shape
from .spec import ANY, INDEX, Call, Integer, Same, Tensor, operator

_INPUT = Tensor("input", ANY, (1, MAX_RANK))
_LIKE_INPUT = Tensor("output", Same("input"), Same("input"))
_SOME = (1, MAX_RANK)


@operator(
    "gather",
    _INPUT,
    Tensor("indices", INDEX),
    Integer("axis", 0),
    outputs=Tensor("output", Same("input")),
)
def gather(call: Call) -> Shape:
    """The slices along ``axis`` that ``indices`` names, in its shape."""
    shape = call.shape("input")
    axis = call.axis("axis", len(shape))
    return (*shape[:axis], *call.shape("indices"), *shape[axis + 1 :])


def _along(call: Call) -> Shape:
    shape = call.shape("input")
    axis = call.axis("axis", len(shape))
    count = call.shape("indices")[axis]
    call.expect_shape("indices", (*shape[:axis], count, *shape[axis + 1 :]))
    return call.shape("indices")


@operator(
    "gatherElements",
    _INPUT,
    Tensor("indices", INDEX, Same("input")),
    Integer("axis", 0),
    outputs=_LIKE_INPUT,
)
def gather_elements(call: Call) -> Shape:
    """For each index the element at its own place, but for that place in ``axis``."""
    return _along(call)


def _slices(call: Call) -> Shape:
    shape, indices = call.shape("input"), call.shape("indices")
    if indices[-1] > len(shape):
        call.fail("indices", f"a last dimension of at most {len(shape)}, the input's rank")
    return indices[:-1] + shape[indices[-1] :]


@operator("gatherND", _INPUT, Tensor("indices", INDEX, _SOME), outputs=Tensor("output", Same("input")))
def gather_nd(call: Call) -> Shape:
    """The slices of the input at coordinates, which are the last dimension of ``indices``."""
    return _slices(call)


@operator(
    "scatterElements",
    _INPUT,
    Tensor("indices", INDEX, Same("input")),
    Tensor("updates", Same("input"), Same("input")),
    Integer("axis", 0),
    outputs=_LIKE_INPUT,
)
def scatter_elements(call: Call) -> Shape:
    """The input with each update written at its own place, but for the index's place in ``axis``."""
    call.expect_shape("updates", _along(call))
    return call.shape("input")


@operator(
    "scatterND",
    _INPUT,
    Tensor("indices", INDEX, _SOME),
    Tensor("updates", Same("input")),
    outputs=_LIKE_INPUT,
)
def scatter_nd(call: Call) -> Shape:
    """The input with slices written at coordinates, which are the last dimension of ``indices``."""
    call.expect_shape("updates", _slices(call))
    return call.shape("input")
