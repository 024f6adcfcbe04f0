"""Normalizations and softmax, step by step: ONNX's own nodes lose digits, or take fewer axes."""

from __future__ import annotations

from collections.abc import Sequence

from .writer import Value, Writer, emits


def _along(w: Writer, vector: Value | None, axis: int, rank: int) -> Value | None:
    if vector is None:
        return None
    return w.reshape(w.wide(vector), [vector.shape[0] if i == axis else 1 for i in range(rank)])


def _scaled(w: Writer, x: Value, scale: Value | None, bias: Value | None) -> Value:
    x = x if scale is None else w.call("Mul", x, scale)
    return x if bias is None else w.call("Add", x, bias)


def _mean(w: Writer, x: Value, axes: Sequence[int]) -> Value:
    shape = [1 if i in axes else size for i, size in enumerate(x.shape)]
    return w.call("ReduceMean", x, w.ints(axes), shape=shape, keepdims=1)


def _normalized(w: Writer, x: Value, axes: Sequence[int], epsilon: float) -> Value:
    if not axes:
        return w.call("Sub", x, x)
    centred = w.call("Sub", x, _mean(w, x, axes))
    variance = _mean(w, w.call("Mul", centred, centred), axes)
    return w.call("Div", centred, w.call("Sqrt", w.call("Add", variance, w.scalar(epsilon, x))))


@emits("batch_normalization")
def batch_normalization(
    w: Writer,
    input: Value,
    mean: Value,
    variance: Value,
    scale: Value | None = None,
    bias: Value | None = None,
    *,
    axis: int,
    epsilon: float,
) -> Value:
    """By given moments."""
    x = w.wide(input)
    centre, spread, factor, shift = (_along(w, vector, axis, x.rank) for vector in (mean, variance, scale, bias))
    assert centre is not None
    assert spread is not None
    deviation = w.call("Sqrt", w.call("Add", spread, w.scalar(epsilon, x)))
    return _scaled(w, w.call("Div", w.call("Sub", x, centre), deviation), factor, shift)


@emits("instance_normalization")
def instance_normalization(
    w: Writer, input: Value, scale: Value | None = None, bias: Value | None = None, *, epsilon: float, layout: str
) -> Value:
    """Over an image's pixels."""
    axis = layout.index("c")
    x = _normalized(w, w.wide(input), [i for i in (1, 2, 3) if i != axis], epsilon)
    return _scaled(w, x, _along(w, scale, axis, 4), _along(w, bias, axis, 4))


@emits("layer_normalization")
def layer_normalization(
    w: Writer,
    input: Value,
    scale: Value | None = None,
    bias: Value | None = None,
    *,
    axes: Sequence[int],
    epsilon: float,
) -> Value:
    """Over any axes, which the scale and bias have in the order given."""

    def placed(tensor: Value | None) -> Value | None:
        if tensor is None:
            return None
        order = sorted(range(len(axes)), key=lambda i: axes[i])
        shape = [size if i in axes else 1 for i, size in enumerate(input.shape)]
        return w.reshape(w.transpose(w.wide(tensor), order), shape)

    return _scaled(w, _normalized(w, w.wide(input), axes, epsilon), placed(scale), placed(bias))


@emits("softmax")
def softmax(w: Writer, input: Value, axis: int) -> Value:
    """Softmax."""
    return w.call("Softmax", w.wide(input), axis=axis)
