"""Shapes and views: reshapes, permutations, slices, concatenation, padding. Most cost nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ....ir.dims import as_dim, maximum, minimum, ne_of
from ....ir.dtypes import DType
from ....ir.graph import Value
from ....ir.op import Dim
from ..context import Context, Tensor
from ..layout import along, permuted, repeated
from ..registry import lowers

aten = torch.ops.aten


@lowers(
    aten.view_copy.default,
    aten.view.default,
    aten.reshape.default,
    aten._unsafe_view.default,
    aten.unsqueeze_copy.default,
    aten.unsqueeze.default,
    aten.squeeze_copy.default,
    aten.squeeze_copy.dim,
    aten.squeeze_copy.dims,
    aten.squeeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.flatten.using_ints,
)
def reshaped(cx: Context, x: Tensor, *_: Any) -> Tensor:
    """The same elements in the traced shape."""
    return cx.out(x.value)


@lowers(aten.permute_copy.default, aten.permute.default)
def permute(cx: Context, x: Tensor, dims: Sequence[int]) -> Tensor:
    """Dims in another order."""
    return turned(cx, x, [dim % x.rank for dim in dims])


def turned(cx: Context, x: Tensor, order: Sequence[int]) -> Tensor:
    """``x`` with its dim ``order[i]`` as dim ``i``."""
    shape = tuple(x.shape[dim] for dim in order)
    if x.rank > 4:
        return Tensor(cx.builder.reshape(permuted(cx.builder, x.value, x.shape, order), ne_of(shape)), shape)
    axes = [0, 1, 2, 3]
    for place, source in enumerate(order):
        axes[x.axis(source)] = x.rank - 1 - place
    return Tensor(cx.builder.permute(x.value, axes), shape)


@lowers(aten.transpose_copy.int, aten.transpose.int)
def transpose(cx: Context, x: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dims swapped."""
    if x.rank == 0:
        return cx.out(x.value)
    dims = list(range(x.rank))
    dims[dim0 % x.rank], dims[dim1 % x.rank] = dims[dim1 % x.rank], dims[dim0 % x.rank]
    return permute(cx, x, dims)


@lowers(aten.t_copy.default, aten.t.default)
def t(cx: Context, x: Tensor) -> Tensor:
    """A matrix transposed."""
    return cx.out(x.value) if x.rank < 2 else transpose(cx, x, 0, 1)


@lowers(aten.expand_copy.default, aten.expand.default)
def expand(cx: Context, x: Tensor, size: Sequence[Any], *, implicit: bool = False) -> Tensor:
    """Dims of size 1 repeated."""
    del size, implicit
    return expanded(cx, x, cx.shape())


def expanded(cx: Context, x: Tensor, shape: Sequence[Dim]) -> Tensor:
    """``x`` broadcast to a shape."""
    if len(shape) <= 4:
        return Tensor(cx.builder.broadcast(x.value, ne_of(shape)), tuple(shape))
    padded = [1] * (len(shape) - x.rank) + list(x.shape)
    made = repeated(cx.builder, x.value, padded, shape)
    return Tensor(cx.builder.reshape(made, ne_of(shape)), tuple(shape))


def window(cx: Context, x: Tensor, dim: int, start: Dim, size: Dim, step: int = 1) -> Tensor:
    """``size`` elements of one dim from ``start``, every ``step``: a view."""
    folded, at = along(cx.builder, x, dim)
    starts: list[Dim] = [0, 0, 0, 0]
    steps = [1, 1, 1, 1]
    axis = folded.axis(at)
    starts[axis], steps[axis] = start, step
    view = cx.builder.view(folded.value, starts, ne_of(_resized(folded.shape, at, size)), steps)
    shape = _resized(x.shape, dim % x.rank, size)
    return Tensor(cx.builder.reshape(view, ne_of(shape)) if x.rank > 4 else view, shape)


def _resized(shape: Sequence[Dim], at: int, size: Dim) -> tuple[Dim, ...]:
    """A shape with one dim of another size."""
    return (*shape[:at], size, *shape[at + 1 :])


def slice_start(start: Any, size: Dim) -> Dim:
    """A slice's start counted from the front and within the size, as Python has it."""
    first = as_dim(start)
    if isinstance(first, int):
        if first < 0:
            return maximum(size + first, 0)
        return first if first == 0 else minimum(first, size)
    return first


@lowers(aten.slice_copy.Tensor, aten.slice.Tensor)
def slice_(cx: Context, x: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Tensor:
    """A range of one dim."""
    del end  # the traced shape has it
    first = 0 if start is None else slice_start(start, x.shape[dim % x.rank])
    return window(cx, x, dim, first, cx.shape()[dim % x.rank], step)


@lowers(aten.narrow_copy.default)
def narrow(cx: Context, x: Tensor, dim: int, start: Any, length: Any) -> Tensor:
    """A range of one dim."""
    return window(cx, x, dim, slice_start(start, x.shape[dim % x.rank]), as_dim(length))


@lowers(aten.select_copy.int, aten.select.int)
def select(cx: Context, x: Tensor, dim: int, index: Any) -> Tensor:
    """One index of one dim, which goes away."""
    at = as_dim(index)
    size = x.shape[dim % x.rank]
    first = size + at if isinstance(at, int) and at < 0 else at
    return cx.out(window(cx, x, dim, first, 1).value)


@lowers(aten.split_with_sizes_copy.default, aten.split_with_sizes.default)
def split_with_sizes(cx: Context, x: Tensor, split_sizes: Sequence[Any], dim: int = 0) -> tuple[Tensor, ...]:
    """Pieces of given sizes along one dim."""
    pieces, first = [], 0
    for size in split_sizes:
        pieces.append(window(cx, x, dim, first, as_dim(size)))
        first = first + as_dim(size)
    return tuple(pieces)


@lowers(aten.split_copy.Tensor, aten.split.Tensor)
def split(cx: Context, x: Tensor, split_size: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Pieces of one size along one dim, the last maybe smaller."""
    del split_size
    sizes = [cx.shape(i)[dim % x.rank] for i in range(len(cx.meta))]
    return split_with_sizes(cx, x, sizes, dim)


@lowers(aten.unbind_copy.int, aten.unbind.int)
def unbind(cx: Context, x: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Every index of one dim."""
    return tuple(cx.out(window(cx, x, dim, i, 1).value, i) for i in range(len(cx.meta)))


@lowers(aten.cat.default)
def cat(cx: Context, tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors one after the other along one dim."""
    parts = [cx.tensor(t, cx.dtype()) for t in tensors if not (t.rank == 1 and is_zero(t.shape[0]))]
    if not parts:
        return cx.out(tensors[0].value)
    return cx.out(joined(cx, parts, dim).value)


def joined(cx: Context, parts: Sequence[Tensor], dim: int) -> Tensor:
    """Tensors one after the other along one dim."""
    folded = [along(cx.builder, part, dim) for part in parts]
    first, at = folded[0]
    value = concatenated(cx, [part.value for part, _ in folded], first.axis(at))
    at = dim % max(parts[0].rank, 1)
    size = sum((part.shape[at] for part in parts[1:]), parts[0].shape[at])
    shape = _resized(parts[0].shape, at, size)
    return Tensor(cx.builder.reshape(value, ne_of(shape)) if len(shape) > 4 else value, shape)


def is_zero(size: Dim) -> bool:
    """Whether a dim is the constant 0."""
    return isinstance(size, int) and size == 0


def concatenated(cx: Context, values: Sequence[Value], axis: int) -> Value:
    """Values one after the other along a ggml dim, as a balanced tree."""
    parts = list(values)
    while len(parts) > 1:
        pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
        parts = [cx.builder.emit("concat", *pair, dim=axis) if len(pair) == 2 else pair[0] for pair in pairs]
    return parts[0]


@lowers(aten.constant_pad_nd.default)
def constant_pad(cx: Context, x: Tensor, pad: Sequence[Any], value: float = 0) -> Tensor:
    """One value before and after dims; negative amounts cut."""
    for place in range(len(pad) // 2):
        dim = x.rank - 1 - place
        x = padded(cx, x, dim, as_dim(pad[2 * place]), as_dim(pad[2 * place + 1]), value)
    return cx.out(x.value)


def padded(cx: Context, x: Tensor, dim: int, lead: Dim, trail: Dim, value: float) -> Tensor:
    """``x`` with one dim padded with one value; negative amounts cut."""
    cut_lead, cut_trail = minimum(lead, 0), minimum(trail, 0)
    if not (is_zero(cut_lead) and is_zero(cut_trail)):
        x = window(cx, x, dim, -cut_lead, x.shape[dim] + cut_lead + cut_trail)
    parts = [x]
    for at, amount in ((0, maximum(lead, 0)), (len(parts) + 1, maximum(trail, 0))):
        if not is_zero(amount):
            shape = _resized(x.shape, dim, amount)
            parts.insert(at, Tensor(filled(cx, shape, value, x.dtype), shape))
    return joined(cx, parts, dim)


def filled(cx: Context, shape: Sequence[Dim], value: Any, dtype: DType) -> Value:
    """A tensor of one value."""
    return cx.builder.fill(ne_of(shape), value, dtype)
