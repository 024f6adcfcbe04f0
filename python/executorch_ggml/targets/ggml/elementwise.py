"""Elementwise ops: computed where their operands lie, so that permutations move on towards the outputs."""

from __future__ import annotations

from ...ir._lazy import torch
from ...ir.builder import IDENTITY, Builder
from ...ir.dims import product, same_dims
from ...ir.dtypes import DType
from ...ir.formulas import broadcast_dims, broadcasts_to, holds
from ...ir.graph import Node, Value
from ...ir.layout import common_layout, unbroadcast
from ...ir.op import Dims
from ...ir.ops import OPS
from ...ir.ops.custom import ROUNDED_TO, BinaryKind, UnaryKind
from ...passes.rewrite import Rewriter, present
from .rules import dims_before, elementwise_base, shared_layout, stock, with_dense_rows

_UNARY = tuple(
    name
    for name, spec in OPS.items()
    if 30 <= spec.number < 56 and [wanted.name for wanted in spec.inputs] == ["a"]  # elementwise.py's numbers
)
_GATES = ("swiglu_split", "geglu_split", "geglu_erf_split")
_ARITHMETIC = {BinaryKind.ADD: "add", BinaryKind.SUB: "sub", BinaryKind.MUL: "mul", BinaryKind.DIV: "div"}


@stock(*_UNARY)
def unary_op(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value:
    """One operand: computed on the dense tensor that it is a view of."""
    builder = rewriter.builder
    base, axes = elementwise_base(builder, present(inputs)[0])
    return builder.permute(builder.emit(node.op, base, **node.attrs), axes)


@stock(*_GATES)
def gate(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value:
    """Two operands of one shape, both dense."""
    axes, values = shared_layout(rewriter.builder, present(inputs), node.output.ne)
    dense = [rewriter.builder.cont(value) for value in values]
    return rewriter.builder.permute(rewriter.builder.emit(node.op, *dense), axes)


@stock("add", "sub", "mul", "div")
def binary_op(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    """Two operands, the second one broadcast over the first, in the layout of the first permuted one."""
    a, b = present(inputs)
    return arithmetic(rewriter.builder, node.op, a, b) if a.dtype == DType.F32 else None


@stock("binary")
def any_binary(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    """Arithmetic on f32, broadcast both ways, squares and cubes."""
    a, b = present(inputs)
    builder, kind = rewriter.builder, node.attrs["kind"]
    if a.dtype != DType.F32:
        return None
    if kind in _ARITHMETIC:
        return arithmetic(builder, _ARITHMETIC[kind], a, b)
    exponent = _number(node.inputs[1]) if kind == BinaryKind.POW and same_dims(a.ne, node.output.ne) else None
    if exponent not in (2.0, 3.0):
        return None
    base, axes = elementwise_base(builder, a)
    square = builder.emit("sqr", base)
    return builder.permute(square if exponent == 2.0 else builder.emit("mul", square, base), axes)


def _number(value: Value | None) -> float | None:
    """The one number that an f32 tensor is filled with, or None."""
    node = None if value is None else value.producer
    return node.attrs["value"] if node is not None and node.op == "fill" else None


def arithmetic(builder: Builder, op: str, a: Value, b: Value) -> Value:
    """``a + b`` and so on, of f32, broadcast as far as it must be."""
    ne = broadcast_dims(a.ne, b.ne)
    axes, (left, right) = shared_layout(builder, [unbroadcast(a), unbroadcast(b)], ne)
    wide = dims_before(axes, ne)
    if op in ("add", "mul") and not same_dims(left.ne, wide) and same_dims(right.ne, wide):
        left, right = right, left
    if not same_dims(left.ne, wide):
        left = builder.broadcast(with_dense_rows(builder, left), wide)
    if not holds(broadcasts_to, right.ne, wide):
        right = builder.broadcast(with_dense_rows(builder, right), wide)
    result = builder.emit(op, with_dense_rows(builder, left), with_dense_rows(builder, right))
    return builder.permute(result, axes)


@stock("unary")
def any_unary(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    """Functions of f32 that ggml has, or that two of its ops make."""
    (a,) = present(inputs)
    if a.dtype != DType.F32:
        return None
    builder = rewriter.builder
    base, axes = elementwise_base(builder, a)
    names = {UnaryKind.NEG: "neg", UnaryKind.ABS: "abs", UnaryKind.SIGN: "sgn"}
    kind = node.attrs["kind"]
    if kind in names:
        result = builder.emit(names[kind], base)
    elif kind == UnaryKind.RECIPROCAL:
        result = _reciprocal(builder, base)
    elif kind in ROUNDED_TO:
        result = builder.emit("convert", builder.emit("convert", base, dtype=ROUNDED_TO[kind]), dtype=DType.F32)
    elif kind == UnaryKind.RSQRT:
        result = _reciprocal(builder, builder.emit("sqrt", base))
    else:
        return None
    return builder.permute(result, axes)


def _reciprocal(builder: Builder, a: Value) -> Value:
    return builder.emit("div", filled(builder, a.ne, 1.0), a)


def filled(builder: Builder, ne: Dims, number: float) -> Value:
    """One f32 number everywhere: a constant of one element, repeated on the device."""
    one = builder.constant(f"number.{number!r}", DType.F32, (1, 1, 1, 1), lambda: torch.tensor([number]))
    return builder.broadcast(one, ne)


@stock("fill")
def fill(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    """Numbers of f32 come from a constant, so that none crosses at each call."""
    del inputs
    if node.attrs["dtype"] != DType.F32:
        return None
    return filled(rewriter.builder, node.attrs["ne"], node.attrs["value"])


@stock("convert")
def convert(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    """Between float types: where the tensor lies that it is a view of."""
    (a,) = present(inputs)
    builder, dtype = rewriter.builder, node.attrs["dtype"]
    if not OPS["convert"].has_stock_form([a], node.attrs):
        return None
    base, axes = elementwise_base(builder, a)
    return builder.permute(builder.emit("convert", base, dtype=dtype), axes)


@stock("broadcast")
def broadcast(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    """Repetition of f32, in the layout of the operand."""
    (a,) = present(inputs)
    if a.dtype != DType.F32:
        return None
    builder = rewriter.builder
    axes, (base,) = common_layout(builder, [a])
    ne = node.attrs["ne"]
    return builder.permute(builder.broadcast(with_dense_rows(builder, base), dims_before(axes, ne)), axes)


@stock("concat")
def concat(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    """Joined in the layout of the first permuted operand."""
    values = present(inputs)
    if not OPS["concat"].has_stock_form(values, node.attrs):
        return None
    builder = rewriter.builder
    axes, (left, right) = common_layout(builder, values)
    dim = axes.index(node.attrs["dim"])
    joined = builder.emit("concat", with_dense_rows(builder, left), with_dense_rows(builder, right), dim=dim)
    return builder.permute(joined, axes)


@stock("rotary")
def rotary(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value:
    """``x * cos + rotated(x) * sin``, rows rotated by views of their halves, or of every other element."""
    builder = rewriter.builder
    operands = present(inputs)
    axes, (x, cos, sin) = common_layout(builder, operands)
    if axes[0] != 0:
        axes, (x, cos, sin) = IDENTITY, list(operands)
    half = x.ne[0] // 2
    if node.attrs["interleaved"]:
        pairs = builder.reshape(builder.cont(x), (2, half, x.ne[1], product(x.ne[2:])))
        ne = (1, *pairs.ne[1:])
        first, second = builder.view(pairs, (0, 0, 0, 0), ne), builder.view(pairs, (1, 0, 0, 0), ne)
    else:
        pairs, ne = x, (half, *x.ne[1:])
        first, second = builder.view(pairs, (0, 0, 0, 0), ne), builder.view(pairs, (half, 0, 0, 0), ne)
    negated = builder.emit("neg", builder.cont(second))
    rotated = builder.reshape(builder.emit("concat", negated, with_dense_rows(builder, first), dim=0), x.ne)
    result = arithmetic(builder, "add", arithmetic(builder, "mul", x, cos), arithmetic(builder, "mul", rotated, sin))
    return builder.permute(result, axes)
