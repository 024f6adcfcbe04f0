"""Where eager's own answer is not defined, or is known to be another one: such calls are not judged."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from tests.fuzz.program import Ref, Step
from torch import Tensor

CHOOSING = frozenset({"topk", "kthvalue", "mode", "median", "nanmedian", "sort", "argsort"})
ATTENTION = frozenset({"scaled_dot_product_attention"})
BAGS = frozenset({"_embedding_bag", "_embedding_bag_forward_only"})
RANGES = frozenset({"choose_qparams", "choose_qparams_affine"})
REMAINDERS = frozenset({"fmod", "remainder"})
CASTS = frozenset({"_to_copy", "_to_dim_order_copy"})


@dataclass(frozen=True)
class Difference:
    """Calls of some ops whose operands are as `when` says, and why they are not judged."""

    ops: frozenset[str]
    when: Callable[[Step, Sequence[Tensor]], bool]
    reason: str


def _one(when: Callable[[Step, Tensor], bool]) -> Callable[[Step, Sequence[Tensor]], bool]:
    """Whether one of the operands is as `when` says."""
    return lambda step, operands: any(when(step, operand) for operand in operands)


@_one
def _beyond_integers(step: Step, x: Tensor) -> bool:
    dtype = step.kwargs.get("dtype")
    if dtype is None or dtype.is_floating_point or dtype == torch.bool or not x.dtype.is_floating_point:
        return False
    # torch casts to the small types by way of int32 or int64, as the compiler likes.
    range_ = torch.iinfo(dtype)
    return not bool(((x.double() >= range_.min) & (x.double() < range_.max)).all())


@_one
def _no_number(_: Step, x: Tensor) -> bool:
    return bool((x.isnan() | x.isposinf()).any())


@_one
def _ties(step: Step, x: Tensor) -> bool:
    return step.overload._overloadname != "stable" and len(x.unique()) < x.numel()


@_one
def _infinite(_: Step, x: Tensor) -> bool:
    return bool(x.isposinf().any())


@_one
def _not_finite(_: Step, x: Tensor) -> bool:
    return not bool(x.isfinite().all())


def _quotient_overflows(step: Step, operands: Sequence[Tensor]) -> bool:
    given = iter(operands)
    a, b = (torch.as_tensor(next(given) if isinstance(arg, Ref) else arg).double() for arg in step.args)
    quotient = (a / b).abs()
    return bool((quotient.isfinite() & (quotient > torch.finfo(torch.float32).max)).any())


def _bag_overflows(step: Step, operands: Sequence[Tensor]) -> bool:
    weight, indices, *_ = operands
    if weight.dtype != torch.float16 or 2 in step.args[4:5]:
        return False
    largest = weight[weight.isfinite()].abs().double().amax() if weight.isfinite().any() else 0.0
    return bool(largest * len(indices) > torch.finfo(torch.float16).max)


def _unsorted(step: Step, operands: Sequence[Tensor]) -> bool:
    boundaries = operands[0] if "searchsorted" in step.overload._schema.name else operands[-1]
    return bool((boundaries.diff(dim=-1) < 0).any()) if boundaries.dim() else False


# Ops whose results nobody has written.
UNDEFINED = re.compile(r"_?(new_)?empty(_.*)?")

DIFFERENCES = (
    Difference(frozenset({"searchsorted", "bucketize"}), _unsorted, "a search is of boundaries in order"),
    Difference(CHOOSING, _ties, "which of equals comes first is not said"),
    Difference(ATTENTION, _no_number, "ggml's attention passes over scores that are NaN"),
    Difference(frozenset({"gelu"}), _infinite, "eager's vectorized kernel gives NaN for +inf, its scalar one inf"),
    Difference(frozenset({"var_mean"}), _not_finite, "eager's running mean gives NaN for infinities, ours inf"),
    Difference(REMAINDERS, _quotient_overflows, "eager's vectorized kernels give NaN for a quotient beyond f32"),
    Difference(BAGS, _bag_overflows, "eager sums up bags of float16 in float16, and means beyond it become infinite"),
    Difference(RANGES, _not_finite, "eager casts a zero point that is NaN to an integer, which C++ leaves undefined"),
    Difference(CASTS, _beyond_integers, "C++ leaves a cast of a float to an integer that cannot hold it undefined"),
)


def kills_eager(step: Step, tensors: Sequence[Tensor]) -> bool:
    """Whether eager's kernel would end the process, or write where it should not.

    The smallest integer over -1, rounded towards zero, and embeddings that are in no bag.
    """
    if "embedding_bag" in step.overload._schema.name:
        _, indices, offsets, *_ = tensors
        include_last_offset = len(step.args) > 7 and step.args[7]
        return len(indices) > 0 and len(offsets) <= int(include_last_offset)
    truncates = "trunc" in (*step.args, step.kwargs.get("rounding_mode"))
    integers = [tensor for tensor in tensors if not tensor.dtype.is_floating_point and tensor.dtype != torch.bool]
    return truncates and any(bool((tensor == torch.iinfo(tensor.dtype).min).any()) for tensor in integers)


def not_judged(name: str, step: Step, tensors: Sequence[Tensor], results: bool) -> str | None:
    """Why a call with these operands, or results, is not judged, or None."""
    if results:
        return "its result is anything" if UNDEFINED.fullmatch(name) else None
    found = (item.reason for item in DIFFERENCES if name in item.ops and item.when(step, tensors))
    return next(found, None)
