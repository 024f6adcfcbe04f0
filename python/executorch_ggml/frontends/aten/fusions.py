"""Several elementwise nodes as one, found in the IR that was built so far when their last node is lowered."""

from __future__ import annotations

from typing import Any

import torch

from ...ir.dims import is_one, ne_of, same_dims
from ...ir.dtypes import DType
from ...ir.formulas import broadcasts_to, holds
from ...ir.graph import Node, Value
from ...ir.ops.custom import BinaryKind, UnaryKind
from .context import Context, Tensor
from .layout import common_layout, dense_base

# What a gate's activation is called in the IR, with ggml's node for it times another tensor.
_GATES = {"silu": "swiglu_split", "gelu": "geglu_split", "gelu_erf": "geglu_erf_split"}


def _two_f32(cx: Context, fusion: str, a: Tensor, b: Any) -> bool:
    return fusion in cx.fusions and isinstance(b, Tensor) and a.dtype == b.dtype == DType.F32


def rms_norm(cx: Context, a: Tensor, b: Any) -> Tensor | None:
    """Given ``x * rsqrt(mean(x * x) + eps)``. Result ``rms_norm(x)``; None where it is something else."""
    if not _two_f32(cx, "rms_norm", a, b):
        return None
    for x, factor in ((a.value, b.value), (b.value, a.value)):
        eps = _rms_epsilon(x, factor)
        if eps is not None and same_dims(x.ne, ne_of(cx.shape())):
            return cx.out(cx.builder.emit("rms_norm", x, eps=eps))
    return None


def _rms_epsilon(x: Value, factor: Value) -> float | None:
    """The eps for which ``factor`` is ``rsqrt(mean(x * x) + eps)`` along rows, or None."""
    steps: list[Node] = []
    value: Value | None = factor
    while value is not None and value.producer is not None and value.producer.inputs and len(steps) < 4:
        steps.append(value.producer)
        value = value.producer.inputs[0]
    if [step.op for step in steps] != ["unary", "scale_bias", "mean", "sqr"] or value is not x:
        return None
    root, shift = steps[0].attrs, steps[1].attrs
    usual = root["kind"] == UnaryKind.RSQRT and shift["s"] == 1.0 and shift["b"] >= 0.0
    return float(shift["b"]) if usual else None


def gate(cx: Context, a: Tensor, b: Any) -> Tensor | None:
    """Given ``silu(x) * y`` or ``gelu(x) * y`` (SwiGLU, GEGLU). Result one node; None where it is something else."""
    if not _two_f32(cx, "gate", a, b):
        return None
    for index, (activated, other) in enumerate(((a.value, b.value), (b.value, a.value))):
        base, axes = dense_base(activated)
        name = None if base.producer is None else _GATES.get(base.producer.op)
        operand = cx.node.args[index]
        used_once = isinstance(operand, torch.fx.Node) and len(operand.users) == 1
        if name is None or not used_once or not same_dims(activated.ne, other.ne):
            continue
        x = cx.builder.permute(_input(base, 0), axes)
        layout, (left, right) = common_layout(cx.builder, [x, other])
        return cx.out(cx.builder.permute(cx.builder.emit(name, left, right), layout))
    return None


def rotary(cx: Context, a: Tensor, b: Any) -> Tensor | None:
    """Given ``x * cos + rotated(x) * sin``, a rotary embedding. Result one node; None where it is something else.

    ``rotated`` puts the second half of a row, negated, before the first ("NeoX", ``rotate_half``), or does that to each
    pair of neighbours ("GPT-J", ``rotate_every_two``).
    """
    if not _two_f32(cx, "rotary", a, b):
        return None
    for plain, turned in ((a.value, b.value), (b.value, a.value)):
        for x, cos in _factors(cx, plain):
            for rotated, sin in _factors(cx, turned):
                interleaved = _rotation(cx, rotated, x)
                if interleaved is not None and _fits(x, cos) and _fits(x, sin) and same_dims(x.ne, ne_of(cx.shape())):
                    layout, values = common_layout(cx.builder, [x, cos, sin])
                    made = cx.builder.emit("rotary", *values, interleaved=interleaved)
                    return cx.out(cx.builder.permute(made, layout))
    return None


def _fits(x: Value, table: Value) -> bool:
    return same_dims(x.ne[:1], table.ne[:1]) and holds(broadcasts_to, table.ne, x.ne) and table.has_dense_rows


def _input(value: Value, index: int) -> Value:
    assert value.producer is not None
    found = value.producer.inputs[index]
    assert found is not None
    return found


def _factors(cx: Context, product: Value) -> list[tuple[Value, Value]]:
    """The operands of a multiplication, in both orders and in the product's layout."""
    base, axes = dense_base(product)
    made = base.producer
    if made is None or not (made.op == "mul" or (made.op == "binary" and made.attrs["kind"] == BinaryKind.MUL)):
        return []
    left, right = (cx.builder.permute(_input(base, index), axes) for index in (0, 1))
    return [(left, right), (right, left)]


def _rotation(cx: Context, rotated: Value, x: Value) -> bool | None:
    """Whether ``rotated`` is x with its halves rotated (False), its pairs (True), or something else (None)."""
    width = x.ne[0]
    made = rotated.producer
    if not isinstance(width, int) or width % 2 != 0 or made is None:
        return None
    interleaved = made.op == "reshape"  # pairs are stacked along a dim of their own
    made = _input(rotated, 0).producer if interleaved else made
    if made is None or made.op != "concat":
        return None
    dim, (negated, kept) = made.attrs["dim"], (value for value in made.inputs if value is not None)
    inner = [size for value in (negated, kept) for size in value.ne[: dim + 1]]
    if not (all(map(is_one, inner)) if interleaved else dim == 0):
        return None
    if interleaved:
        negated, kept = (_input(value, 0) if _is(value, "reshape") else value for value in (negated, kept))
    base, axes = dense_base(negated)
    if not _is(base, "neg"):
        return None
    low, high, step = (0, 1, 2) if interleaved else (0, width // 2, 1)
    opposite = cx.builder.permute(_input(base, 0), axes)
    matches = _is_part(opposite, x, high, step) and _is_part(kept, x, low, step)
    return interleaved if matches else None


def _is(value: Value, op: str) -> bool:
    return value.producer is not None and value.producer.op == op


def _is_part(part: Value, x: Value, start: int, step: int) -> bool:
    """Whether a value is every ``step``-th element of x's rows from ``start`` on, up to half a row of them."""
    while _is(part, "cont") or _is(part, "reshape"):
        part = _input(part, 0)
    if not _is(part, "view") or _input(part, 0) is not x:
        return False
    attrs = part.producer.attrs if part.producer is not None else {}
    whole = same_dims(attrs["ne"], (x.ne[0] // 2, *x.ne[1:])) and same_dims(attrs["start"], (start, 0, 0, 0))
    return whole and tuple(attrs["step"]) == (step, 1, 1, 1)
