"""Matrix products and rows by number."""

from __future__ import annotations

from ....ir.dtypes import DType
from ....ir.graph import Value
from ..translate import Node, tile, translates

_HALF = (DType.F16, DType.BF16)


@translates("MUL_MAT")
def mul_mat(n: Node) -> Value:
    """``b @ a.T``."""
    a, b = n.src(0), n.plain(1)
    if b.dtype != a.dtype or b.dtype not in _HALF:
        b = n.b.convert(b, DType.F32)
    return n.emit("mul_mat", a, b)


@translates("MUL_MAT_ID")
def mul_mat_id(n: Node) -> Value:
    """Products with matrices that are chosen by number."""
    a, ids = n.src(0), n.plain(2)
    return n.emit("mul_mat_id", a, n.f32(1), n.emit("to_index", n.b.cont(ids), size=a.ne[2], wrap=False))


@translates("OUT_PROD")
def out_prod(n: Node) -> Value:
    """``a @ b.T``, columns by columns."""
    a, b = n.f32(0), n.f32(1)
    rows, columns = (n.b.cont(n.b.transpose(each)) for each in (a, b))
    return n.emit("mul_mat", rows, columns)


@translates("GET_ROWS")
def get_rows(n: Node) -> Value:
    """Rows by number, as f32; of i32 tables as they are."""
    a, rows = n.src(0), n.plain(1)
    if a.ne[2] == 1 and a.ne[3] == 1:
        flat = n.b.reshape(n.b.cont(rows), (rows.ne[0] * rows.ne[1] * rows.ne[2],))
        index = n.emit("to_index", flat, size=a.ne[1], wrap=False)
        return n.b.reshape(n.emit("take_rows" if a.dtype == DType.I32 else "get_rows", a, index), n.ne)
    taken = n.plain(0)
    index = n.b.permute(n.b.convert(rows, DType.I64), (1, 2, 3, 0))
    index = tile(n.b, index, (1, rows.ne[0], a.ne[2], a.ne[3]))
    return n.emit("take", taken, index, axis=1, wrap=False)
