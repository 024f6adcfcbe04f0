"""Matrix products, reductions, normalizations and quantization."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from coremltools.converters.mil.mil import Builder as mb

from ...data_types import integer_range
from .emitter import Emitter, Var, emits, mil_type
from .movement import repeated, reshaped, turned


@emits("matmul")
def matmul(e: Emitter, a: Var, b: Var) -> Var:
    """Matmul."""
    del e
    return mb.matmul(x=a, y=b)


@emits("gemm")
def gemm(
    e: Emitter,
    a: Var,
    b: Var,
    c: Var | None = None,
    *,
    alpha: float,
    beta: float,
    a_transpose: bool,
    b_transpose: bool,
) -> Var:
    """``alpha * a @ b + beta * c``."""
    made = mb.matmul(x=a, y=b, transpose_x=a_transpose, transpose_y=b_transpose)
    made = made if alpha == 1 else mb.mul(x=made, y=e.number(alpha, made))
    if c is None:
        return made
    return mb.add(x=made, y=c if beta == 1 else mb.mul(x=c, y=e.number(beta, c)))


_REDUCE = {
    "reduce_l1": "reduce_l1_norm",
    "reduce_l2": "reduce_l2_norm",
    "reduce_log_sum_exp": "reduce_log_sum_exp",
    "reduce_max": "reduce_max",
    "reduce_mean": "reduce_mean",
    "reduce_min": "reduce_min",
    "reduce_product": "reduce_prod",
    "reduce_sum": "reduce_sum",
    "reduce_sum_square": "reduce_sum_square",
}
# Over no axes: each element alone.
_ALONE = {"reduce_l1": "abs", "reduce_l2": "abs", "reduce_sum_square": "square"}


def _reduced(op: str, x: Var, axes: Sequence[int], keep: bool, shape: Sequence[int]) -> Var:
    made = getattr(mb, op)(x=x, axes=list(axes), keep_dims=keep)
    return reshaped(made, shape)


def _row(name: str, op: str) -> None:
    @emits(name)
    def emit(e: Emitter, input: Var, axes: Sequence[int], keep_dimensions: bool) -> Var:
        if not axes:
            return getattr(mb, _ALONE[name])(x=input) if name in _ALONE else input
        return _reduced(op, input, axes, keep_dimensions, e.shape)


for _name, _op in _REDUCE.items():
    _row(_name, _op)


@emits("reduce_log_sum")
def reduce_log_sum(e: Emitter, input: Var, axes: Sequence[int], keep_dimensions: bool) -> Var:
    """The logarithm without the small number that MIL would add."""
    total = _reduced("reduce_sum", input, axes, keep_dimensions, e.shape) if axes else input
    return mb.log(x=total, epsilon=e.number(0, total))


def _place(name: str, op: str) -> None:
    @emits(name)
    def emit(e: Emitter, input: Var, axis: int, keep_dimensions: bool, output_data_type: str) -> Var:
        del output_data_type
        return reshaped(getattr(mb, op)(x=input, axis=axis, keep_dims=keep_dimensions), e.shape)


_place("arg_max", "reduce_argmax")
_place("arg_min", "reduce_argmin")


@emits("cumulative_sum")
def cumulative_sum(e: Emitter, input: Var, axis: int, exclusive: bool, reversed: bool) -> Var:
    """Cumsum."""
    del e
    return mb.cumsum(x=input, axis=axis, exclusive=exclusive, reverse=reversed)


@emits("softmax")
def softmax(e: Emitter, input: Var, axis: int) -> Var:
    """Softmax."""
    del e
    return mb.softmax(x=input, axis=axis)


def _along(vector: Var | None, axis: int, rank: int) -> Var | None:
    if vector is None:
        return None
    return reshaped(vector, [int(vector.shape[0]) if i == axis else 1 for i in range(rank)])


def _scaled(x: Var, scale: Var | None, bias: Var | None) -> Var:
    x = x if scale is None else mb.mul(x=x, y=scale)
    return x if bias is None else mb.add(x=x, y=bias)


def _normalized(e: Emitter, x: Var, axes: Sequence[int], epsilon: float) -> Var:
    if not axes:
        return mb.sub(x=x, y=x)
    centred = mb.sub(x=x, y=mb.reduce_mean(x=x, axes=list(axes), keep_dims=True))
    variance = mb.reduce_mean(x=mb.mul(x=centred, y=centred), axes=list(axes), keep_dims=True)
    return mb.real_div(x=centred, y=mb.sqrt(x=mb.add(x=variance, y=e.number(epsilon, x))))


@emits("batch_normalization")
def batch_normalization(
    e: Emitter,
    input: Var,
    mean: Var,
    variance: Var,
    scale: Var | None = None,
    bias: Var | None = None,
    *,
    axis: int,
    epsilon: float,
) -> Var:
    """By given moments."""
    rank = len(e.shape)
    centre, spread, factor, shift = (_along(vector, axis, rank) for vector in (mean, variance, scale, bias))
    deviation = mb.sqrt(x=mb.add(x=spread, y=e.number(epsilon, input)))
    return _scaled(mb.real_div(x=mb.sub(x=input, y=centre), y=deviation), factor, shift)


@emits("instance_normalization")
def instance_normalization(
    e: Emitter, input: Var, scale: Var | None = None, bias: Var | None = None, *, epsilon: float, layout: str
) -> Var:
    """Over an image's pixels."""
    axis = layout.index("c")
    x = _normalized(e, input, [i for i in (1, 2, 3) if i != axis], epsilon)
    return _scaled(x, _along(scale, axis, 4), _along(bias, axis, 4))


@emits("layer_normalization")
def layer_normalization(
    e: Emitter, input: Var, scale: Var | None = None, bias: Var | None = None, *, axes: Sequence[int], epsilon: float
) -> Var:
    """Over any axes, which the scale and bias have in the order given."""

    def placed(tensor: Var | None) -> Var | None:
        if tensor is None:
            return None
        order = sorted(range(len(axes)), key=lambda i: axes[i])
        return reshaped(turned(tensor, order), [size if i in axes else 1 for i, size in enumerate(e.shape)])

    return _scaled(_normalized(e, input, axes, epsilon), placed(scale), placed(bias))


def _spread(blocks: Var, shape: Sequence[int]) -> Var:
    """A value for each block as one for each element: by their places along each axis."""
    for axis, size in enumerate(shape):
        have = int(blocks.shape[axis])
        if 1 < have < size:
            blocks = mb.gather(x=blocks, indices=np.arange(size, dtype=np.int32) // (size // have), axis=axis)
    return repeated(blocks, shape)


@emits("dequantize_linear")
def dequantize_linear(e: Emitter, input: Var, scale: Var, zero_point: Var) -> Var:
    """The difference is exact, then a product of floats."""
    difference = mb.sub(x=input, y=_spread(zero_point, e.shape))
    kind = "fp16" if e.results[0].data_type == "float16" else "fp32"
    return mb.mul(x=e.cast(difference, kind), y=_spread(scale, e.shape))


@emits("quantize_linear")
def quantize_linear(e: Emitter, input: Var, scale: Var, zero_point: Var) -> Var:
    """Rounded to even, limited so that the sum with the zero point does not wrap, moved and limited."""
    mil_type(e.results[0].data_type)
    low, high = integer_range(e.results[0].data_type)
    quotient = mb.round(x=mb.real_div(x=input, y=_spread(scale, e.shape)))
    whole = e.cast(
        mb.maximum(x=mb.minimum(x=e.cast(quotient, "fp32"), y=np.float32(2**30)), y=np.float32(-(2**30))), "int32"
    )
    moved = mb.add(x=whole, y=_spread(zero_point, e.shape))
    return mb.maximum(x=mb.minimum(x=moved, y=np.int32(high)), y=np.int32(low))
