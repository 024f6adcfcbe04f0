"""Symbolic dimensions: Python ints, or sympy expressions over the program's symbols as torch's own shapes are."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from typing import Any

from ._lazy import sympy
from .op import Dim, Dims


def as_dim(size: Any) -> Dim:
    """A Python int, ``torch.SymInt`` or sympy expression as a dim: an int wherever it is one."""
    if isinstance(size, int) and not isinstance(size, bool):
        return size
    expr = size.node.expr if hasattr(size, "node") else size
    expr = sympy.sympify(expr)
    return int(expr) if expr.is_Integer else expr


def as_dims(sizes: Iterable[Any]) -> list[Dim]:
    """Each size as a dim."""
    return [size if type(size) is int else as_dim(size) for size in sizes]


def product(sizes: Iterable[Dim]) -> Dim:
    """Product of dims, expanded so that equal products compare equal."""
    total: Any = 1
    for size in sizes:
        total = total * size
    return total if isinstance(total, int) else as_dim(sympy.expand(total))


def quotient(a: Dim, b: Dim) -> Dim | None:
    """``a / b`` where that is a whole number whatever the symbols' values, as far as is known; else None."""
    if isinstance(b, int) and b == 0:
        return None
    if isinstance(a, int) and isinstance(b, int):
        return None if a % b else a // b
    parts = sympy.expand(sympy.sympify(a) / b)
    return as_dim(parts) if parts.as_numer_denom()[1] == 1 else None


def same(a: Dim, b: Dim) -> bool:
    """Whether two dims are provably equal."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return bool(a == b or sympy.expand(sympy.sympify(a) - b) == 0)


def same_dims(a: Iterable[Dim], b: Iterable[Dim]) -> bool:
    """Whether two shapes are provably equal."""
    a, b = tuple(a), tuple(b)
    return a == b or (len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True)))


def is_one(size: Dim) -> bool:
    """Whether a dim is the constant 1."""
    return isinstance(size, int) and size == 1


def ne_of(shape: Iterable[Any]) -> Dims:
    """Ggml dims of a torch shape: reversed, padded with 1; dims beyond the fourth are folded into the outermost."""
    sizes = as_dims(shape)
    if len(sizes) > 4:
        sizes = [product(sizes[:-3]), *sizes[-3:]]
    ne = [*reversed(sizes), 1, 1, 1, 1][:4]
    return ne[0], ne[1], ne[2], ne[3]


def free_symbols(sizes: Iterable[Dim]) -> set[sympy.Symbol]:
    """The symbols that appear in some dims."""
    found: set[sympy.Symbol] = set()
    for size in sizes:
        if not isinstance(size, int):
            found |= size.free_symbols
    return found


def evaluate(size: Dim, bindings: Mapping[sympy.Symbol, int]) -> int:
    """The value of a dim for given symbol values."""
    return size if isinstance(size, int) else int(size.subs(bindings))


def floor_div(a: Dim, b: Dim) -> Dim:
    """``a // b`` on dims."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    from torch.utils._sympy.functions import FloorDiv

    return as_dim(FloorDiv(a, b))


def minimum(a: Dim, b: Dim) -> Dim:
    """The smaller of two dims."""
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else as_dim(sympy.Min(a, b))


def maximum(a: Dim, b: Dim) -> Dim:
    """The larger of two dims."""
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else as_dim(sympy.Max(a, b))


@functools.cache
def binary_exprs() -> dict[str, tuple[type, ...]]:
    """What the wire format can say: by ExprOp the classes of an expression of two operands, first the one to make."""
    from torch.utils._sympy.functions import FloorDiv, Max, Min, Mod, PythonMod

    return {
        "Add": (sympy.Add,),
        "Mul": (sympy.Mul,),
        "FloorDiv": (FloorDiv,),
        "Mod": (Mod, PythonMod, sympy.Mod),
        "Min": (Min, sympy.Min),
        "Max": (Max, sympy.Max),
    }


def expr_kind(expr: sympy.Expr) -> str | None:
    """The ExprOp that computes this expression from its arguments, or None."""
    for name, classes in binary_exprs().items():
        if isinstance(expr, classes):
            return name
    if type(expr).__name__ == "CleanDiv":
        return "FloorDiv"
    return None


def unsupported_part(size: Dim) -> str | None:
    """The first part of a dim's expression that the wire format cannot say, or None."""
    if isinstance(size, int) or size.is_Integer or size.is_Symbol:
        return None
    if size.is_Pow and size.exp.is_Integer and size.exp > 0:
        return unsupported_part(size.base)
    if expr_kind(size) is None:
        return str(size)
    return next((bad for part in size.args if (bad := unsupported_part(part))), None)


def numel(ne: Iterable[int]) -> int:
    """Number of elements of concrete dims."""
    return math.prod(ne)
