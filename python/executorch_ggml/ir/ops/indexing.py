"""Elements by index along one dim: taking them, writing them, sorting them, running along them (all custom).

Indices are checked when they are used: one out of range fails the run, and nothing outside a tensor is touched.
"""

from __future__ import annotations

import enum

from .._lazy import torch
from ..dtypes import DType
from ..formulas import formula
from ..op import Dim, Dims, Empty, Operand, Writes, op
from .custom import NUMBERS
from .movement import shape_of


class ScatterKind(enum.IntEnum):
    """What ``scatter`` does with the element that is there. NaN wins in MAX and MIN."""

    ASSIGN = 0  # the last of equal indices stays
    ADD = 1
    MUL = 2
    MAX = 3
    MIN = 4


class ScanKind(enum.IntEnum):
    """Function of the ``scan`` node."""

    PROD = 0
    ARGMAX = 1  # place of the largest so far, the last of equals; i64; NaN wins
    ARGMIN = 2
    LOGSUMEXP = 3


SCAN_INDEX = frozenset({ScanKind.ARGMAX, ScanKind.ARGMIN})


@formula
def takes_along(a: Operand, index: Operand, axis: int) -> bool:
    """Expects `index` to have sizes that are `a`'s or 1, apart from the dim `axis`, 0 to 3."""
    return 0 <= axis < 4 and all(i == axis or index.ne[i] == 1 or index.ne[i] == a.ne[i] for i in range(4))


@formula
def scatters_into(a: Operand, ne: Dims, axis: int) -> bool:
    """Expects `ne` to be the sizes of `a`, apart from the dim `axis`, 0 to 3."""
    return 0 <= axis < 4 and all(ne[i] >= 0 and (i == axis or ne[i] == a.ne[i]) for i in range(4))


@formula
def scatter_takes(kind: ScatterKind, a: Operand) -> bool:
    """Expects `kind` to be ASSIGN where `a` is not of float32, int32 or int64."""
    return kind == ScatterKind.ASSIGN or a.dtype in NUMBERS


@formula
def stores(state: Operand, src: Operand, axis: int) -> bool:
    """Expects `src` to be of `state`'s element type, or whole rows of float32 for a quantized or float16 state.

    With ``axis`` 0 rows are written in part.
    """
    return state.dtype == src.dtype or (
        (state.dtype.is_quantized or state.dtype == DType.F16) and src.dtype == DType.F32 and axis > 0
    )


@formula
def is_sortable(a: Operand) -> bool:
    """Expects `a` to have rows that 31 bits count."""
    return a.ne[0] < 2**31


@formula
def is_part_of_row(count: Dim, a: Operand) -> bool:
    """Expects `count` to be 0 to the length of `a`'s rows."""
    return 0 <= count <= a.ne[0]


@formula
def scans(kind: ScanKind, a: Operand) -> bool:
    """Expects `kind` to be a function that there is for the element type of `a`."""
    return kind != ScanKind.LOGSUMEXP or a.dtype == DType.F32


def _in_range(index: torch.Tensor, size: int, wrap: bool) -> torch.Tensor:
    """The indices counted from the front; IndexError where one is out of range."""
    if index.numel() and (int(index.min()) < (-size if wrap else 0) or int(index.max()) >= size):
        raise IndexError(f"index out of range for size {size}")
    return torch.where(index < 0, index + size, index).long()


@op(
    130,
    inputs={"a": "any", "index": "index"},
    result="a.dtype, dims(index.ne[i] if i == axis else a.ne[i] for i in range(4))",
    checks=("takes_along(a, index, axis)",),
    empty=Empty.COMPUTED,
    call="custom",
    kernel="take",
    along=("axis",),
)
def take(a: torch.Tensor, index: torch.Tensor, *, axis: int, wrap: bool) -> torch.Tensor:
    """The elements of ``a`` at ``index`` along one axis; in the others ``index`` is broadcast to ``a`` (custom)."""
    dim = 3 - axis
    shape = [index.shape[d] if d == dim else n for d, n in enumerate(a.shape)]
    return a.gather(dim, _in_range(index, a.shape[dim], wrap).expand(shape))


@op(
    131,
    inputs={"a": "any", "index": "index", "src": "any"},
    result="a",
    checks=(
        "same_type(a, src)",
        "scatters_into(a, ne, axis)",
        "broadcasts_to(index.ne, ne)",
        "broadcasts_to(src.ne, ne)",
        "scatter_takes(kind, a)",
    ),
    work="count(a.ne) + count(ne)",
    empty=Empty.COMPUTED,
    call="custom",
    kernel="scatter",
)
def scatter(
    a: torch.Tensor,
    index: torch.Tensor,
    src: torch.Tensor,
    *,
    ne: Dims,
    axis: int,
    kind: ScatterKind,
    include_self: bool,
    wrap: bool,
) -> torch.Tensor:
    """``a`` with ``src`` written, or added and so on, at ``index`` along one axis (custom).

    ``index`` and ``src`` are broadcast to ``ne``, which is ``a``'s shape but along the axis.
    """
    dim, shape = 3 - axis, shape_of(ne)
    index, src = _in_range(index, a.shape[dim], wrap).expand(shape), src.expand(shape)
    name = {ScatterKind.ADD: "sum", ScatterKind.MUL: "prod", ScatterKind.MAX: "amax", ScatterKind.MIN: "amin"}
    if kind != ScatterKind.ASSIGN:
        return a.scatter_reduce(dim, index, src, name[ScatterKind(kind)], include_self=include_self)
    result = a.clone()
    for i in range(shape[dim]):  # one after the other: the last of equal indices stays
        result.scatter_(dim, index.narrow(dim, i, 1), src.narrow(dim, i, 1))
    return result


@op(
    132,
    inputs={"state": "any|quantized cont", "index": "index", "src": "any"},
    result="state",
    checks=(
        "stores(state, src, axis)",
        "scatters_into(state, ne, axis)",
        "broadcasts_to(index.ne, ne)",
        "broadcasts_to(src.ne, ne)",
        "shows_state(state)",
    ),
    work="count(state.ne) + count(ne)",
    empty=Empty.COMPUTED,
    writes=Writes.ROWS,
    call="self.update_state(state, index, src, ne, axis, wrap)",
)
def update_state(
    state: torch.Tensor, index: torch.Tensor, src: torch.Tensor, *, ne: Dims, axis: int, wrap: bool
) -> torch.Tensor:
    """``scatter``'s ASSIGN into a named state, or a reshape of one, that nothing else reads before: no copy.

    A state that is quantized or f16 takes whole rows of f32 too, which ggml's reference quantizer rounds.
    """
    assign = {"kind": ScatterKind.ASSIGN, "include_self": True}
    return state.copy_(scatter(state, index, src.to(state.dtype), ne=ne, axis=axis, wrap=wrap, **assign))


@op(
    133,
    inputs={"a": "f32|f16|bf16|i8|u8|i16|i32|i64|bool"},
    result="DType.I64, (count, a.ne[1], a.ne[2], a.ne[3])",
    checks=("is_sortable(a)", "is_part_of_row(count, a)"),
    call="custom",
    kernel="sort",
)
def sort(a: torch.Tensor, *, count: Dim, descending: bool) -> torch.Tensor:
    """Places of each row's first ``count`` elements in sorted order (custom). Equals as they come, NaN the largest."""
    return torch.sort(a, dim=-1, descending=descending, stable=True).indices[..., : int(count)]


@op(
    135,
    inputs={"a": "f32|f16|bf16|i8|u8|i16|i32|i64"},
    result="DType.I64, (count, a.ne[1], a.ne[2], a.ne[3])",
    checks=("is_sortable(a)", "is_part_of_row(count, a)"),
    call="custom",
    kernel="top_k",
)
def top_k(a: torch.Tensor, *, count: Dim, largest: bool, in_order: bool) -> torch.Tensor:
    """Places of each row's largest or smallest elements (custom). Of equals the same ones as torch, NaN the largest."""
    return torch.topk(a, int(count), dim=-1, largest=largest, sorted=in_order).indices


@op(
    134,
    inputs={"a": "f32|i32|i64"},
    result="DType.I64 if kind in SCAN_INDEX else a.dtype, a.ne",
    checks=("is_axis(axis)", "scans(kind, a)"),
    call="custom",
    kernel="scan",
)
def scan(a: torch.Tensor, *, kind: ScanKind, axis: int) -> torch.Tensor:
    """A running product or extreme's place along one axis (custom; running sums are ``cumsum``)."""
    if kind in SCAN_INDEX:
        best = torch.cummax if kind == ScanKind.ARGMAX else torch.cummin
        return best(a, 3 - axis).indices
    if kind == ScanKind.LOGSUMEXP:
        return torch.logcumsumexp(a, 3 - axis)
    return torch.cumprod(a, 3 - axis, dtype=a.dtype)
