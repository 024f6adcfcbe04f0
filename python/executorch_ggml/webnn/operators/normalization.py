"""Normalizations and softmax."""

from __future__ import annotations

from ..data_types import FLOATS
from .convolution import INPUT_LAYOUTS
from .shapes import MAX_RANK, Shape
from .spec import Call, Choice, Integer, Integers, Real, Same, Tensor, operator

_SCALE = Tensor("scale", Same("input"), (1, 1), optional=True)
_BIAS = Tensor("bias", Same("input"), (1, 1), optional=True)
_EPSILON = Real("epsilon", 1e-5)
_OUTPUT = Tensor("output", Same("input"), Same("input"))


def _each_channel(call: Call, axis: int, *tensors: str) -> Shape:
    for name in tensors:
        call.expect_shape(name, (call.shape("input")[axis],))
    return call.shape("input")


@operator(
    "batchNormalization",
    Tensor("input", FLOATS, (1, MAX_RANK)),
    Tensor("mean", Same("input"), (1, 1)),
    Tensor("variance", Same("input"), (1, 1)),
    _SCALE,
    _BIAS,
    Integer("axis", 1),
    _EPSILON,
    outputs=_OUTPUT,
)
def batch_normalization(call: Call) -> Shape:
    """``(input - mean) / sqrt(variance + epsilon) * scale + bias``, each for one feature along ``axis``."""
    axis = call.axis("axis", len(call.shape("input")))
    return _each_channel(call, axis, "mean", "variance", "scale", "bias")


@operator(
    "instanceNormalization",
    Tensor("input", FLOATS, (4, 4)),
    _SCALE,
    _BIAS,
    _EPSILON,
    Choice("layout", "nchw", INPUT_LAYOUTS),
    outputs=Tensor("output", Same("input"), (4, 4)),
)
def instance_normalization(call: Call) -> Shape:
    """Each channel of each image to mean 0 and variance 1, times ``scale`` plus ``bias``."""
    return _each_channel(call, call["layout"].index("c"), "scale", "bias")


@operator(
    "layerNormalization",
    Tensor("input", FLOATS),
    Tensor("scale", Same("input"), optional=True),
    Tensor("bias", Same("input"), optional=True),
    Integers("axes", None),
    _EPSILON,
    outputs=_OUTPUT,
)
def layer_normalization(call: Call) -> Shape:
    """Mean 0 and variance 1 over ``axes`` (all but the first), times ``scale`` plus ``bias`` of those axes."""
    shape = call.shape("input")
    axes = tuple(range(1, len(shape))) if call["axes"] is None else call.axes("axes", len(shape))
    call.options["axes"] = axes
    for name in ("scale", "bias"):
        call.expect_shape(name, tuple(shape[axis] for axis in axes))
    return shape


@operator("softmax", Tensor("input", FLOATS, (1, MAX_RANK)), Integer("axis"), outputs=_OUTPUT)
def softmax(call: Call) -> Shape:
    """Exponentials divided by their sum along ``axis``."""
    call.axis("axis", len(call.shape("input")))
    return call.shape("input")
