"""Layouts: how values that are permuted views of dense tensors meet without needless copies."""

from __future__ import annotations

from collections.abc import Sequence

from .builder import IDENTITY, Builder
from .graph import Value

Axes = tuple[int, ...]


def inverse(axes: Axes) -> Axes:
    """The permutation that undoes ``axes``."""
    return tuple(axes.index(i) for i in range(4))


def layout_of(value: Value) -> Axes:
    """The permutation of a dense tensor that a value is a view of; the identity where there is none."""
    source = value.producer
    if source is not None and source.op == "permute" and not value.is_contiguous:
        base = source.inputs[0]
        if base is not None and base.is_contiguous:
            return tuple(source.attrs["axes"])
    return IDENTITY


def dense_base(value: Value) -> tuple[Value, Axes]:
    """The value that was computed, with the permutation that it is seen through."""
    axes, source = layout_of(value), value.producer
    base = None if source is None or axes == IDENTITY else source.inputs[0]
    return (value, IDENTITY) if base is None else (base, axes)


def unbroadcast(value: Value) -> Value:
    """What a value was repeated from: ops that broadcast by themselves need no copy of it."""
    source = value.producer
    while source is not None and source.op == "broadcast" and source.inputs[0] is not None:
        value = source.inputs[0]
        source = value.producer
    return value


def common_layout(builder: Builder, values: Sequence[Value]) -> tuple[Axes, list[Value]]:
    """Views of ``values`` in the layout of the first permuted one: elementwise work there needs no copies.

    The result computed on the views, permuted by the axes returned, is the result on the values.
    """
    axes = next((found for value in values if (found := layout_of(value)) != IDENTITY), IDENTITY)
    if axes == IDENTITY:
        return IDENTITY, list(values)
    back = inverse(axes)
    return axes, [builder.permute(value, back) for value in values]
