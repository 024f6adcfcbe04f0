"""Reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from .module import computes

Tensor = torch.Tensor
Reduce = Callable[[Tensor, "list[int]", bool], Tensor]


def _total(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    return x.sum(axes, keepdim=keep) if axes else x


def _product(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    for axis in sorted(axes, reverse=True):
        x = x.prod(axis, keepdim=keep)
    return x


def _row(name: str, reduce: Reduce, *, ordered: bool = False) -> None:
    def function(input: Tensor, axes: Sequence[int], keep_dimensions: bool) -> Tensor:
        return reduce(input, list(axes), keep_dimensions)

    computes(name, ordered=ordered)(function)


_row("reduce_sum", _total)
_row("reduce_sum_square", lambda x, axes, keep: _total(x * x, axes, keep))
_row("reduce_l2", lambda x, axes, keep: _total(x * x, axes, keep).sqrt())
_row("reduce_log_sum", lambda x, axes, keep: _total(x, axes, keep).log())
_row("reduce_log_sum_exp", lambda x, axes, keep: torch.logsumexp(x, axes, keepdim=keep) if axes else x)
_row("reduce_mean", lambda x, axes, keep: x.mean(axes, keepdim=keep) if axes else x)
_row("reduce_product", _product)
_row("reduce_max", lambda x, axes, keep: x.amax(axes, keepdim=keep) if axes else x.clone(), ordered=True)
_row("reduce_min", lambda x, axes, keep: x.amin(axes, keepdim=keep) if axes else x.clone(), ordered=True)


@computes("reduce_l1", typed=True)
def reduce_l1(input: Tensor, axes: Sequence[int], keep_dimensions: bool, from_type: str, to_type: str) -> Tensor:
    """The sum of absolute values, which unsigned ones are already."""
    del to_type
    return _total(input if from_type.startswith("u") else input.abs(), list(axes), keep_dimensions)


@computes("arg_min", ordered=True)
def arg_min(input: Tensor, axis: int, keep_dimensions: bool, output_data_type: str) -> Tensor:
    """The first of the least."""
    del output_data_type
    return torch.argmin(input, axis, keepdim=keep_dimensions)


@computes("arg_max", ordered=True)
def arg_max(input: Tensor, axis: int, keep_dimensions: bool, output_data_type: str) -> Tensor:
    """The first of the greatest."""
    del output_data_type
    return torch.argmax(input, axis, keepdim=keep_dimensions)


@computes("cumulative_sum")
def cumulative_sum(input: Tensor, axis: int, exclusive: bool, reversed: bool) -> Tensor:
    """Running sums; an exclusive one is that of the elements moved by a place."""
    size = input.shape[axis]
    x = torch.flip(input, [axis]) if reversed else input
    if exclusive:
        x = torch.cat([torch.zeros_like(x.narrow(axis, 0, 1)), x.narrow(axis, 0, size - 1)], axis)
    x = torch.cumsum(x, axis)
    return torch.flip(x, [axis]) if reversed else x
