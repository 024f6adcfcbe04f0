"""Matrix products."""

from __future__ import annotations

from typing import Any

from .writer import Value, Writer, emits


@emits("matmul")
def matmul(w: Writer, a: Value, b: Value) -> Value:
    """MatMul."""
    return w.call("MatMul", w.wide(a), w.wide(b), shape=w.shape)


@emits("gemm")
def gemm(
    w: Writer,
    a: Value,
    b: Value,
    c: Value | None = None,
    *,
    alpha: float,
    beta: float,
    a_transpose: bool,
    b_transpose: bool,
) -> Value:
    """Gemm."""
    attributes: dict[str, Any] = {"alpha": alpha, "beta": beta, "transA": int(a_transpose), "transB": int(b_transpose)}
    return w.call("Gemm", w.wide(a), w.wide(b), None if c is None else w.wide(c), shape=w.shape, **attributes)
