"""Layouts and broadcasting: how operands of different strides and ranks meet without needless copies."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.builder import IDENTITY, Builder
from ..ir.dims import is_one, product, same
from ..ir.graph import IRError, Value
from ..ir.op import Dim
from .context import Tensor

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


def aligned(builder: Builder, tensors: Sequence[Tensor], shape: Sequence[Dim]) -> list[Value]:
    """The operands' values, reshaped so that ggml dims line up where the result has more than four dims."""
    if all(tensor.rank <= 4 for tensor in tensors) and len(shape) <= 4:
        return [tensor.value for tensor in tensors]
    padded = [[1] * (len(shape) - tensor.rank) + list(tensor.shape) for tensor in tensors]
    groups = merged_dims(padded, shape)
    values = []
    for tensor, sizes in zip(tensors, padded, strict=True):
        ne = [product(sizes[first:last]) for first, last in groups]
        values.append(builder.reshape(tensor.value, ne[::-1]))
    return values


def merged_dims(padded: Sequence[Sequence[Dim]], shape: Sequence[Dim]) -> list[tuple[int, int]]:
    """Split dims into at most four runs within which every operand has all of the result's sizes, or only ones."""

    def kind(dim: int) -> tuple[bool, ...]:
        return tuple(is_one(sizes[dim]) and not is_one(shape[dim]) for sizes in padded)

    groups: list[tuple[int, int]] = []
    for dim in range(len(shape)):
        if groups and (kind(dim) == kind(groups[-1][0]) or is_one(shape[dim])):
            groups[-1] = (groups[-1][0], dim + 1)
        else:
            groups.append((dim, dim + 1))
    if len(groups) > 4:
        raise IRError(f"broadcasting to {list(shape)} needs {len(groups)} dims after merging; ggml has 4")
    return groups


def fold_permutation(shape: Sequence[Dim], dims: Sequence[int]) -> tuple[list[Dim], list[int]]:
    """Merge dims that stay neighbours in a permutation, and drop those of size 1: the smaller shape and permutation."""
    order = [dim for dim in dims if not is_one(shape[dim])]
    runs: list[list[int]] = []
    for dim in order:
        previous = runs[-1][-1] if runs else None
        between = [] if previous is None else [d for d in range(previous + 1, dim) if not is_one(shape[d])]
        if previous is not None and dim > previous and not between:
            runs[-1].append(dim)
        else:
            runs.append([dim])
    by_source = sorted(runs)
    sizes = [product(shape[dim] for dim in run) for run in by_source]
    return sizes, [by_source.index(run) for run in runs]


def same_count(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """Whether two shapes provably have as many elements."""
    return same(product(a), product(b))
