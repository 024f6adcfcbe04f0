"""The table of MLX functions by IR op: one decorated function an op, as in the op table.

A function sees what the op's torch reference sees: arrays of four dims, outermost first (ggml's dim ``i`` is axis
``3 - i``), and the attributes by keyword. A ``planned`` one sees the node, once, and gives the function of its arrays.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import mlx.core as mx

from ...ir.dtypes import DType

if TYPE_CHECKING:
    from ...ir.graph import Node, Value

Function = Callable[..., mx.array]
Prepare = Callable[..., mx.array]  # of the array and, by keyword, the node

MLX_TYPES: dict[DType, mx.Dtype] = {
    DType.F32: mx.float32,
    DType.F16: mx.float16,
    DType.BF16: mx.bfloat16,
    DType.I8: mx.int8,
    DType.I16: mx.int16,
    DType.I32: mx.int32,
    DType.I64: mx.int64,
    DType.BOOL: mx.bool_,
    DType.U8: mx.uint8,
}


@dataclass(frozen=True)
class MlxOp:
    """How one op is computed.

    ``refuses`` gives the reason why a node is not taken, or None. ``prepare`` changes an input before the function sees
    it, once where it is a constant. Inputs in ``packed`` may be :class:`~.quantized.Packed`. What ``checks`` its data
    is never computed ahead of a run.
    """

    name: str
    make: Callable[[Node], Function]
    refuses: Callable[[Node], str | None]
    prepare: Mapping[int, Prepare] = field(default_factory=dict)
    packed: frozenset[int] = frozenset()
    checks: bool = False


TABLE: dict[str, MlxOp] = {}


def entry_of(op: str) -> MlxOp | None:
    """How an op is computed, or what the layout pass makes of it; None where it is not."""
    return TABLE.get(op) or TABLE.get(f"{op}_nhwc")


def register(
    name: str,
    make: Callable[[Node], Function],
    *,
    refuses: Callable[[Node], str | None] = lambda node: None,
    prepare: Mapping[int, Prepare] | None = None,
    packed: Iterable[int] = (),
    checks: bool = False,
) -> None:
    """Add an op to the table (see :class:`MlxOp`)."""
    if name in TABLE:
        raise ValueError(f"MLX function of {name} is declared twice")
    TABLE[name] = MlxOp(name, make, refuses, prepare or {}, frozenset(packed), checks)


def direct(**how: Any) -> Callable[[Function], Function]:
    """Declare the function of the op of its name, of arrays and attributes."""

    def declare(function: Function) -> Function:
        def make(node: Node) -> Function:
            return functools.partial(function, **node.attrs) if node.attrs else function

        register(function.__name__, make, **how)
        return function

    return declare


def planned(**how: Any) -> Callable[[Callable[[Node], Function]], Callable[[Node], Function]]:
    """Declare what makes a node's function, for the op of its name."""

    def declare(make: Callable[[Node], Function]) -> Callable[[Node], Function]:
        register(make.__name__, make, **how)
        return make

    return declare


def shape_of(value: Value) -> tuple[int, ...]:
    """The shape of a value's array."""
    return tuple(int(n) for n in reversed(value.ne))


# ----------------------------------------------------------------------------------------------------- checks of data


class _Checks(threading.local):
    def __init__(self) -> None:
        self.conditions: list[tuple[mx.array, Exception]] = []


_checks = _Checks()


def require(condition: mx.array, error: Exception) -> None:
    """Let the run fail with an error where a condition (one bool) does not hold, once all is evaluated."""
    _checks.conditions.append((condition, error))


def taken_conditions() -> list[tuple[mx.array, Exception]]:
    """What was required since this was called last, on this thread."""
    conditions, _checks.conditions = _checks.conditions, []
    return conditions


def in_range(index: mx.array, size: int, *, wrap: bool) -> mx.array:
    """Indices into ``size`` things counted from the front; one out of range fails the run and reads a safe place."""
    error = IndexError(f"mlx: index out of range for size {size}")
    if size == 0 and index.size:
        raise error
    if wrap:
        index = mx.where(index < 0, index + size, index)
    require(mx.all(mx.logical_and(index >= 0, index < size)), error)
    return mx.clip(index, 0, max(size - 1, 0))
