"""The rules of the ggml target: what each op becomes in stock ops, found by the op's name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir.builder import IDENTITY, Builder
from ...ir.dims import is_one, same_dims
from ...ir.graph import Value
from ...ir.layout import Axes, common_layout, dense_base
from ...ir.op import Dims
from ...passes.rewrite import Rule

RULES: dict[str, Rule] = {}


def stock(*ops: str) -> Callable[[Rule], Rule]:
    """Declare the decorated rule as that of these ops."""

    def declare(rule: Rule) -> Rule:
        for op in ops:
            if op in RULES:
                raise ValueError(f"op {op} has two rules")
            RULES[op] = rule
        return rule

    return declare


def with_dense_rows(builder: Builder, value: Value) -> Value:
    """The value with elements of its first dim adjacent, as ggml's ops of two operands want it."""
    return value if is_one(value.ne[0]) or value.has_dense_rows else builder.cont(value)


def elementwise_base(builder: Builder, value: Value) -> tuple[Value, Axes]:
    """A dense tensor with the value's elements, and the permutation of it that the value is."""
    base, axes = dense_base(value)
    return (base, axes) if base.is_contiguous else (builder.cont(value), IDENTITY)


def shared_layout(builder: Builder, values: Sequence[Value], ne: Dims) -> tuple[Axes, list[Value]]:
    """As ``common_layout``, but no layout where an operand of the result's dims ``ne`` is dense as it is."""
    if any(value.is_contiguous and same_dims(value.ne, ne) for value in values):
        return IDENTITY, list(values)
    return common_layout(builder, values)


def dims_before(axes: Axes, ne: Dims) -> Dims:
    """The dims of the tensor that a permutation makes one of dims ``ne`` of."""
    return ne[axes[0]], ne[axes[1]], ne[axes[2]], ne[axes[3]]
