"""PyTorch's quantized programs, torchao's and PT2E's: weights kept as integers, and activations that pass through them.

A constant that is dequantized is a constant to what reads it, with eager's very numbers. Where a ggml type holds it
exactly, linear layers and embeddings take its blocks instead (:class:`Integers`). Activations are quantized and
dequantized in floats, step by step as torch does, so that they meet the same integers.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.ao.quantization.fx._decomposed  # declares quantized_decomposed
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Node
from torchao.quantization import quant_primitives  # noqa: F401 - declares torchao

from ....ir.dims import is_one, ne_of, same_dims
from ....ir.dtypes import DType
from ....ir.graph import Value
from ....ir.op import Dim
from ....ir.ops.custom import BinaryKind, ReduceKind, UnaryKind
from ....passes.rewrite import computed_by, input_of
from ..blocks import Blocks, blocks_of
from ..context import FLOATS, NARROW, Context, Tensor
from ..registry import Refused, lowers, overload_of
from ..weights import StoredWeight
from .indexing import on_axis
from .reduction import reduced

aten = torch.ops.aten
decomposed = torch.ops.quantized_decomposed
torchao = torch.ops.torchao

Number = float | Value  # known ahead of time, or computed
INTEGERS = (torch.int8, torch.uint8, torch.int16)
OTHER_BLOCKS = "activations quantized by other blocks than rows, channels and the like"


# ---------------------------------------------------------------------------------------------------------- constants


@dataclass(frozen=True)
class Integers:
    """A constant matrix as torch has it: ``(values - zeros) * scales``, a scale for each run of ``group`` elements.

    ``scales`` and ``zeros`` have one number for the whole matrix, one a row, or one a run of each row.
    """

    values: torch.Tensor
    scales: torch.Tensor
    zeros: torch.Tensor
    group: int

    def blocks(self) -> Blocks | str:
        """As blocks of a ggml type, or why there are none."""
        if not torch.equal(self.zeros, self.zeros.round()):
            return "zero points that are no integers"
        if not torch.equal(self.scales.to(torch.float32).double(), self.scales.double()):
            return "scales in float64 that float32 does not hold"
        runs = (self.values.shape[0], self.values.shape[1] // self.group)
        offsets = _by_run(self.zeros.to(torch.int32), runs).repeat_interleave(self.group, dim=1)
        return blocks_of(self.values.to(torch.int32) - offsets, _by_run(self.scales, runs).to(torch.float32))


def _by_run(numbers: torch.Tensor, runs: tuple[int, int]) -> torch.Tensor:
    """One number for all, one a row, or one a run, as one a run."""
    return numbers.reshape(-1, 1 if numbers.numel() < math.prod(runs) else runs[1]).expand(runs)


def _with_blocks(
    cx: Context, dequantized: Tensor, values: Tensor, scales: Any, zeros: Any, group: int | None
) -> Tensor:
    """A dequantized constant, and how it is to be stored where a ggml type holds it; ``group`` None: not by rows.

    The contents are looked at when the program is written: they are fake before.
    """
    parts = [_contents(part) for part in (values, scales, 0 if zeros is None else zeros)]
    matrix = values.rank == 2 and group is not None and 0 not in values.shape and int(values.shape[1]) % group == 0
    if group is None or not matrix or not cx.integer_weights or _is_fake(*parts):
        return dequantized
    name = re.sub(r"\.parametrizations\.(\w+)\.original0$", r".\1", values.key)  # where torchao unwraps a parameter
    on_a_grid = "it meets activations that the model quantizes"
    blocks = on_a_grid if _meets_integers(cx) else Integers(parts[0], parts[1], parts[2], group).blocks()
    if isinstance(blocks, str):
        cx.note(f"{name} is kept in {dequantized.dtype.name.lower()}: {blocks}")
        return dequantized
    loss = "without loss" if blocks.is_exact else "with scales rounded to float16 (by 0.05 % at most)"
    cx.note(f"{name} is kept in {blocks.dtype.name.lower()}, {loss}")
    return replace(dequantized, stored=_stored(blocks))


def widened(cx: Context, weight: Tensor) -> Tensor:
    """A matrix of integers that is cast to floats, as a constant where it is one; other matrices as they are."""
    cast = weight.value.producer
    source = cast.inputs[0] if cast is not None and cast.op == "convert" else None
    integers = None if source is None else constant_behind(cx, replace(weight, value=source))
    if integers is None or integers.dtype not in NARROW or integers.rank != 2:
        return weight
    dequantized = cx.derived("widened", [integers], [int(n) for n in weight.shape], lambda w: w, weight.dtype)
    return _with_blocks(cx, dequantized, integers, 1.0, None, int(weight.shape[1]))


def rearranged(
    cx: Context,
    weight: Tensor,
    key: str,
    shape: Sequence[int],
    move: Callable[[torch.Tensor], torch.Tensor],
    channels: Callable[[int], tuple[int, int] | None],
) -> Tensor:
    """A constant weight whose elements are moved; one that is dequantized is moved as integers too, for the passes.

    ``channels`` says of a dim that has one scale an index which dim that becomes, and how many times over; None: none.
    """
    moved = cx.derived(key, [weight], shape, move)
    node = weight.value.producer
    if node is None or node.op != "dequantize" or node.inputs[0] is None:
        return moved
    integers = constant_behind(cx, replace(weight, value=node.inputs[0]))
    scales = node.inputs[1]
    if integers is None:
        return moved
    if scales is not None:
        scales = _scales_along(cx, weight, scales, key, len(shape), channels)
        if scales is None:
            return moved
    integers = cx.derived(key, [replace(integers, shape=weight.shape)], shape, move)
    return replace(moved, value=cx.builder.emit("dequantize", integers.value, scales, **node.attrs))


def _scales_along(
    cx: Context, weight: Tensor, scales: Value, key: str, rank: int, channels: Callable[[int], tuple[int, int] | None]
) -> Value | None:
    """The scales of a weight's channels, along the dim that these become."""
    dims = [dim for dim in range(weight.rank) if not is_one(scales.ne[weight.axis(dim)])]
    place = channels(dims[0]) if len(dims) == 1 else None
    line = input_of(scales, 0) if computed_by(scales, "reshape") else scales
    numbers = constant_behind(cx, replace(weight, value=line))
    if place is None or numbers is None:
        return None
    dim, times = place
    count = times * int(scales.ne[weight.axis(dims[0])])
    repeated = cx.derived(key, [numbers], [count], lambda values: values.flatten().repeat(times))
    return on_axis(cx, repeated.value, rank - 1 - dim)


def constant_behind(cx: Context, tensor: Tensor) -> Tensor | None:
    """The constant that a value is, where views that were undone had hidden it."""
    for constant in cx.builder.graph.constants:
        if constant.value is tensor.value and constant.data is not None:
            return replace(tensor, data=constant.data, key=constant.key)
    return None


def _stored(blocks: Blocks) -> StoredWeight:
    factor = blocks.factor
    return StoredWeight(blocks.dtype, lambda: blocks.data, factor=None if factor is None else lambda: factor)


def _contents(operand: Any) -> torch.Tensor:
    if isinstance(operand, Tensor):
        assert operand.data is not None
        return operand.data()
    return torch.tensor([operand])


def _is_fake(*tensors: torch.Tensor) -> bool:
    return any(isinstance(tensor, FakeTensor) for tensor in tensors)


def _is_integer_weight(cx: Context, x: Tensor) -> bool:
    """Whether a constant is a layer's weight in int8: passes choose between a layer of integers and one of floats."""
    return x.dtype == DType.I8 and 2 <= x.rank <= 4 and cx.dtype() == DType.F32 and _meets_integers(cx)


def _is_symmetric(zero_points: Tensor | None) -> bool:
    """Whether all zero points are 0, which is taken as given while contents are fake."""
    if zero_points is None:
        return True
    contents = _contents(zero_points)
    return _is_fake(contents) or not bool(contents.any())


def _meets_integers(cx: Context) -> bool:
    """Whether the weight is for activations that PT2E put on a grid: ggml would put them on another one again."""
    for user in cx.node.users:
        other = user.args[0] if user.args else None
        while isinstance(other, Node) and overload_of(other) in _VIEWS:
            other = other.args[0]
        if isinstance(other, Node) and other is not cx.node and overload_of(other) in _ON_A_GRID:
            return True
    return False


_VIEWS = frozenset(
    {aten.view_copy.default, aten.permute_copy.default, aten.view.default, aten.reshape.default, aten.permute.default}
)
_ON_A_GRID = frozenset(
    {
        decomposed.dequantize_per_tensor.default,
        decomposed.dequantize_per_tensor.tensor,
        decomposed.dequantize_per_channel.default,
        decomposed.dequantize_per_token.default,
    }
)


def _is_constant(*operands: Any) -> bool:
    return all(operand.data is not None for operand in operands if isinstance(operand, Tensor))


def _folded(cx: Context, *args: Any, **kwargs: Any) -> Tensor:
    """A constant dequantized ahead of time by torch's own kernel, called with these arguments."""
    overload = overload_of(cx.node)
    tensors = [arg for arg in args if isinstance(arg, Tensor)]

    def contents(*given: torch.Tensor) -> torch.Tensor:
        source = iter(given)
        made: torch.Tensor = overload(*(next(source) if isinstance(arg, Tensor) else arg for arg in args), **kwargs)
        return made

    how = repr([arg for arg in args if not isinstance(arg, Tensor)])
    key = f"dequantized{hashlib.sha256(how.encode()).hexdigest()[:8]}"
    return cx.derived(key, tensors, [int(n) for n in args[0].shape], contents, cx.dtype())


# --------------------------------------------------------------------------------------------- one scale for a tensor


@lowers(decomposed.dequantize_per_tensor.default, folds=True)
def dequantize_per_tensor(
    cx: Context,
    x: Tensor,
    scale: float,
    zero_point: int,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
) -> Tensor | Refused:
    """``(x - zero_point) * scale``."""
    if _is_constant(x):
        dequantized = _folded(cx, x, scale, zero_point, quant_min, quant_max, dtype, out_dtype=out_dtype)
        if _is_integer_weight(cx, x):
            return replace(dequantized, value=_one_scale(cx, x, scale, zero_point))
        return _with_blocks(cx, dequantized, x, scale, zero_point, _columns(x))
    if x.dtype in NARROW and cx.dtype() == DType.F32:
        return cx.out(_one_scale(cx, x, scale, zero_point))
    return _dequantized(cx, x, float(scale), float(zero_point))


def _one_scale(cx: Context, x: Tensor, scale: float, zero_point: int) -> Value:
    return cx.builder.emit("dequantize", x.value, None, scale=scale, zero=zero_point)


@lowers(decomposed.dequantize_per_tensor.tensor, folds=True)
def dequantize_per_tensor_tensor(
    cx: Context,
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
) -> Tensor | Refused:
    """``(x - zero_point) * scale``, these being tensors of one element."""
    if _is_constant(x, scale, zero_point):
        dequantized = _folded(cx, x, scale, zero_point, quant_min, quant_max, dtype, out_dtype=out_dtype)
        return _with_blocks(cx, dequantized, x, scale, zero_point, _columns(x))
    return _dequantized(cx, x, _one(cx, scale), _one(cx, zero_point))


@lowers(decomposed.quantize_per_tensor.default)
def quantize_per_tensor(
    cx: Context, x: Tensor, scale: float, zero_point: int, quant_min: int, quant_max: int, dtype: torch.dtype
) -> Tensor | Refused:
    """``round(x / scale) + zero_point``, limited to the type's range."""
    if scale == 0:
        return Refused("a scale of 0")
    if x.dtype == DType.F32 and cx.dtype() in NARROW:
        grid = {"inverse": 1.0 / scale, "zero": zero_point, "low": quant_min, "high": quant_max}
        return cx.out(cx.builder.emit("quantize", x.value, **grid, dtype=cx.dtype()))
    return _quantized(cx, x, 1.0 / scale, float(zero_point), (quant_min, quant_max))


@lowers(decomposed.quantize_per_tensor.tensor)
def quantize_per_tensor_tensor(
    cx: Context, x: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int, dtype: torch.dtype
) -> Tensor | Refused:
    """``round(x / scale) + zero_point``, limited to the type's range, these being tensors of one element."""
    # torch divides in float64, which for a divisor of 24 bits gives what division in float32 gives
    inverse = cx.builder.emit("div", cx.builder.scalar(1.0, DType.F32), _one(cx, scale))
    return _quantized(cx, x, inverse, _one(cx, zero_point), (quant_min, quant_max))


def _one(cx: Context, tensor: Tensor) -> Value:
    """A tensor of one element, as an f32 scalar."""
    return cx.builder.reshape(cx.tensor(tensor, DType.F32).value, ())


def _columns(x: Tensor) -> int | None:
    return int(x.shape[1]) if x.rank == 2 else None


# -------------------------------------------------------------------------------- one scale for each index of some dim


@lowers(decomposed.dequantize_per_channel.default, folds=True)
def dequantize_per_channel(
    cx: Context,
    x: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
) -> Tensor | Refused:
    """``(x - zero_points) * scales``, one of these for each index of one dim."""
    if _is_constant(x, scales, zero_points):
        dequantized = _folded(cx, x, scales, zero_points, axis, quant_min, quant_max, dtype, out_dtype=out_dtype)
        if _is_integer_weight(cx, x) and _is_symmetric(zero_points) and scales.dtype == DType.F32:
            along = on_axis(cx, scales.value, x.axis(axis))
            return replace(dequantized, value=cx.builder.emit("dequantize", x.value, along, scale=1.0, zero=0))
        return _with_blocks(cx, dequantized, x, scales, zero_points, _columns(x) if axis == 0 else None)
    if x.rank > 4 or scales.dtype not in FLOATS:
        return Refused(f"one scale a channel of {x.rank} dims, in {scales.dtype.name.lower()}")
    zeros = 0.0 if zero_points is None else _lying_along(cx, zero_points, x.axis(axis))
    return _dequantized(cx, x, _lying_along(cx, scales, x.axis(axis)), zeros)


@lowers(decomposed.quantize_per_channel.default)
def quantize_per_channel(
    cx: Context,
    x: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
) -> Tensor | Refused:
    """``round(x / scales) + zero_points``, one of these for each index of one dim."""
    if x.rank > 4 or scales.dtype != DType.F32:
        return Refused(f"one scale a channel of {x.rank} dims, in {scales.dtype.name.lower()}")
    at = x.axis(axis)
    inverse = cx.builder.emit("unary", _lying_along(cx, scales, at), kind=UnaryKind.RECIPROCAL)
    return _quantized(cx, x, inverse, _lying_along(cx, zero_points, at), (quant_min, quant_max))


def _lying_along(cx: Context, line: Tensor, axis: int) -> Value:
    return on_axis(cx, cx.tensor(line, DType.F32).value, axis)


# ------------------------------------------------------------------------------------------- one scale for each row


@lowers(decomposed.dequantize_per_token.default, folds=True)
def dequantize_per_token(
    cx: Context,
    x: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    output_dtype: torch.dtype,
) -> Tensor | Refused:
    """``(x - zero_points) * scales``, one of these for each row."""
    if _is_constant(x, scales, zero_points):
        dequantized = _folded(cx, x, scales, zero_points, quant_min, quant_max, dtype, output_dtype)
        return _with_blocks(cx, dequantized, x, scales, zero_points, _columns(x))
    if not _is_column(scales, x) or not _is_column(zero_points, x):
        return Refused("one scale a row, in another shape than the rows'")
    return _dequantized(cx, x, cx.tensor(scales, DType.F32).value, cx.tensor(zero_points, DType.F32).value)


@lowers(decomposed.quantize_per_token.default)
def quantize_per_token(
    cx: Context, x: Tensor, scales: Tensor, zero_points: Tensor, quant_min: int, quant_max: int, dtype: torch.dtype
) -> Tensor | Refused:
    """``round(x / scales + zero_points)``, one of these for each row."""
    if not _is_column(scales, x) or not _is_column(zero_points, x):
        return Refused("one scale a row, in another shape than the rows'")
    if not {x.dtype, scales.dtype} <= {DType.F32}:
        return Refused(f"rounding {x.dtype.name.lower()} by a scale in {scales.dtype.name.lower()}")
    inverse = cx.builder.emit("unary", scales.value, kind=UnaryKind.RECIPROCAL)
    zeros = cx.tensor(zero_points, DType.F32).value
    return _quantized(cx, x, inverse, zeros, (quant_min, quant_max), round_last=True)


def _is_column(numbers: Tensor, x: Tensor) -> bool:
    return x.rank <= 4 and same_dims(numbers.shape, (*x.shape[:-1], 1))


# ------------------------------------------------------------------------------------------------- by runs, by blocks


@lowers(decomposed.dequantize_per_channel_group.default, folds=True)
def dequantize_per_channel_group(
    cx: Context,
    x: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    group_size: int,
    output_dtype: torch.dtype,
) -> Tensor | Refused:
    """``(x - zero_points) * scales``, one of these for each run of a constant matrix's rows."""
    if not _is_constant(x, scales, zero_points):
        return Refused("a matrix quantized by groups that is not constant")
    dequantized = _folded(cx, x, scales, zero_points, quant_min, quant_max, dtype, group_size, output_dtype)
    return _with_blocks(cx, dequantized, x, scales, zero_points, min(group_size, int(x.shape[-1])))


@lowers(torchao.dequantize_affine.default, folds=True)
def dequantize_affine(
    cx: Context,
    x: Tensor,
    block_size: Sequence[int],
    scale: Tensor,
    zero_point: Tensor | None,
    input_dtype: torch.dtype,
    quant_min: float | None = None,
    quant_max: float | None = None,
    output_dtype: torch.dtype = torch.float32,
) -> Tensor | Refused:
    """``(x - zero_point) * scale``, one of these for each block."""
    if _is_constant(x, scale, zero_point):
        dequantized = _folded(cx, x, block_size, scale, zero_point, input_dtype, quant_min, quant_max, output_dtype)
        by_rows = x.rank == 2 and (block_size[0] == 1 or list(block_size) == list(x.shape))
        return _with_blocks(cx, dequantized, x, scale, zero_point, int(block_size[1]) if by_rows else None)
    shape = _runs(x, block_size)
    if shape is None or scale.dtype != cx.dtype():
        return Refused(OTHER_BLOCKS)
    zero = 0.0 if zero_point is None else _shaped(cx, zero_point, shape)
    return _dequantized(cx, x, _shaped(cx, scale, shape), zero)


@lowers(torchao.quantize_affine.default)
def quantize_affine(
    cx: Context,
    x: Tensor,
    block_size: Sequence[int],
    scale: Tensor,
    zero_point: Tensor | None,
    output_dtype: torch.dtype,
    quant_min: float | None = None,
    quant_max: float | None = None,
) -> Tensor | Refused:
    """``round(x / scale) + zero_point`` between two bounds, one of these for each block."""
    shape = _runs(x, block_size)
    if shape is None or zero_point is None or scale.dtype not in FLOATS or output_dtype not in INTEGERS:
        return Refused(OTHER_BLOCKS)
    bounds = _bounds(output_dtype, quant_min, quant_max)
    inverse = cx.builder.emit("unary", _shaped(cx, scale, shape), kind=UnaryKind.RECIPROCAL)
    inverse = _in_type(cx, inverse, scale.dtype)
    steps_in = x.dtype if x.dtype == scale.dtype else DType.F32
    return _quantized(cx, x, inverse, _shaped(cx, zero_point, shape), bounds, steps_in=steps_in)


def _bounds(dtype: torch.dtype, low: float | None, high: float | None) -> tuple[float, float]:
    """The range given, or the type's."""
    range_ = torch.iinfo(dtype)
    return float(range_.min if low is None else low), float(range_.max if high is None else high)


def _runs(x: Tensor, block_size: Sequence[int]) -> tuple[Dim, ...] | None:
    """How many blocks lie along each dim, where a block has all of a dim or one of it; None where it does not."""
    whole = [same_dims([n], [block]) for n, block in zip(x.shape, block_size, strict=True)]
    if x.rank > 4 or not all(all_of or block == 1 for all_of, block in zip(whole, block_size, strict=True)):
        return None
    return tuple(1 if all_of else n for all_of, n in zip(whole, x.shape, strict=True))


def _shaped(cx: Context, numbers: Tensor, shape: Sequence[Dim]) -> Value:
    return cx.builder.reshape(cx.tensor(numbers, DType.F32).value, shape[::-1])


# ------------------------------------------------------------------------------------------- scales from the contents


@dataclass(frozen=True)
class Target:
    """The integers to quantize to, the smallest scale, and the float type that torch does each step in."""

    low: float
    high: float
    eps: float
    steps_in: DType = DType.F32


@lowers(decomposed.choose_qparams.tensor)
def choose_qparams(
    cx: Context, x: Tensor, quant_min: int, quant_max: int, eps: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor] | Refused:
    """The scale and zero point that a tensor's range, with 0 in it, asks for."""
    if x.dtype != DType.F32:
        return Refused(f"the range of a tensor in {x.dtype.name.lower()}")
    return _asymmetric(cx, *_range(cx, x, None), Target(quant_min, quant_max, eps))


@lowers(decomposed.choose_qparams_symmetric.tensor)
def choose_qparams_symmetric(
    cx: Context, x: Tensor, quant_min: int, quant_max: int, eps: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor] | Refused:
    """The scale that a tensor's largest magnitude asks for, and the type's middle as zero point."""
    if x.dtype != DType.F32:
        return Refused(f"the range of a tensor in {x.dtype.name.lower()}")
    middle = 128 if dtype == torch.uint8 else 0
    return _symmetric(cx, *_range(cx, x, None), Target(quant_min, quant_max, eps), middle)


@lowers(torchao.choose_qparams_affine.default)
def choose_qparams_affine(
    cx: Context,
    x: Tensor,
    mapping_type: str,
    block_size: Sequence[int],
    target_dtype: torch.dtype,
    quant_min: float | None = None,
    quant_max: float | None = None,
    eps: float | None = None,
    scale_dtype: torch.dtype | None = None,
    zero_point_dtype: torch.dtype | None = None,
    keepdim: bool = False,
) -> tuple[Tensor, Tensor] | Refused:
    """The scale and zero point that each block's range, with 0 in it, asks for."""
    dims = [dim for dim, block in enumerate(block_size) if block != 1]
    if _runs(x, block_size) is None or not dims or x.dtype not in FLOATS or target_dtype not in INTEGERS:
        return Refused(OTHER_BLOCKS)
    low, high = _bounds(target_dtype, quant_min, quant_max)
    smallest = torch.finfo(x.dtype.torch).smallest_normal if eps is None else eps
    target = Target(low, high, smallest, x.dtype)
    span = _range(cx, x, dims)
    if mapping_type == "ASYMMETRIC":
        return _asymmetric(cx, *span, target)
    return _symmetric(cx, *span, target, int((high + low + 1) / 2), each_side=mapping_type != "SYMMETRIC")


def _range(cx: Context, x: Tensor, dims: Sequence[int] | None) -> tuple[Value, Value]:
    """The lowest and the highest element over some dims, 0 among them."""
    low, high = (reduced(cx, cx.f32(x), dims, kind) for kind in (ReduceKind.MIN, ReduceKind.MAX))
    low = cx.builder.emit("clamp", low, min=-math.inf, max=0.0)
    return low, cx.builder.emit("clamp", high, min=0.0, max=math.inf)


def _asymmetric(cx: Context, low: Value, high: Value, target: Target) -> tuple[Tensor, Tensor]:
    """All steps for the range."""
    width = _in_type(cx, cx.builder.emit("sub", high, low), target.steps_in)
    scale = _scale(cx, width, target.high - target.low, target)
    steps = _in_type(cx, cx.builder.emit("div", low, scale), target.steps_in)
    steps = cx.builder.emit("unary", steps, kind=UnaryKind.ROUND)
    zero = _in_type(cx, cx.builder.emit("scale_bias", steps, s=-1.0, b=target.low), target.steps_in)
    return cx.rounded(scale, 0), cx.rounded(cx.builder.emit("clamp", zero, min=target.low, max=target.high), 1)


def _symmetric(
    cx: Context, low: Value, high: Value, target: Target, middle: int, *, each_side: bool = False
) -> tuple[Tensor, Tensor]:
    """Half of the steps for the larger magnitude, or those of each side for its own."""
    below, above = cx.builder.emit("neg", low), high
    if each_side:
        below, above = _scale(cx, below, -target.low, target), _scale(cx, above, target.high, target)
    scale = cx.builder.emit("binary", below, above, kind=BinaryKind.MAXIMUM)
    if not each_side:
        scale = _scale(cx, scale, (target.high - target.low) / 2, target)
    return cx.rounded(scale, 0), cx.out(cx.builder.fill(ne_of(cx.shape(1)), middle, cx.dtype(1)), 1)


def _scale(cx: Context, width: Value, steps: float, target: Target) -> Value:
    scale = _in_type(cx, cx.builder.emit("div", width, cx.builder.scalar(steps, DType.F32)), target.steps_in)
    return cx.builder.emit("binary", scale, cx.builder.scalar(target.eps, DType.F32), kind=BinaryKind.MAXIMUM)


# ----------------------------------------------------------------------------------------------------------- the steps


def _quantized(
    cx: Context,
    x: Tensor,
    inverse: Number,
    zero: Number,
    bounds: tuple[float, float],
    *,
    steps_in: DType = DType.F32,
    round_last: bool = False,
) -> Tensor | Refused:
    """``round(x * inverse) + zero`` (or rounded after the sum) between two bounds, as integers."""
    if x.dtype not in FLOATS:
        return Refused(f"quantizing {x.dtype.name.lower()}")
    if cx.dtype() not in NARROW:
        return Refused(f"activations as {cx.dtype().name.lower()}, which float32 does not count to")

    def whole(value: Value) -> Value:
        return cx.builder.emit("unary", value, kind=UnaryKind.ROUND)

    def formula(value: Value, inverse: Number, zero: Number) -> Value:
        value = _in_type(cx, _times(cx, value, inverse), steps_in)
        value = whole(_plus(cx, value, zero)) if round_last else _plus(cx, whole(value), zero)
        return cx.builder.emit("clamp", _in_type(cx, value, steps_in), min=float(bounds[0]), max=float(bounds[1]))

    return _in_steps(cx, x, formula, inverse, zero)


def _dequantized(cx: Context, x: Tensor, scale: Number, zero: Number) -> Tensor | Refused:
    """``(x - zero) * scale``, each step in the result's type."""
    if x.dtype not in NARROW | {DType.I32}:
        return Refused(f"dequantizing {x.dtype.name.lower()}")
    dtype = cx.dtype()

    def formula(value: Value, scale: Number, zero: Number) -> Value:
        negated = -zero if isinstance(zero, float) else cx.builder.emit("neg", zero)
        return _times(cx, _in_type(cx, _plus(cx, _in_type(cx, value, dtype), negated), dtype), scale)

    return _in_steps(cx, x, formula, scale, zero)


def _in_type(cx: Context, value: Value, dtype: DType) -> Value:
    """An f32 value with no more digits than a type has."""
    return cx.builder.convert(cx.builder.convert(value, dtype), DType.F32)


def _in_steps(cx: Context, x: Tensor, formula: Callable[..., Value], *numbers: Number) -> Tensor:
    """A formula of a tensor and numbers, in f32."""
    return Tensor(cx.builder.convert(formula(cx.f32(x).value, *numbers), cx.dtype()), cx.shape())


def _times(cx: Context, value: Value, factor: Number) -> Value:
    if isinstance(factor, float):
        return cx.builder.emit("scale_bias", value, s=factor, b=-0.0)
    return cx.builder.emit("mul", value, factor)


def _plus(cx: Context, value: Value, addend: Number) -> Value:
    if isinstance(addend, float):
        return value if addend == 0 else cx.builder.emit("scale_bias", value, s=1.0, b=addend)
    return cx.builder.emit("add", value, addend)
