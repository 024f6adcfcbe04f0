"""Ops that move elements without computing: reshapes, views, copies, concatenation, row gathering.

Shapes are in ggml order (``ne[0]`` innermost); the reference functions see the same tensors as torch tensors of four
dims in reversed order, so ggml's dim ``i`` is torch's dim ``3 - i``.
"""

from __future__ import annotations

from .._lazy import torch
from ..dtypes import DType
from ..op import Dim, Dims, Operand, Rule, op, same_as, shaped


def shape_of(ne: Dims) -> tuple[int, ...]:
    """The torch shape (outermost first) of concrete ggml dims."""
    return tuple(int(n) for n in reversed(ne))


def _permuted(a: Operand, *, axes: tuple[int, ...]) -> tuple[DType, Dims]:
    ne: list[Dim] = [0] * 4
    for source, target in enumerate(axes):
        ne[target] = a.ne[source]
    return a.dtype, (ne[0], ne[1], ne[2], ne[3])


def _concatenated(a: Operand, b: Operand, *, dim: int) -> tuple[DType, Dims]:
    ne = list(a.ne)
    ne[dim] = a.ne[dim] + b.ne[dim]
    return a.dtype, (ne[0], ne[1], ne[2], ne[3])


def _padded(a: Operand, *, lead: Dims, trail: Dims) -> tuple[DType, Dims]:
    n = [a.ne[i] + lead[i] + trail[i] for i in range(4)]
    return a.dtype, (n[0], n[1], n[2], n[3])


@op(
    1,
    inputs={"a": "any cont"},
    result=shaped(),
    checks=("same_count(a, ne)",),
    call="ggml_reshape_4d(ctx, a, ne[0], ne[1], ne[2], ne[3])",
)
def reshape(a: torch.Tensor, *, ne: Dims) -> torch.Tensor:
    """The same elements in another shape (``ggml_reshape_4d``)."""
    return a.reshape(shape_of(ne))


@op(
    2,
    inputs={"a": "any|quantized"},
    result=_permuted,
    checks=("permutation(axes)", "keeps_rows(a, axes)"),
    call="self.permute(a, axes)",
)
def permute(a: torch.Tensor, *, axes: tuple[int, ...]) -> torch.Tensor:
    """A view with dim ``i`` moved to place ``axes[i]`` (``ggml_permute``)."""
    return a.permute([3 - axes.index(3 - i) for i in range(4)])


@op(
    3,
    inputs={"a": "any|quantized"},
    result=shaped(),
    checks=("view_inside(a, start, step, ne)", "whole_rows(a, start, step, ne)"),
    call="self.view(a, start, step, ne)",
)
def view(a: torch.Tensor, *, start: Dims, step: tuple[int, ...], ne: Dims) -> torch.Tensor:
    """A strided window: ``ne[i]`` elements of dim ``i`` from ``start[i]``, every ``step[i]`` (``ggml_view_4d``)."""
    for i in range(4):
        index = int(start[i]) + int(step[i]) * torch.arange(int(ne[i]))
        a = a.index_select(3 - i, index)
    return a


@op(4, inputs={"a": "any"}, result=same_as(0), kernel="broadcast")
def cont(a: torch.Tensor) -> torch.Tensor:
    """A dense copy (``ggml_cont``)."""
    return a.contiguous()


@op(
    5,
    inputs={"a": "any"},
    result=shaped(),
    checks=("broadcasts_to(a, ne)",),
    call="custom",
    kernel="broadcast",
)
def broadcast(a: torch.Tensor, *, ne: Dims) -> torch.Tensor:
    """``a`` with its dims of size 1 repeated to ``ne``, for any type (custom; ``ggml_repeat`` takes f32 and i32)."""
    return a.expand(shape_of(ne)).clone()


@op(
    6,
    inputs={"a": "any", "b": "any"},
    result=Rule(_concatenated, "concatenated({0}, {1}, dim)"),
    checks=("same_type(a, b)", "same_dims_but(a, b, dim)"),
    call="custom",
    kernel="concat",
)
def concat(a: torch.Tensor, b: torch.Tensor, *, dim: int) -> torch.Tensor:
    """``a`` then ``b`` along ggml dim ``dim``, for any type (custom; ``ggml_concat`` refuses 64-bit elements)."""
    return torch.cat([a, b], 3 - dim)


@op(
    7,
    inputs={"a": "any", "state": "any cont"},
    result=same_as(1),
    checks=("same_type(a, state)", "same_dims(a, state)", "is_state(state)"),
    call="ggml_cpy(ctx, a, state)",
)
def write_state(a: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    """Copy ``a`` into the named state, which keeps it for the next run (``ggml_cpy``)."""
    return state.copy_(a)


@op(
    8,
    inputs={"a": "f32 rows"},
    result=_padded,
    checks=("not_negative(lead)", "not_negative(trail)"),
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
    result=lambda a, rows: (DType.F32, (a.ne[0], rows.ne[0], rows.ne[1], rows.ne[2])),
    checks=("gathers_rows(a, rows)",),
)
def get_rows(a: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Rows ``a[rows[i]]`` as f32 (``ggml_get_rows``); ``rows`` must come from ``to_index``, which checks the range."""
    return a[0, 0][rows[0].long()].float()


@op(
    10,
    inputs={"a": "index"},
    result=Rule(lambda a, size, wrap: (DType.I32, a.ne), "with_type({0}, DType::I32)"),
    checks=("indexable(size)",),
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
    result=Rule(lambda a, rows: (a.dtype, (a.ne[0], rows.ne[0], rows.ne[1], rows.ne[2])), "taken_rows({0}, {1})"),
    checks=("is_table(a, rows)",),
    call="custom",
    kernel="take_rows",
)
def take_rows(a: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Rows ``a[rows[i]]`` in any type (custom; ``ggml_get_rows`` takes few); a row out of range fails the run."""
    return a[0, 0][rows[0].long()]
