"""Distances between the rows of matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from ....ir.dims import ne_of, product, same_dims
from ....ir.dtypes import DType
from ....ir.graph import Value
from ....ir.op import Dim
from ....ir.ops.custom import BinaryKind, ReduceKind
from ..context import Context, Tensor
from ..layout import repeated
from ..registry import Refused, lowers
from .reduction import reduced
from .shape import filled, is_zero

aten = torch.ops.aten


@lowers(aten._cdist_forward.default)
def cdist(cx: Context, x1: Tensor, x2: Tensor, p: float, compute_mode: int | None) -> Tensor:
    """The p-norm of the difference of each row of one matrix and each of the other; never by a matrix product."""
    del compute_mode
    batch = cx.shape()[:-2]
    a, b = _matrices(cx, x1, batch), _matrices(cx, x2, batch)
    columns, rows, _, count = a.ne
    return cx.out(_norms(cx, cx.builder.reshape(a, (columns, 1, rows, count)), b, p))


def _matrices(cx: Context, x: Tensor, batch: Sequence[Dim]) -> Value:
    """A batch of matrices as ``(columns, rows, 1, matrices)``."""
    shape = (*batch, *x.shape[-2:])
    value = cx.f32(x).value
    if not same_dims(x.shape, shape):
        value = repeated(cx.builder, value, [1] * (len(shape) - x.rank) + list(x.shape), shape)
    return cx.builder.reshape(value, (x.shape[-1], x.shape[-2], 1, product(batch)))


def _norms(cx: Context, a: Value, b: Value, p: float) -> Value:
    """The p-norms of ``a - b`` along ggml's dim 0, of broadcast operands."""
    build = cx.builder
    gaps = build.emit("binary", a, b, kind=BinaryKind.SUB)

    def along_rows(value: Value, kind: ReduceKind) -> Value:
        return reduced(cx, Tensor(value, tuple(reversed(value.ne))), [-1], kind)

    if is_zero(gaps.ne[0]):
        return filled(cx, tuple(reversed((1, *gaps.ne[1:]))), 0.0, DType.F32)
    if p == 2:
        return build.emit("sqrt", along_rows(build.emit("sqr", gaps), ReduceKind.SUM))
    sizes = build.emit("abs", gaps)
    if p == 1:
        return along_rows(sizes, ReduceKind.SUM)
    if math.isinf(p):
        return along_rows(sizes, ReduceKind.MAX)
    if p == 0:
        differ = build.emit("binary", sizes, build.scalar(0.0, DType.F32), kind=BinaryKind.NE)
        return along_rows(build.convert(differ, DType.F32), ReduceKind.SUM)
    powers = build.emit("binary", sizes, build.scalar(p, DType.F32), kind=BinaryKind.POW)
    total = along_rows(powers, ReduceKind.SUM)
    return build.emit("binary", total, build.scalar(1.0 / p, DType.F32), kind=BinaryKind.POW)


@lowers(aten._pdist_forward.default)
def pdist(cx: Context, x: Tensor, p: float = 2) -> Tensor | Refused:
    """The distances of each pair of a matrix's rows: the upper triangle of all of them."""
    n = x.shape[0]
    if not isinstance(n, int):
        return Refused("distances within a symbolic number of rows")
    if n < 2:
        return cx.out(filled(cx, (0,), 0.0, DType.F32))
    value = cx.f32(x).value
    rows = cx.builder.reshape(value, (x.shape[1], 1, n))
    column = cx.builder.reshape(_norms(cx, rows, value, p), (1, n * n))

    def places() -> torch.Tensor:
        first, second = torch.triu_indices(n, n, 1)
        flat: torch.Tensor = first * n + second
        return flat.int()

    above = cx.builder.constant(f"pairs~{n}", DType.I32, ne_of((n * (n - 1) // 2,)), places)
    return cx.out(cx.builder.emit("take_rows", column, above))
