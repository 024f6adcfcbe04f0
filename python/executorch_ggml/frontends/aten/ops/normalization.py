"""Normalizations: batch, layer, group and RMS norms, and softmax."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ....ir.dims import as_dim, is_one, ne_of, product
from ....ir.graph import Value
from ....ir.ops.custom import BinaryKind, ReduceKind, UnaryKind
from ..context import FLOATS, Context, Tensor
from ..layout import along
from ..registry import Refused, lowers
from .reduction import averaged, reduced

aten = torch.ops.aten


def _scaled(cx: Context, value: Value, weight: Value | None, bias: Value | None) -> Value:
    """``value * weight + bias``, whichever there are."""
    if weight is not None:
        value = cx.builder.emit("mul", value, weight)
    return value if bias is None else cx.builder.emit("add", value, bias)


def _unused(cx: Context, *indices: int) -> bool:
    """Whether nothing reads these results of a node."""
    return not any(user.args[1] in indices for user in cx.node.users if len(user.args) > 1)


@lowers(aten._native_batch_norm_legit_no_training.default)
def batch_norm(
    cx: Context,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    momentum: float,
    eps: float,
) -> tuple[Tensor | None, ...] | Refused:
    """Inference batch norm: a scale and a shift per channel."""
    del momentum
    if not _unused(cx, 1, 2):
        return Refused("the saved statistics of a batch norm are read")
    if x.rank > 4 and not is_one(x.shape[0]):  # else the outermost dim of four is that of the channels
        x = Tensor(
            cx.builder.reshape(x.value, (product(x.shape[2:]), *x.shape[1::-1])), (*x.shape[:2], product(x.shape[2:]))
        )
    if x.dtype not in FLOATS:
        return Refused("a batch norm that is not of floats")
    affine = scale_and_shift(cx, mean, variance, weight, bias, eps)
    per_channel = ne_of((mean.shape[0], *([1] * (x.rank - 2))))
    scale, shift = (cx.builder.reshape(value, per_channel) for value in affine)
    return cx.rounded(_scaled(cx, cx.f32(x).value, scale, shift), 0), None, None


def scale_and_shift(
    cx: Context, mean: Tensor, variance: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Value, Value]:
    """An inference batch norm as one number a channel to multiply with, and one to add."""
    factor, term = (None if t is None else cx.f32(t).value for t in (weight, bias))
    spread = cx.builder.emit("scale_bias", cx.f32(variance).value, s=1.0, b=float(eps))
    scale = _scaled(cx, cx.builder.emit("unary", spread, kind=UnaryKind.RSQRT), factor, None)
    centre = cx.builder.emit("mul", cx.f32(mean).value, scale)
    return scale, _scaled(cx, cx.builder.emit("neg", centre), None, term)


@lowers(aten._native_batch_norm_legit.no_stats)
def batch_norm_by_batch(
    cx: Context, x: Tensor, weight: Tensor | None, bias: Tensor | None, training: bool, momentum: float, eps: float
) -> tuple[Tensor, ...]:
    """Batch norm by the batch's own mean and variance; instance norms arrive as one."""
    del training, momentum
    return _by_batch(cx, x, weight, bias, eps)[0]


@lowers(aten._native_batch_norm_legit_functional.default)
def batch_norm_in_training(
    cx: Context,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, ...] | Refused:
    """Batch norm by the batch's own mean and variance, and the running ones moved towards them."""
    if not training:
        return Refused("a batch norm that gives its running statistics back unchanged")
    made, moments = _by_batch(cx, x, weight, bias, eps)
    running = []
    for index, (old, new) in enumerate(zip((mean, variance), moments, strict=True), 3):
        kept = cx.builder.emit("scale_bias", cx.f32(old).value, s=1.0 - momentum, b=0.0)
        moved = cx.builder.emit("scale_bias", cx.builder.reshape(new, old.value.ne), s=momentum, b=0.0)
        running.append(cx.out(cx.builder.convert(cx.builder.emit("add", kept, moved), cx.dtype(index)), index))
    return *made, *running


def _by_batch(
    cx: Context, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[tuple[Tensor, ...], tuple[Value, Value]]:
    """The result, the mean and the inverse deviation that were used; the mean and the unbiased variance."""
    build = cx.builder
    shape = (x.shape[0], x.shape[1], product(x.shape[2:]))
    count = product([shape[0], shape[2]])
    value = build.reshape(cx.f32(x).value, ne_of(shape))
    mean = reduced(cx, Tensor(value, shape), [0, 2], ReduceKind.MEAN)
    gaps = build.emit("sub", value, mean)
    squares = reduced(cx, Tensor(build.emit("sqr", gaps), shape), [0, 2], ReduceKind.SUM)
    spread = build.emit("scale_bias", averaged(cx, squares, count, 0), s=1.0, b=float(eps))
    inverse = build.emit("unary", spread, kind=UnaryKind.RSQRT)
    flat = [None if t is None else build.reshape(cx.f32(t).value, (1, shape[1])) for t in (weight, bias)]
    made = _scaled(cx, build.emit("mul", gaps, inverse), flat[0], flat[1])
    results = tuple(cx.out(build.convert(v, cx.dtype(i)), i) for i, v in enumerate((made, mean, inverse)))
    return results, (mean, averaged(cx, squares, count, 1))


def _rows(cx: Context, x: Tensor, normalized: Sequence[int]) -> Value:
    """The tensor with the normalized dims as ``ne[0]`` and all others as ``ne[1]``."""
    inner = product(as_dim(n) for n in normalized)
    outer = product(x.shape[: x.rank - len(normalized)])
    return cx.builder.reshape(cx.f32(x).value, (inner, outer))


def _normalize(
    cx: Context, x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, op: str, eps: float
) -> Value:
    rows = cx.builder.emit(op, _rows(cx, x, shape), eps=float(eps))
    flat = [None if t is None else cx.builder.reshape(cx.f32(t).value, (product(t.shape),)) for t in (weight, bias)]
    return _scaled(cx, rows, flat[0], flat[1])


@lowers(aten.layer_norm.default, preserve=True)
def layer_norm(
    cx: Context,
    x: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor | Refused:
    """Layer norm over the last dims."""
    del cudnn_enable
    return cx.rounded(_normalize(cx, x, normalized_shape, weight, bias, "norm", eps))


@lowers(aten.native_layer_norm.default)
def native_layer_norm(
    cx: Context, x: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor | None, ...] | Refused:
    """Layer norm over the last dims; its statistics are not given."""
    if not _unused(cx, 1, 2):
        return Refused("the statistics of a layer norm are read")
    return cx.rounded(_normalize(cx, x, normalized_shape, weight, bias, "norm", eps), 0), None, None


@lowers(aten.rms_norm.default, preserve=True)
def rms_norm(
    cx: Context, x: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor | Refused:
    """RMS norm over the last dims."""
    epsilon = torch.finfo(torch.float32).eps if eps is None else eps
    return cx.rounded(_normalize(cx, x, normalized_shape, weight, None, "rms_norm", epsilon))


def _group_norm(cx: Context, x: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, eps: float) -> Value:
    """Each group of channels of each sample is one row of ``norm``."""
    n, c = x.shape[0], int(x.shape[1])
    inner = product(x.shape[2:])
    rows = cx.builder.reshape(cx.f32(x).value, (product([inner, c // groups]), product([n, groups])))
    normed = cx.builder.reshape(cx.builder.emit("norm", rows, eps=float(eps)), (inner, c, n))
    flat = [None if t is None else cx.builder.reshape(cx.f32(t).value, (1, c)) for t in (weight, bias)]
    return _scaled(cx, normed, flat[0], flat[1])


@lowers(aten.group_norm.default, preserve=True)
def group_norm(
    cx: Context,
    x: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Tensor | Refused:
    """Group norm."""
    del cudnn_enabled
    if not isinstance(x.shape[1], int):
        return Refused("a group norm over a symbolic number of channels")
    return cx.rounded(_group_norm(cx, x, num_groups, weight, bias, eps))


@lowers(aten.native_group_norm.default)
def native_group_norm(
    cx: Context, x: Tensor, weight: Tensor | None, bias: Tensor | None, n: int, c: int, hxw: int, group: int, eps: float
) -> tuple[Tensor | None, ...] | Refused:
    """Group norm; its statistics are not given."""
    del n, c, hxw
    if x.rank < 2:
        return Refused("a group norm of a tensor without channels")
    if not _unused(cx, 1, 2) or not isinstance(x.shape[1], int):
        return Refused("the statistics of a group norm are read, or its channels are symbolic")
    return cx.rounded(_group_norm(cx, x, group, weight, bias, eps), 0), None, None


def softmax_rows(cx: Context, x: Tensor, dim: int) -> Value:
    """Softmax along a torch dim, computed where that dim is innermost."""
    axes = [0, 1, 2, 3]
    folded, at = along(cx.builder, cx.f32(x), dim)
    axis = folded.axis(at) if x.rank else 0
    axes[0], axes[axis] = axes[axis], axes[0]
    moved = cx.builder.permute(folded.value, axes)
    return cx.builder.permute(cx.builder.emit("soft_max_ext", moved, None, scale=1.0, max_bias=0.0), axes)


@lowers(aten._softmax.default)
def softmax(cx: Context, x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """Softmax."""
    del half_to_float
    return cx.out(cx.builder.convert(softmax_rows(cx, x, dim), cx.dtype()))


@lowers(aten._log_softmax.default)
def log_softmax(cx: Context, x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """``x - max - log(sum(exp(x - max)))``: the logarithm of a softmax would lose small probabilities."""
    del half_to_float
    build = cx.builder
    folded, at = along(build, cx.f32(x), dim)
    value, axes = folded.value, (folded.axis(at) if x.rank else 0,)
    shifted = build.emit(
        "binary", value, build.emit("reduce", value, kind=ReduceKind.MAX, axes=axes), kind=BinaryKind.SUB
    )
    total = build.emit("reduce", build.emit("exp", shifted), kind=ReduceKind.SUM, axes=axes)
    made = build.emit("binary", shifted, build.emit("log", total), kind=BinaryKind.SUB)
    return cx.out(build.convert(made, cx.dtype()))
