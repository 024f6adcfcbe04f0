"""Ops that move elements without computing: reshapes, views, copies, concatenation, row gathering.

Shapes are in ggml order (``ne[0]`` innermost); the reference functions see the same tensors as torch tensors of four
dims in reversed order, so ggml's dim ``i`` is torch's dim ``3 - i``.
"""

from __future__ import annotations

from typing import Any

from .._lazy import torch
from ..formulas import (
    count,
    fact,
    formula,
    is_f32,
    is_one,
    known,
    seen,
)
from ..op import Dim, Dims, Empty, Moves, Operand, Writes, op


def shape_of(ne: Dims) -> tuple[int, ...]:
    """The torch shape (outermost first) of concrete ggml dims."""
    return tuple(int(n) for n in reversed(ne))


@formula
def same_count(a: Operand, ne: Dims) -> bool:
    """Expects `ne` to have as many elements as `a`."""
    return count(a.ne) == count(ne)


@formula
def is_permutation(axes: tuple[int, ...]) -> bool:
    """Expects `axes` to be 0, 1, 2 and 3 in some order."""
    return len(axes) == 4 and all(i in axes for i in range(4))


@formula
def keeps_rows(a: Operand, axes: tuple[int, ...]) -> bool:
    """Expects `axes` to leave the rows of `a` rows, since they are quantized."""
    return not a.dtype.is_quantized or axes[0] == 0


@formula
def is_inside(a: Operand, start: Dims, step: tuple[int, ...], ne: Dims) -> bool:
    """Expects `ne` elements from `start` on, `step` apart, to lie inside `a`."""
    return len(step) == 4 and all(
        1 <= step[i] < 2**31
        and start[i] >= 0
        and ne[i] >= 0
        and (ne[i] == 0 or start[i] + step[i] * (ne[i] - 1) < a.ne[i])
        for i in range(4)
    )


@formula
def takes_whole_rows(a: Operand, start: Dims, step: tuple[int, ...], ne: Dims) -> bool:
    """Expects `start`, `step` and `ne` to be those of whole rows of `a`, since they are quantized."""
    return not a.dtype.is_quantized or (known(start[0]) and start[0] == 0 and step[0] == 1 and ne[0] == a.ne[0])


@formula
def same_dims_but(a: Operand, b: Operand, dim: int) -> bool:
    """Expects `a` and `b` to have one shape, apart from the dim `dim`, 0 to 3."""
    return 0 <= dim < 4 and all(i == dim or a.ne[i] == b.ne[i] for i in range(4))


@formula
def joins_elements(a: Operand, b: Operand) -> bool:
    """Expects `a` and `b` to be of float32, and neither to be empty."""
    return is_f32(a) and count(a.ne) > 0 and count(b.ne) > 0


@formula
def takes_rows_at(state: Operand, index: Operand, src: Operand) -> bool:
    """Expects `src` to be `state` but for the dim 1, and `index` to have an element for each of its rows."""
    return (
        src.ne[0] == state.ne[0]
        and src.ne[2] == state.ne[2]
        and src.ne[3] == state.ne[3]
        and index.ne[0] == src.ne[1]
        and is_one(index.ne[1])
        and is_one(index.ne[2])
        and is_one(index.ne[3])
    )


@formula
def are_sizes(sizes: Dims) -> bool:
    """Expects `sizes` to be 0 or more, each."""
    return all(n >= 0 for n in sizes)


@formula
def is_matrix(a: Operand) -> bool:
    """Expects `a` to be one matrix."""
    return is_one(a.ne[2]) and is_one(a.ne[3])


@formula
def is_line(rows: Operand) -> bool:
    """Expects `rows` to have one dim."""
    return is_one(rows.ne[1]) and is_one(rows.ne[2]) and is_one(rows.ne[3])


@formula
def has_three_dims(rows: Operand) -> bool:
    """Expects `rows` to have three dims at most."""
    return is_one(rows.ne[3])


@formula
def is_addressable(size: Dim) -> bool:
    """Expects `size` to be a size that i32 indices can address, from 1 on."""
    return 0 < size < 2**31


@fact
def is_state(state: Operand) -> bool:
    """Expects `state` to be a named state: nothing else may be written to."""
    return getattr(state, "producer", None) is None


@fact
def shows_state(state: Operand) -> bool:
    """Expects `state` to be a named state, or a view of one."""
    while (producer := getattr(state, "producer", None)) is not None:
        if producer.op not in ("reshape", "permute", "update_state", "set_rows"):
            return False
        state = producer.inputs[0]
    return True


@fact
def is_below(index: Operand, size: Dim) -> bool:
    """Expects `index` to come from to_index, its values checked to be less than `size`."""
    value: Any = index
    while (producer := getattr(value, "producer", None)) is not None:
        if producer.spec.bound is not None:
            return bool(seen(producer.attrs[producer.spec.bound]) <= size)
        if producer.spec.moves is Moves.NO:
            return False
        value = producer.inputs[0]
    return False


@op(
    1,
    inputs={"a": "any cont"},
    result="a.dtype, ne",
    checks=("same_count(a, ne)",),
    moves=Moves.VIEW,
    call="ggml_reshape_4d(ctx, a, ne[0], ne[1], ne[2], ne[3])",
)
def reshape(a: torch.Tensor, *, ne: Dims) -> torch.Tensor:
    """The same elements in another shape (``ggml_reshape_4d``)."""
    return a.reshape(shape_of(ne))


@op(
    2,
    inputs={"a": "any|quantized"},
    result="a.dtype, dims(a.ne[place_of(i, axes)] for i in range(4))",
    checks=("is_permutation(axes)", "keeps_rows(a, axes)"),
    moves=Moves.VIEW,
    call="self.permute(a, axes)",
)
def permute(a: torch.Tensor, *, axes: tuple[int, ...]) -> torch.Tensor:
    """A view with dim ``i`` moved to place ``axes[i]`` (``ggml_permute``)."""
    return a.permute([3 - axes.index(3 - i) for i in range(4)])


@op(
    3,
    inputs={"a": "any|quantized"},
    result="a.dtype, ne",
    checks=("is_inside(a, start, step, ne)", "takes_whole_rows(a, start, step, ne)"),
    moves=Moves.VIEW,
    call="self.view(a, start, step, ne)",
)
def view(a: torch.Tensor, *, start: Dims, step: tuple[int, ...], ne: Dims) -> torch.Tensor:
    """A strided window: ``ne[i]`` elements of dim ``i`` from ``start[i]``, every ``step[i]`` (``ggml_view_4d``)."""
    for i in range(4):
        index = int(start[i]) + int(step[i]) * torch.arange(int(ne[i]))
        a = a.index_select(3 - i, index)
    return a


@op(4, inputs={"a": "any"}, result="a", moves=Moves.COPY, kernel="broadcast", stock="is_float(a.dtype)")
def cont(a: torch.Tensor) -> torch.Tensor:
    """A dense copy (``ggml_cont``)."""
    return a.contiguous()


@op(
    5,
    inputs={"a": "any"},
    result="a.dtype, ne",
    checks=("broadcasts_to(a.ne, ne)",),
    call="ggml_repeat_4d(ctx, a, ne[0], ne[1], ne[2], ne[3])",
    kernel="broadcast",
    stock="is_f32(a)",
)
def broadcast(a: torch.Tensor, *, ne: Dims) -> torch.Tensor:
    """``a`` with its dims of size 1 repeated to ``ne``, for any type (``ggml_repeat_4d``)."""
    return a.expand(shape_of(ne)).clone()


@op(
    6,
    inputs={"a": "any", "b": "any"},
    result="a.dtype, dims(a.ne[i] + b.ne[i] if i == dim else a.ne[i] for i in range(4))",
    checks=("same_type(a, b)", "same_dims_but(a, b, dim)"),
    empty=Empty.COMPUTED,
    call="ggml_concat(ctx, a, b, narrow(dim))",
    kernel="concat",
    stock="joins_elements(a, b)",
    along=("dim",),
)
def concat(a: torch.Tensor, b: torch.Tensor, *, dim: int) -> torch.Tensor:
    """``a`` then ``b`` along ggml dim ``dim``, for any type (``ggml_concat``)."""
    return torch.cat([a, b], 3 - dim)


@op(
    7,
    inputs={"a": "any", "state": "any cont"},
    result="state",
    checks=("same_type(a, state)", "same_dims(a.ne, state.ne)", "is_state(state)"),
    empty=Empty.COMPUTED,
    writes=Writes.WHOLE,
    call="ggml_cpy(ctx, a, state)",
)
def write_state(a: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    """Copy ``a`` into the named state, which keeps it for the next run (``ggml_cpy``)."""
    return state.copy_(a)


@op(
    8,
    inputs={"a": "f32 rows"},
    result="a.dtype, dims(a.ne[i] + lead[i] + trail[i] for i in range(4))",
    checks=("are_sizes(lead)", "are_sizes(trail)"),
    call="ggml_pad_ext(ctx, a, narrow(lead[0]), narrow(trail[0]), narrow(lead[1]), narrow(trail[1]), "
    "narrow(lead[2]), narrow(trail[2]), narrow(lead[3]), narrow(trail[3]))",
)
def pad_ext(a: torch.Tensor, *, lead: Dims, trail: Dims) -> torch.Tensor:
    """Zeros before and after each dim (``ggml_pad_ext``)."""
    pads = [int(n) for i in range(4) for n in (lead[i], trail[i])]
    return torch.nn.functional.pad(a, pads)


@op(
    9,
    inputs={"a": "float|quantized rows", "rows": "i32 cont"},
    result="DType.F32, (a.ne[0], rows.ne[0], rows.ne[1], rows.ne[2])",
    checks=("is_matrix(a)", "is_line(rows)", "is_below(rows, a.ne[1])"),
    kernel="panel_rows",
    when="is_in_panels(a)",
)
def get_rows(a: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Rows ``a[rows[i]]`` as f32 (``ggml_get_rows``); ``rows`` must come from ``to_index``, which checks the range.

    The own kernel is for matrices that are stored in panels.
    """
    return a[0, 0][rows[0].long()].float()


@op(
    10,
    inputs={"a": "index"},
    result="DType.I32, a.ne",
    checks=("is_addressable(size)",),
    bound="size",
    call="custom",
    kernel="to_index",
)
def to_index(a: torch.Tensor, *, size: Dim, wrap: bool) -> torch.Tensor:
    """Indices into ``size`` things as i32, with ``wrap`` negative ones from the end; others fail the run (custom)."""
    n = int(size)
    if a.numel() and (int(a.min()) < (-n if wrap else 0) or int(a.max()) >= n):
        raise IndexError(f"index out of range for size {n}")
    return torch.where(a < 0, a + n, a).to(torch.int32)


@op(
    11,
    inputs={"a": "any cont", "rows": "i32 cont"},
    result="a.dtype, (a.ne[0], rows.ne[0], rows.ne[1], rows.ne[2])",
    checks=("is_matrix(a)", "has_three_dims(rows)"),
    call="custom",
    kernel="take_rows",
)
def take_rows(a: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Rows ``a[rows[i]]`` in any type (custom; ``ggml_get_rows`` takes few); a row out of range fails the run."""
    return a[0, 0][rows[0].long()]


@op(
    12,
    inputs={"state": "float|quantized rows", "index": "i32 cont", "src": "f32 rows"},
    result="state",
    checks=("takes_rows_at(state, index, src)", "is_below(index, state.ne[1])", "shows_state(state)"),
    empty=Empty.COMPUTED,
    writes=Writes.ROWS,
    call="compositions::set_rows(self, state, index, src)",
)
def set_rows(state: torch.Tensor, index: torch.Tensor, src: torch.Tensor) -> torch.Tensor:
    """Rows of ``src`` written to a named state, or a view of one, at ``index`` (``ggml_set_rows``).

    ``index`` must come from ``to_index``, which checks the range. Of equal indices any may stay.
    """
    return state.index_copy_(2, index.reshape(-1).long(), src.to(state.dtype))
