"""Where eager's own answer is not defined, or is known to be another one: such calls are not judged."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from tests.fuzz.program import Step
from torch import Tensor

CHOOSING = frozenset({"topk", "kthvalue", "mode", "median", "nanmedian", "sort", "argsort"})
ATTENTION = frozenset({"scaled_dot_product_attention"})
CASTS = frozenset({"_to_copy", "_to_dim_order_copy"})


@dataclass(frozen=True)
class Difference:
    """Calls of some ops with an operand that is as `when` says, and why they are not judged."""

    ops: frozenset[str]
    when: Callable[[Step, Tensor], bool]
    reason: str


def _beyond_integers(step: Step, x: Tensor) -> bool:
    dtype = step.kwargs.get("dtype")
    if dtype is None or dtype.is_floating_point or dtype == torch.bool or not x.dtype.is_floating_point:
        return False
    # torch casts to the small types by way of int32 or int64, as the compiler likes.
    range_ = torch.iinfo(dtype)
    return not bool(((x.double() >= range_.min) & (x.double() < range_.max)).all())


def _no_number(_: Step, x: Tensor) -> bool:
    return bool((x.isnan() | x.isposinf()).any())


def _ties(step: Step, x: Tensor) -> bool:
    return step.overload._overloadname != "stable" and len(x.unique()) < x.numel()


def _infinite(_: Step, x: Tensor) -> bool:
    return bool(x.isposinf().any())


def _not_finite(_: Step, x: Tensor) -> bool:
    return not bool(x.isfinite().all())


# Ops whose results nobody has written.
UNDEFINED = re.compile(r"_?(new_)?empty(_.*)?")

DIFFERENCES = (
    Difference(CHOOSING, _ties, "which of equals comes first is not said"),
    Difference(ATTENTION, _no_number, "ggml's attention passes over scores that are NaN"),
    Difference(frozenset({"gelu"}), _infinite, "eager's vectorized kernel gives NaN for +inf, its scalar one inf"),
    Difference(frozenset({"var_mean"}), _not_finite, "eager's running mean gives NaN for infinities, ours inf"),
    Difference(CASTS, _beyond_integers, "C++ leaves a cast of a float to an integer that cannot hold it undefined"),
)


def kills_eager(step: Step, tensors: Sequence[Tensor]) -> bool:
    """Whether eager's kernel would end the process: the smallest integer over -1, rounded towards zero."""
    truncates = "trunc" in (*step.args, step.kwargs.get("rounding_mode"))
    integers = [tensor for tensor in tensors if not tensor.dtype.is_floating_point and tensor.dtype != torch.bool]
    return truncates and any(bool((tensor == torch.iinfo(tensor.dtype).min).any()) for tensor in integers)


def not_judged(name: str, step: Step, tensor: Tensor, result: bool) -> str | None:
    """Why a call with this operand, or result, is not judged, or None."""
    if result:
        return "its result is anything" if UNDEFINED.fullmatch(name) else None
    found = (item.reason for item in DIFFERENCES if name in item.ops and item.when(step, tensor))
    return next(found, None)
