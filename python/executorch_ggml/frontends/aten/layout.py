"""Layouts and broadcasting: how operands of different strides and ranks meet without needless copies."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

from ...ir.builder import Builder
from ...ir.dims import is_one, ne_of, product, same, same_dims
from ...ir.graph import Value
from ...ir.op import Dim, Dims
from .context import Tensor


def aligned(builder: Builder, tensors: Sequence[Tensor], shape: Sequence[Dim]) -> tuple[list[Value], Dims]:
    """The operands' values such that their ggml dims line up, and the dims that they broadcast to.

    Beyond four dims neighbours are merged; where that is not enough, operands are repeated until it is.
    """
    if all(tensor.rank <= 4 for tensor in tensors) and len(shape) <= 4:
        return [tensor.value for tensor in tensors], ne_of(shape)
    values = [tensor.value for tensor in tensors]
    padded: list[Sequence[Dim]] = [[1] * (len(shape) - tensor.rank) + list(tensor.shape) for tensor in tensors]
    while len(groups := merged_dims(padded, shape)) > 4:
        narrow = [i for i, sizes in enumerate(padded) if not same_dims(sizes, shape)]
        at = min(narrow, key=lambda i: len(merged_dims([*padded[:i], *padded[i + 1 :]], shape)))
        values[at] = repeated(builder, values[at], padded[at], shape)
        padded[at] = shape
    ready = [builder.reshape(value, _merged(sizes, groups)) for value, sizes in zip(values, padded, strict=True)]
    return ready, ne_of(_merged(shape, groups)[::-1])


def repeated(builder: Builder, value: Value, sizes: Sequence[Dim], shape: Sequence[Dim]) -> Value:
    """``value`` broadcast from ``sizes`` to ``shape``, of one rank; the inner dims first where there are too many."""
    while len(groups := merged_dims([sizes], shape)) > 4:
        first = groups[-3][0]
        inner = [*sizes[:first], *shape[first:]]
        outer_and_last = [(0, first), *groups[-3:]]
        value = builder.broadcast(
            builder.reshape(value, _merged(sizes, outer_and_last)), _merged(inner, outer_and_last)
        )
        sizes = inner
    return builder.broadcast(builder.reshape(value, _merged(sizes, groups)), _merged(shape, groups))


def _merged(sizes: Sequence[Dim], groups: Sequence[tuple[int, int]]) -> list[Dim]:
    """The groups' sizes in ggml's order."""
    return [product(sizes[first:last]) for first, last in groups][::-1]


def merged_dims(padded: Sequence[Sequence[Dim]], shape: Sequence[Dim]) -> list[tuple[int, int]]:
    """Split dims into runs within which every operand has all of the result's sizes, or only ones."""

    def kind(dim: int) -> tuple[bool, ...]:
        return tuple(is_one(sizes[dim]) and not is_one(shape[dim]) for sizes in padded)

    groups: list[tuple[int, int]] = []
    for dim in range(len(shape)):
        if groups and (kind(dim) == kind(groups[-1][0]) or is_one(shape[dim])):
            groups[-1] = (groups[-1][0], dim + 1)
        else:
            groups.append((dim, dim + 1))
    return groups


def permuted(builder: Builder, value: Value, shape: Sequence[Dim], dims: Sequence[int]) -> Value:
    """The dims of a tensor of any rank in another order: one view, after copies where four dims can't say it."""
    sizes, order = fold_permutation(shape, dims)
    while len(order) > 4:
        blocks = _best_move(tuple(order))
        runs = sorted(blocks)
        merged = [product(sizes[a:b]) for a, b in runs]
        value = _permuted_view(builder, value, merged, [runs.index(block) for block in blocks])
        place = [i for a, b in blocks for i in range(a, b)]
        sizes, order = fold_permutation([sizes[i] for i in place], [place.index(i) for i in order])
    return _permuted_view(builder, value, sizes, order)


def _permuted_view(builder: Builder, value: Value, sizes: Sequence[Dim], order: Sequence[int]) -> Value:
    axes = [0, 1, 2, 3]
    last = len(sizes) - 1
    for place, source in enumerate(order):
        axes[last - source] = last - place
    return builder.permute(builder.reshape(value, sizes[::-1]), axes)


@functools.cache
def _best_move(order: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """The step towards a permutation after which the fewest dims remain: four runs of dims, in their new order.

    Among equals one that leaves the innermost dims in place, as it copies whole rows.
    """
    n = len(order)

    def cost(blocks: tuple[tuple[int, int], ...]) -> tuple[int, bool]:
        place = [i for a, b in blocks for i in range(a, b)]
        rest = [place.index(i) for i in order]
        return sum(b != a + 1 for a, b in itertools.pairwise(rest)), place[-1] != n - 1

    cuts = ((0, *cut, n) for cut in itertools.combinations(range(1, n), 3))
    return min((move for cut in cuts for move in itertools.permutations(itertools.pairwise(cut))), key=cost)


def along(builder: Builder, x: Tensor, dim: int) -> tuple[Tensor, int]:
    """A tensor of at most four dims and the place of ``dim`` in it: dims before and after are merged if need be."""
    at = dim % max(x.rank, 1)
    if x.rank <= 4:
        return x, at
    shape = (product(x.shape[:at]), x.shape[at], product(x.shape[at + 1 :]))
    return Tensor(builder.reshape(x.value, ne_of(shape)), shape), 1


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
