"""Which nodes can be exported, and the forms that exporters take where an op's reference function is not one.

A reference may look at data (is an index in range?) or walk through it element by element: that is no graph. Here such
an op is written anew, for a *trace*: what it would raise an error for becomes a condition that the exported program
computes beside its outputs. Each form is tested to equal the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ...ir.dtypes import DType
from ...ir.graph import Node, Value
from ...ir.op import Dims
from ...ir.ops import OPS
from ...ir.ops.custom import BinaryKind, ReduceKind, UnaryKind
from ...ir.ops.indexing import ScatterKind
from ...ir.ops.matrix import softmax_of_bfloats
from ...ir.ops.movement import shape_of
from ...ir.ops.spatial import (
    Epilogue,
    PoolKind,
    Window,
    Window2d,
    Window3d,
    activate,
    far_pad,
    planes,
)

MAX_WRITES = 32  # writes, one after the other, of a scatter whose indices differ in every place

Translation = Callable[..., Tensor]
Check = Callable[[Node], "str | None"]


class Trace:
    """What a run of the exported program has to find true, for its outputs to mean anything."""

    def __init__(self) -> None:
        self.failures: list[Tensor] = []

    def require(self, condition: Tensor) -> None:
        """Say that the run is void where the condition does not hold for all elements."""
        self.failures.append((~condition).reshape(-1).to(torch.int32).amax(0, keepdim=True))

    def failed(self) -> Tensor:
        """One number, 1 where something that was required did not hold."""
        return torch.cat(self.failures).amax(0, keepdim=True)


TRANSLATIONS: dict[str, Translation] = {}
GUARDED: set[str] = set()  # ops whose translation requires something of the data
CHECKS: dict[str, Check] = {}  # of ops that are exported for some arguments only: the reason why not, or None

# Their references are what is exported.
_AS_REFERENCE = """
    permute concat pad_ext add sub mul div sqr sqrt log sin cos abs neg tanh elu relu sigmoid gelu gelu_erf silu
    hardswish hardsigmoid exp softplus floor ceil leaky_relu scale_bias clamp swiglu_split geglu_split
    geglu_erf_split norm rms_norm soft_max_ext diag_mask_inf sum_rows mean cumsum interpolate
    interpolate_nhwc grid_sample_nhwc iota fill rotary max_pool_index_nhwc lstm_cell gru_cell
"""
AS_REFERENCE = frozenset(_AS_REFERENCE.split())


def translates(*ops: str, guarded: bool = False) -> Callable[[Translation], Translation]:
    """Register the form of these ops that is exported: ``(trace, *inputs, **attributes)``."""

    def register(function: Translation) -> Translation:
        for name in ops:
            if name not in OPS:
                raise ValueError(f"translation of {name}: there is no such op")
            if name in TRANSLATIONS or name in AS_REFERENCE:
                raise ValueError(f"translation of {name}: there is one already")
            TRANSLATIONS[name] = function
        if guarded:
            GUARDED.update(ops)
        return function

    return register


def _checks(*ops: str) -> Callable[[Check], Check]:
    def register(function: Check) -> Check:
        CHECKS.update(dict.fromkeys(ops, function))
        return function

    return register


def is_guarded(node: Node) -> bool:
    """Whether a node's translation requires something of its data: indices in range, numbers that have an order."""
    return node.op in GUARDED or (node.op == "sort" and _given(node.inputs[0]).dtype.is_floating)


def exported_ops() -> list[str]:
    """The ops that are exported, for some arguments at least, in the table's order."""
    return [name for name in OPS if name in TRANSLATIONS or name in AS_REFERENCE]


def refusal(node: Node) -> str | None:
    """Why a node is not exported, or None."""
    if node.op not in TRANSLATIONS and node.op not in AS_REFERENCE:
        return f"{node.op} is not exported"
    for value in (*node.inputs, node.output):
        if value is None:
            continue
        if any(not isinstance(n, int) for n in value.ne):
            return f"{node.op}: sizes that depend on the inputs"
        if 0 in value.ne:
            return f"{node.op}: an empty tensor"
        if value.dtype == DType.F64:
            return f"{node.op}: float64"
    check = CHECKS.get(node.op)
    return None if check is None else check(node)


# Of int64: ops that give their inputs' elements or places in them, and functions of others that do.
_MOVES = "reshape permute view cont broadcast concat take take_rows select sort max_pool_index_nhwc to_index"
_SAME_INTEGERS = frozenset(_MOVES.split())
_SAME_KINDS: dict[str, frozenset[int]] = {
    "binary": frozenset({BinaryKind.MAXIMUM, BinaryKind.MINIMUM, BinaryKind.BITWISE_AND, BinaryKind.BITWISE_OR}),
    "reduce": frozenset({ReduceKind.MAX, ReduceKind.MIN, ReduceKind.ARGMAX, ReduceKind.ARGMIN}),
    "scatter": frozenset({ScatterKind.ASSIGN, ScatterKind.MAX, ScatterKind.MIN}),
}
INT32 = range(-(2**31), 2**31)


def leaves_int32(node: Node) -> str | None:
    """Why a node may give int64 numbers that int32 does not hold, of inputs that it does hold; or None."""
    attrs = node.attrs
    if node.output.dtype != DType.I64 or node.op in _SAME_INTEGERS:
        return None
    if node.op in _SAME_KINDS and attrs["kind"] in _SAME_KINDS[node.op]:
        return None
    if node.op == "convert" and not _given(node.inputs[0]).dtype.is_floating:
        return None
    if node.op == "fill" and attrs["integer"] in INT32:
        return None
    if node.op == "iota" and _reaches(attrs) in INT32 and attrs["start"] in INT32:
        return None
    return f"{node.op} in int64, which the compiler computes as int32"


def _reaches(attrs: dict[str, Any]) -> int:
    """The last number of an ``iota``."""
    return int(attrs["start"] + attrs["step"] * (attrs["ne"][0] - 1))


def call(trace: Trace, node: Node, *inputs: Tensor | None) -> Tensor:
    """The node's result, in the form that is exported."""
    translation = TRANSLATIONS.get(node.op)
    if translation is None:
        result: Tensor = node.spec.reference(*inputs, **node.attrs)
        return result
    return translation(trace, *inputs, **node.attrs)


# ------------------------------------------------------------------------------------------------------------- movement

# What compilers lack kernels of small types for goes through a larger one, which holds all their values.
_WIDE = {
    torch.bool: torch.int32,
    torch.int8: torch.int32,
    torch.uint8: torch.int32,
    torch.int16: torch.int32,
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
}


@translates("reshape")
def _reshape(_: Trace, a: Tensor, *, ne: Dims) -> Tensor:
    return a.reshape(shape_of(ne))


@translates("cont")
def _cont(_: Trace, a: Tensor) -> Tensor:
    return a


@translates("broadcast")
def _broadcast(_: Trace, a: Tensor, *, ne: Dims) -> Tensor:
    return a.to(_WIDE.get(a.dtype, a.dtype)).expand(shape_of(ne)).to(a.dtype)


@translates("select")
def _select(_: Trace, condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    wide = _WIDE.get(a.dtype, a.dtype)
    return torch.where(condition, a.to(wide), b.to(wide)).to(a.dtype)


@translates("view")
def _view(_: Trace, a: Tensor, *, start: Dims, step: tuple[int, ...], ne: Dims) -> Tensor:
    for i in range(4):
        first, stride, count = int(start[i]), int(step[i]), int(ne[i])
        if (first, stride, count) != (0, 1, a.shape[3 - i]):
            places = [slice(None)] * 4
            places[3 - i] = slice(first, first + stride * (count - 1) + 1, stride)
            a = a[tuple(places)]
    return a


# ------------------------------------------------------------------------------------------------------------- indexing


def _in_range(trace: Trace, index: Tensor, size: int, wrap: bool) -> Tensor:
    """The indices counted from the front; those that are out of range void the run, and are moved into it."""
    trace.require((index >= (-size if wrap else 0)) & (index < size))
    if wrap:
        index = torch.where(index < 0, index + size, index)
    return index.clamp(0, size - 1)


def _rows(trace: Trace, table: Tensor, rows: Tensor) -> Tensor:
    places = _in_range(trace, rows[0], table.shape[0], wrap=False).long()
    return table.index_select(0, places.reshape(-1)).reshape(*places.shape, table.shape[1])


@translates("get_rows", guarded=True)
def _get_rows(trace: Trace, a: Tensor, rows: Tensor) -> Tensor:
    return _rows(trace, a[0, 0], rows).float()


@translates("take_rows", guarded=True)
def _take_rows(trace: Trace, a: Tensor, rows: Tensor) -> Tensor:
    return _rows(trace, a[0, 0], rows)


@translates("to_index", guarded=True)
def _to_index(trace: Trace, a: Tensor, *, size: int, wrap: bool) -> Tensor:
    return _in_range(trace, a, int(size), wrap).to(torch.int32)


@translates("take", guarded=True)
def _take(trace: Trace, a: Tensor, index: Tensor, *, axis: int, wrap: bool) -> Tensor:
    dim = 3 - axis
    places = _in_range(trace, index, a.shape[dim], wrap).long()
    if _varies_along(index, dim):
        return a.index_select(dim, places.reshape(-1))
    return a.gather(dim, places.expand([places.shape[d] if d == dim else n for d, n in enumerate(a.shape)]))


def _varies_along(index: Tensor, dim: int) -> bool:
    """Whether the indices are the same everywhere but along ``dim``."""
    return all(n == 1 for d, n in enumerate(index.shape) if d != dim)


@translates("scatter", guarded=True)
def _scatter(
    trace: Trace,
    a: Tensor,
    index: Tensor,
    src: Tensor,
    *,
    ne: Dims,
    axis: int,
    kind: ScatterKind,
    include_self: bool,
    wrap: bool,
) -> Tensor:
    dim, shape = 3 - axis, shape_of(ne)
    positions = _in_range(trace, index, a.shape[dim], wrap).long()
    src = src.expand(shape)
    if kind == ScatterKind.ASSIGN:
        if _varies_along(index, dim):
            wide, src = (t.to(_WIDE.get(t.dtype, t.dtype)) for t in (a, src))
            return _assign_rows(wide, positions.reshape(-1).expand(shape[dim]), src, dim).to(a.dtype)
        positions = positions.expand(shape)
        for i in range(shape[dim]):  # one after the other: the last of equal indices stays
            a = a.scatter(dim, positions.narrow(dim, i, 1), src.narrow(dim, i, 1))
        return a
    if a.dtype.is_floating_point and kind in {ScatterKind.MAX, ScatterKind.MIN}:
        trace.require(~(torch.isnan(a).any() | torch.isnan(src).any()))
    positions = positions.expand(shape)
    if not include_self:
        if kind in {ScatterKind.MAX, ScatterKind.MIN}:  # any of the values at a place is one to start from
            a = a.scatter(dim, positions, src)
        else:
            none = torch.tensor(0 if kind == ScatterKind.ADD else 1, dtype=a.dtype)
            touched = torch.zeros_like(a, dtype=torch.int32).scatter(
                dim, positions, torch.ones(shape, dtype=torch.int32)
            )
            a = torch.where(touched > 0, none, a)
    return a.scatter_reduce(dim, positions, src, _REDUCTIONS[ScatterKind(kind)], include_self=True)


def _assign_rows(a: Tensor, positions: Tensor, src: Tensor, dim: int) -> Tensor:
    """Write slices of ``src`` at places along ``dim``; of equal places the last is found by its number."""
    number = torch.arange(positions.shape[0])
    written = positions == torch.arange(a.shape[dim])[:, None]
    last = torch.where(written, number, torch.full_like(number, -1)).amax(1)
    shape = [1, 1, 1, 1]
    shape[dim] = a.shape[dim]
    return torch.where((last >= 0).reshape(shape), src.index_select(dim, last.clamp(min=0)), a)


_REDUCTIONS = {ScatterKind.ADD: "sum", ScatterKind.MUL: "prod", ScatterKind.MAX: "amax", ScatterKind.MIN: "amin"}


@_checks("scatter")
def _scatter_check(node: Node) -> str | None:
    index, attrs = _given(node.inputs[1]), node.attrs
    if attrs["kind"] != ScatterKind.ASSIGN:
        return None if node.output.dtype in _NUMBERS else f"scatter: {_name(node.output)} added up"
    others = [n for i, n in enumerate(index.ne) if i != attrs["axis"]]
    if any(n != 1 for n in others) and attrs["ne"][attrs["axis"]] > MAX_WRITES:
        return f"scatter: more than {MAX_WRITES} writes in order, at places of their own in each row"
    return None


# ---------------------------------------------------------------------------------------------------------- arithmetic


@translates("sgn")
def _sgn(_: Trace, a: Tensor) -> Tensor:
    return _nan_kept(torch.sign(a), a)


def _nan_kept(result: Tensor, *inputs: Tensor) -> Tensor:
    """The result, and NaN where an input has one: compilers need not keep those."""
    if not result.dtype.is_floating_point:
        return result
    nan = torch.isnan(inputs[0])
    for other in inputs[1:]:
        nan = nan | torch.isnan(other)
    return torch.where(nan, torch.full_like(result, float("nan")), result)


@translates("convert")
def _convert(_: Trace, a: Tensor, *, dtype: DType) -> Tensor:
    if dtype == DType.BOOL and a.dtype == torch.float32:
        return a != 0  # NaN is true
    return a.to(DType(dtype).torch)


@translates("trunc")
def _trunc(_: Trace, a: Tensor) -> Tensor:
    return torch.where(a < 0, torch.ceil(a), torch.floor(a))


@translates("expm1")
def _expm1(_: Trace, a: Tensor) -> Tensor:
    return _expm1_of(a)


def _expm1_of(a: Tensor) -> Tensor:
    """``exp(a) - 1`` where exporters have no function for it: what is lost in rounding ``exp(a)`` cancels out."""
    power = torch.exp(a)
    near = (power != 1) & (a.abs() < 1)
    exponent = torch.where(near, torch.log(power), torch.ones_like(a))
    small = torch.where(near, (power - 1) * a / exponent, a)
    return torch.where(a.abs() < 1, small, power - 1)


def _log1p_of(a: Tensor) -> Tensor:
    """``log(1 + a)``, exact near 0 in the same way."""
    grown = 1 + a
    near = (grown != 1) & (a.abs() < 1)
    small = torch.where(near, torch.log(grown) * a / torch.where(near, grown - 1, torch.ones_like(a)), a)
    return torch.where(a.abs() < 1, small, torch.log(grown))


# Compilers drop a conversion to a half type and back.
_UNARY_REFUSED = frozenset(
    {UnaryKind.LGAMMA, UnaryKind.ERFC, UnaryKind.SIGNBIT, UnaryKind.ROUND_F16, UnaryKind.ROUND_BF16}
)
_BINARY_REFUSED = frozenset({BinaryKind.HYPOT, BinaryKind.SHIFT_LEFT, BinaryKind.SHIFT_RIGHT})
_NUMBERS = frozenset({DType.F32, DType.I32, DType.I64})


def _name(value: Value) -> str:
    return value.dtype.name.lower()


def _given(value: Value | None) -> Value:
    assert value is not None
    return value


@translates("unary")
def _unary(_: Trace, a: Tensor, *, kind: UnaryKind) -> Tensor:
    if kind == UnaryKind.LOG1P:
        return _log1p_of(a)
    if kind == UnaryKind.LOGICAL_NOT and a.dtype != torch.bool:
        return a == 0
    if kind == UnaryKind.BITWISE_NOT:
        return ~a if a.dtype == torch.bool else -a - 1
    if kind == UnaryKind.SIGN:
        return _nan_kept(torch.sign(a), a)
    if kind == UnaryKind.EXP2:
        return torch.pow(2.0, a)
    reference: Tensor = OPS["unary"].reference(a, kind=kind)
    return reference


@_checks("unary")
def _unary_check(node: Node) -> str | None:
    kind = UnaryKind(node.attrs["kind"])
    return f"unary {kind.name.lower()} is not exported" if kind in _UNARY_REFUSED else None


@translates("binary")
def _binary(_: Trace, a: Tensor, b: Tensor, *, kind: BinaryKind) -> Tensor:
    if a.dtype == torch.bool:
        kind = _OF_BOOL.get(kind, kind)
        if kind in _ORDERS:
            a, b = a.to(torch.int32), b.to(torch.int32)
    if kind in _LOGICAL and a.dtype != torch.bool:
        a, b = a != 0, b != 0
    if kind in _DIVISIONS and not a.dtype.is_floating_point:
        return _divided(a, b, kind)
    if kind == BinaryKind.FLOOR_DIVIDE:
        return _floor_divided(a, b)
    if kind in _TURNED:  # of NaN, openvino's are true
        a, b, kind = b, a, _TURNED[kind]
    reference: Tensor = OPS["binary"].reference(a, b, kind=kind)
    return _nan_kept(reference, a, b) if kind in _EXTREMES else reference


_TURNED = {BinaryKind.GT: BinaryKind.LT, BinaryKind.GE: BinaryKind.LE}
_EXTREMES = frozenset({BinaryKind.MAXIMUM, BinaryKind.MINIMUM})


_LOGICAL = frozenset({BinaryKind.LOGICAL_AND, BinaryKind.LOGICAL_OR, BinaryKind.LOGICAL_XOR})
_ORDERS = frozenset({BinaryKind.LT, BinaryKind.LE, BinaryKind.GT, BinaryKind.GE})
_DIVISIONS = frozenset({BinaryKind.FLOOR_DIVIDE, BinaryKind.REMAINDER})
_OF_BOOL = {
    BinaryKind.MAXIMUM: BinaryKind.LOGICAL_OR,
    BinaryKind.MINIMUM: BinaryKind.LOGICAL_AND,
    BinaryKind.BITWISE_AND: BinaryKind.LOGICAL_AND,
    BinaryKind.BITWISE_OR: BinaryKind.LOGICAL_OR,
    BinaryKind.BITWISE_XOR: BinaryKind.LOGICAL_XOR,
}


def _divided(a: Tensor, b: Tensor, kind: BinaryKind) -> Tensor:
    """Integer division that rounds down, from the one that rounds to zero, which is what all compilers have."""
    quotient = torch.div(a, b, rounding_mode="trunc")
    rest = a - quotient * b
    down = (rest != 0) & ((rest < 0) != (b < 0))
    if kind == BinaryKind.FLOOR_DIVIDE:
        return quotient - down.to(a.dtype)
    return rest + torch.where(down, b, torch.zeros_like(b))


def _floor_divided(a: Tensor, b: Tensor) -> Tensor:
    """As torch does: the quotient is exact, where ``floor(a / b)`` may be of one that was rounded up."""
    rest = torch.fmod(a, b)
    quotient = (a - rest) / b - ((rest != 0) & ((b < 0) != (rest < 0))).to(a.dtype)
    down = torch.floor(quotient)
    down = down + (quotient - down > 0.5).to(a.dtype)
    return torch.where(b == 0, a / b, down)


@_checks("binary")
def _binary_check(node: Node) -> str | None:
    kind = BinaryKind(node.attrs["kind"])
    integers = _given(node.inputs[0]).dtype != DType.F32
    if kind in _BINARY_REFUSED or (kind == BinaryKind.POW and integers):
        return f"binary {kind.name.lower()} of {_name(_given(node.inputs[0]))} is not exported"
    return None


@translates("reduce")
def _reduce(_: Trace, a: Tensor, *, kind: ReduceKind, axes: tuple[int, ...]) -> Tensor:
    dims = tuple(3 - axis for axis in axes)
    if kind in {ReduceKind.ANY, ReduceKind.ALL}:
        found = a if a.dtype == torch.bool else a != 0
        ones = found.to(torch.int32)
        return (ones.amax(dims, keepdim=True) if kind == ReduceKind.ANY else ones.amin(dims, keepdim=True)) > 0
    if a.dtype == torch.bool:  # its largest and smallest
        return _reduce(_, a.to(torch.int32), kind=kind, axes=axes).to(torch.bool)
    if a.dtype.is_floating_point and kind in _NAN_WINS:
        return _with_nan(a, kind, axes)
    reference: Tensor = OPS["reduce"].reference(a, kind=kind, axes=axes)
    return reference


_NAN_WINS = frozenset({ReduceKind.MAX, ReduceKind.MIN, ReduceKind.ARGMAX, ReduceKind.ARGMIN})


def _with_nan(a: Tensor, kind: ReduceKind, axes: tuple[int, ...]) -> Tensor:
    """The largest or least, or its place: the first NaN where there is one."""
    nan = torch.isnan(a)
    least = torch.full_like(a, float("-inf" if kind in {ReduceKind.MAX, ReduceKind.ARGMAX} else "inf"))
    made: Tensor = OPS["reduce"].reference(torch.where(nan, least, a), kind=kind, axes=axes)
    any_nan = nan.float().amax(tuple(3 - axis for axis in axes), keepdim=True) > 0
    if made.dtype.is_floating_point:
        return torch.where(any_nan, torch.full_like(made, float("nan")), made)
    first: Tensor = OPS["reduce"].reference(nan.float(), kind=ReduceKind.ARGMAX, axes=axes)
    return torch.where(any_nan, first, made)


@_checks("reduce")
def _reduce_check(node: Node) -> str | None:
    source = _given(node.inputs[0])
    kind = ReduceKind(node.attrs["kind"])
    if kind in {ReduceKind.MEAN, ReduceKind.PROD} and source.dtype != DType.F32:
        return f"reduce {kind.name.lower()} of {_name(source)} is not exported"
    return None


@translates("sort")
def _sort(trace: Trace, a: Tensor, *, count: int, descending: bool) -> Tensor:
    if a.dtype.is_floating_point:
        trace.require(~torch.isnan(a))
    return torch.topk(a, int(count), -1, largest=descending, sorted=True).indices  # ONNX's keeps equals in order


@_checks("sort")
def _sort_check(node: Node) -> str | None:
    source = _given(node.inputs[0])
    return None if source.dtype in _NUMBERS else f"sort of {_name(source)} is not exported"


# ------------------------------------------------------------------------------------------------------------- products


def _repeated(a: Tensor, times: int, dim: int) -> Tensor:
    """Each of ``a``'s slices along ``dim`` that many times."""
    if times == 1:
        return a
    if a.shape[dim] == 1:  # multiplication broadcasts it
        return a
    shape = list(a.shape)
    wide = a.unsqueeze(dim + 1).expand(*shape[: dim + 1], times, *shape[dim + 1 :])
    return wide.reshape(*shape[:dim], shape[dim] * times, *shape[dim + 1 :])


@translates("mul_mat")
def _mul_mat(_: Trace, a: Tensor, b: Tensor) -> Tensor:
    b = b.to(a.dtype).float()
    a = a.float()
    for dim in (0, 1):
        a = _repeated(a, b.shape[dim] // a.shape[dim], dim)
    return b @ a.transpose(-1, -2)


@translates("mul_mat_id", guarded=True)
def _mul_mat_id(trace: Trace, a: Tensor, b: Tensor, ids: Tensor) -> Tensor:
    places = _in_range(trace, ids[0, 0], a.shape[1], wrap=False).long()
    chosen = a[0].index_select(0, places.reshape(-1)).reshape(*places.shape, *a.shape[2:]).float()
    rows = b[0].to(a.dtype).float().expand(-1, ids.shape[-1], -1)
    return (chosen @ rows.unsqueeze(-1)).squeeze(-1).unsqueeze(0)


@translates("attention")
def _attention(_: Trace, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, **attrs: float) -> Tensor:
    groups = q.shape[1] // k.shape[1]
    softmax: Callable[[Tensor], Tensor] = partial(torch.softmax, dim=-1)
    if k.dtype == torch.bfloat16:
        q, softmax = q.bfloat16().float(), softmax_of_bfloats
    k, v = (_repeated(t.float(), groups, 1) for t in (k, v))
    if attrs["logit_softcap"] == 0 and mask is None:
        return (softmax(q @ k.transpose(-1, -2) * attrs["scale"]) @ v).transpose(1, 2)
    scores = q @ k.transpose(-1, -2) * attrs["scale"]
    if cap := attrs["logit_softcap"]:
        scores = cap * torch.tanh(scores / cap)
    if mask is None:
        return (softmax(scores) @ v).transpose(1, 2)
    scores = scores + mask[..., : q.shape[-2], :].float()
    hidden = scores.amax(-1, keepdim=True) == float("-inf")  # rows that are hidden whole give 0
    weights = softmax(torch.where(hidden, torch.zeros_like(scores), scores))
    return (torch.where(hidden, torch.zeros_like(weights), weights) @ v).transpose(1, 2)


# --------------------------------------------------------------------------------------------------------------- images


@translates("conv_2d")
def _conv_2d(
    _: Trace,
    x: Tensor,
    kernel: Tensor,
    bias: Tensor | None,
    *,
    ne: Dims,
    window: Window2d,
    epilogue: Epilogue,
    groups: int,
) -> Tensor:
    oh, ow = shape_of(ne)[2:]
    down, across = window.h, window.w
    image = x if (across.up, down.up) == (1, 1) else _spread_out(x, down.up, across.up)
    image = _padded(image, oh, ow, window, 0.0)
    flat = None if bias is None else bias.reshape(-1)
    stride, dilation = (down.stride, across.stride), (down.dilation, across.dilation)
    y = F.conv2d(image, kernel.float(), flat, stride, 0, dilation, groups)
    return activate(y, epilogue)


@translates("conv_2d_nhwc")
def _conv_2d_nhwc(trace: Trace, x: Tensor, kernel: Tensor, bias: Tensor | None, *, ne: Dims, **how: Any) -> Tensor:
    return _conv_2d(trace, x.permute(0, 3, 1, 2), kernel, bias, ne=planes(ne), **how).permute(0, 2, 3, 1)


@translates("linear")
def _linear(_: Trace, x: Tensor, weight: Tensor, bias: Tensor | None, *, epilogue: Epilogue) -> Tensor:
    flat = None if bias is None else bias.reshape(-1)
    return activate(F.linear(x, weight[0, 0].float(), flat), epilogue)


def _spread_out(x: Tensor, up_h: int, up_w: int) -> Tensor:
    """``up - 1`` zeros after each pixel but the last ones of an NCHW tensor."""
    n, c, h, w = x.shape
    wide = F.pad(x.reshape(n, c, h, 1, w, 1), (0, up_w - 1, 0, 0, 0, up_h - 1))
    return wide.reshape(n, c, h * up_h, w * up_w)[:, :, : (h - 1) * up_h + 1, : (w - 1) * up_w + 1]


def _padded(image: Tensor, oh: int, ow: int, window: Window2d, fill: float) -> Tensor:
    """An NCHW tensor with its padding, cut to what the windows reach."""
    far_h, far_w = far_pad(image.shape[2], oh, window.h), far_pad(image.shape[3], ow, window.w)
    image = image[:, :, : image.shape[2] + min(far_h, 0), : image.shape[3] + min(far_w, 0)]
    pads = (window.w.pad, max(far_w, 0), window.h.pad, max(far_h, 0))
    return F.pad(image, pads, value=fill) if any(pads) else image


@translates("pool_2d")
def _pool_2d(_: Trace, x: Tensor, **how: Any) -> Tensor:
    return _pooled(x.float(), **how).to(x.dtype)  # bytes too: what is outside the image is below them all


def _pooled(x: Tensor, *, ne: Dims, kind: PoolKind, window: Window2d, divisor: int) -> Tensor:
    oh, ow = shape_of(ne)[2:]
    even = _even_windows(x, oh, ow, window)
    if even is None or (kind != PoolKind.MAX and (even.h.dilation, even.w.dilation) != (1, 1)):
        return _pooled_taps(x, oh, ow, kind, divisor, window)
    size, stride = (even.h.kernel, even.w.kernel), (even.h.stride, even.w.stride)
    image = _padded(x, oh, ow, even, float("-inf") if kind == PoolKind.MAX else 0.0)
    if kind == PoolKind.MAX:
        return F.max_pool2d(image, size, stride, 0, (even.h.dilation, even.w.dilation))
    sums = F.avg_pool2d(image, size, stride)
    counted = _counts(_axes(x, oh, ow, even), kind, divisor)
    area = size[0] * size[1]
    if all(count == area for row in counted for count in row):
        return sums
    return sums * torch.tensor([[area / count for count in row] for row in counted])


@translates("pool_2d_nhwc")
def _pool_2d_nhwc(trace: Trace, x: Tensor, *, ne: Dims, **how: Any) -> Tensor:
    return _pool_2d(trace, x.permute(0, 3, 1, 2), ne=planes(ne), **how).permute(0, 2, 3, 1)


class _Axis(NamedTuple):
    """The windows along an axis, of plain numbers: what is made with tensors would be exported too."""

    size: int
    pad: int
    places: list[list[int]]  # of each window's taps, those outside the image included

    def inside(self) -> list[list[bool]]:
        """Which taps are in the image."""
        return [[0 <= place < self.size for place in window] for window in self.places]

    def counts(self, padding: bool) -> list[int]:
        """How many taps of each window an average counts."""
        low, high = (-self.pad, self.size + self.pad) if padding else (0, self.size)
        return [sum(low <= place < high for place in window) for window in self.places]


def _axes(x: Tensor, oh: int, ow: int, window: Window2d) -> tuple[_Axis, _Axis]:
    return _axis(x.shape[2], oh, window.h), _axis(x.shape[3], ow, window.w)


def _axis(size: int, out: int, window: Window) -> _Axis:
    if window.kernel:
        starts = [i * window.stride - window.pad for i in range(out)]
        taps = [[start + k * window.dilation for k in range(window.kernel)] for start in starts]
        return _Axis(size, window.pad, taps)
    windows = [range(i * size // out, -(-(i + 1) * size // out)) for i in range(out)]
    widest = max(map(len, windows))
    return _Axis(size, 0, [[*window, *[size] * (widest - len(window))] for window in windows])


def _counts(axes: tuple[_Axis, _Axis], kind: PoolKind, divisor: int) -> list[list[int]]:
    """What the sums of an average pooling are divided by."""
    padding = kind == PoolKind.AVG_PAD
    rows, columns = (axis.counts(padding) for axis in axes)
    return [[divisor or row * column for column in columns] for row in rows]


def _pooled_taps(x: Tensor, oh: int, ow: int, kind: PoolKind, divisor: int, window: Window2d) -> Tensor:
    """Pooling of windows that are no convolution's: each tap is gathered."""
    down, across = _axes(x, oh, ow, window)
    taps = x
    for dim, axis in ((2, down), (4, across)):
        places = torch.tensor([min(max(place, 0), axis.size - 1) for window in axis.places for place in window])
        count = len(axis.places)
        taps = taps.index_select(dim, places)
        taps = taps.reshape(*taps.shape[:dim], count, places.shape[0] // count, *taps.shape[dim + 1 :])
    inside = torch.tensor(
        [[[[r and c for c in column] for column in across.inside()] for r in row] for row in down.inside()]
    )
    if kind == PoolKind.MAX:
        return torch.where(inside, taps, torch.tensor(float("-inf"))).amax((3, 5))
    counts = torch.tensor(_counts((down, across), kind, divisor)).float()
    return torch.where(inside, taps, torch.tensor(0.0)).sum((3, 5)) / counts


def _even_windows(x: Tensor, oh: int, ow: int, window: Window2d) -> Window2d | None:
    """The windows; of adaptive pooling those of equal size, or None where they are not equal."""
    if window.w.kernel and window.h.kernel:
        return window
    h, w = x.shape[2:]
    if window.w.kernel or window.h.kernel or h % oh or w % ow:
        return None
    return Window2d(Window(w // ow, w // ow), Window(h // oh, h // oh))


@_checks("max_pool_index_nhwc")
def _max_pool_index_check(node: Node) -> str | None:
    window: Window3d = node.attrs["window"]
    adaptive = 0 in (window.w.kernel, window.h.kernel, window.d.kernel)
    return f"{node.op} of adaptive pooling is not exported" if adaptive else None
