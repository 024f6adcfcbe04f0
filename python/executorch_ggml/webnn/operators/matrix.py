"""Matrix products."""

from __future__ import annotations

from ..data_types import FLOATS
from .shapes import MAX_RANK, Shape, broadcast, broadcasts_to
from .spec import Call, Flag, Real, Same, Tensor, operator


@operator(
    "matmul",
    Tensor("a", FLOATS, (2, MAX_RANK)),
    Tensor("b", Same("a"), (2, MAX_RANK)),
    outputs=Tensor("output", Same("a"), (2, MAX_RANK)),
)
def matmul(call: Call) -> Shape:
    """The product of matrices, which are the last two dimensions; those before them are broadcast."""
    a, b = call.shape("a"), call.shape("b")
    if a[-1] != b[-2]:
        call.fail("b", f"matrices of {a[-1]} rows, for a has as many columns")
    batch = broadcast(a[:-2], b[:-2])
    if batch is None:
        call.fail("b", f"dimensions before the last two that broadcast with {list(a[:-2])}")
    return (*batch, a[-2], b[-1])


@operator(
    "gemm",
    Tensor("a", FLOATS, (2, 2)),
    Tensor("b", Same("a"), (2, 2)),
    Tensor("c", Same("a"), (0, 2), optional=True),
    Real("alpha", 1.0),
    Real("beta", 1.0),
    Flag("a_transpose", False),
    Flag("b_transpose", False),
    outputs=Tensor("output", Same("a"), (2, 2)),
)
def gemm(call: Call) -> Shape:
    """``alpha * a @ b + beta * c``, with ``a`` and ``b`` transposed first if asked for."""
    rows, inner = call.shape("a")[:: -1 if call["a_transpose"] else 1]
    inner_b, columns = call.shape("b")[:: -1 if call["b_transpose"] else 1]
    if inner != inner_b:
        call.fail("b", f"{inner} rows (after the transposition), for a has as many columns")
    if call.has("c") and not broadcasts_to(call.shape("c"), (rows, columns)):
        call.fail("c", f"a shape that broadcasts to {[rows, columns]}")
    return rows, columns
