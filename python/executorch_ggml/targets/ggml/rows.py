"""Rows: reductions, normalizations, indexing, and states that rows are written into."""

from __future__ import annotations

from ...ir.builder import IDENTITY, Builder
from ...ir.dims import is_one, product, same_dims
from ...ir.dtypes import DType
from ...ir.graph import Node, Value
from ...ir.layout import dense_base
from ...ir.op import Dim
from ...ir.ops.custom import ReduceKind
from ...passes.rewrite import Rewriter, computed_by, input_of, present
from .rules import stock

_OVER_ROWS = {ReduceKind.MEAN: "mean", ReduceKind.SUM: "sum_rows"}


@stock("norm", "rms_norm")
def norm(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value:
    """The weight and the bias are nodes of their own; devices fuse them again."""
    builder, (x, weight, bias) = rewriter.builder, (*inputs, None)[:3]
    assert x is not None
    value = builder.emit(node.op, builder.cont(x), **node.attrs)
    if weight is not None:
        value = builder.emit("mul", value, weight)
    return value if bias is None else builder.emit("add", value, bias)


@stock("mean", "sum_rows", "cumsum", "pad_ext")
def over_rows(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value:
    """Ops along dense rows: devices want all of the tensor dense."""
    dense = [rewriter.builder.cont(value) for value in present(inputs)]
    return rewriter.builder.emit(node.op, *dense, **node.attrs)


@stock("cont")
def cont(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value:
    """Left out: whatever reads it says by itself whether it must be dense."""
    del rewriter, node
    return present(inputs)[0]


@stock("reduce")
def reduce(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    """Sums and means of f32 along any dims: along the rows of what has these dims innermost, and in one."""
    (a,) = present(inputs)
    name = _OVER_ROWS.get(node.attrs["kind"])
    if name is None or a.dtype != DType.F32:
        return None
    builder = rewriter.builder
    base, axes = dense_base(a)
    if not base.is_contiguous:
        base, axes = a, IDENTITY
    reduced = [dim for dim in range(4) if axes[dim] in node.attrs["axes"]]
    kept = [dim for dim in range(4) if dim not in reduced]
    order = [*reduced, *kept]
    inner = builder.cont(builder.permute(base, [order.index(dim) for dim in range(4)]))
    rows = builder.reshape(inner, (product(base.ne[dim] for dim in reduced), *(base.ne[dim] for dim in kept)))
    ne = [1 if dim in reduced else base.ne[dim] for dim in range(4)]
    return builder.permute(builder.reshape(builder.emit(name, rows), ne), axes)


@stock("take")
def take(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    """Elements of f32 at one index for all, along any dim: rows of what has this dim as its second one."""
    a, index = present(inputs)
    axis, builder = node.attrs["axis"], rewriter.builder
    one_index = all(is_one(size) for dim, size in enumerate(index.ne) if dim != axis)
    if a.dtype != DType.F32 or not one_index or not _is_positive(a.ne[axis]):
        return None
    rest = [dim for dim in range(4) if dim != axis]
    order = [*rest, axis]
    last = builder.cont(builder.permute(a, [order.index(dim) for dim in range(4)]))
    matrix = builder.reshape(last, (product(a.ne[dim] for dim in rest), a.ne[axis]))
    rows = builder.emit("get_rows", matrix, _checked(builder, index, a.ne[axis], node.attrs["wrap"]))
    taken = builder.reshape(rows, (*(a.ne[dim] for dim in rest), index.count))
    return builder.permute(taken, order)


@stock("take_rows")
def take_rows(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    """Rows of f32."""
    del node
    a, rows = present(inputs)
    if a.dtype != DType.F32 or not _is_positive(a.ne[1]):
        return None
    builder = rewriter.builder
    taken = builder.emit("get_rows", a, _checked(builder, rows, a.ne[1], wrap=False))
    return builder.reshape(taken, (a.ne[0], *rows.ne[:3]))


@stock("update_state")
def update_state(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    """Rows written where the state lies, if one index says where for all of its batch."""
    state, index, src = present(inputs)
    axis, ne, builder = node.attrs["axis"], node.attrs["ne"], rewriter.builder
    one_index = all(is_one(size) for dim, size in enumerate(index.ne) if dim != axis)
    if axis == 0 or not one_index or not _takes_rows(state.dtype):
        return None
    src = _unrounded(builder, src)
    if not same_dims(src.ne, ne):
        src = builder.broadcast(src, ne)
    rows_second = [dim if dim not in (1, axis) else 1 + axis - dim for dim in range(4)]
    where = _checked(builder, index, state.ne[axis], node.attrs["wrap"])
    rows = builder.permute(src, rows_second)
    rows = rows if rows.has_dense_rows else builder.cont(rows)
    written = builder.emit("set_rows", builder.permute(state, rows_second), where, rows)
    return builder.permute(written, rows_second)


def _checked(builder: Builder, index: Value, size: Dim, wrap: bool) -> Value:
    """Indices in one dim, their range checked."""
    flat = builder.reshape(builder.cont(index), (index.count,))
    return builder.emit("to_index", flat, size=size, wrap=wrap)


def _is_positive(size: Dim) -> bool:
    """Whether there is something to take from, whatever the sizes."""
    return isinstance(size, int) and size > 0


def _unrounded(builder: Builder, src: Value) -> Value:
    """Rows in f32: before they were rounded to the state's type, which writing them does again."""
    base, axes = dense_base(src)
    if computed_by(base, "convert") and input_of(base, 0).dtype == DType.F32:
        return builder.permute(input_of(base, 0), axes)
    return builder.convert(src, DType.F32)


def _takes_rows(dtype: DType) -> bool:
    """Whether ``ggml_set_rows`` writes f32 rows to a state of this type."""
    return dtype.is_quantized or dtype in (DType.F32, DType.F16, DType.BF16)
