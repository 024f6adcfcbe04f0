"""The registry of lowerings: exact ATen overloads, one function each, duplicates refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from executorch.exir.dialects.edge._ops import EdgeOpOverload
from torch._ops import OpOverload
from torch.fx import Node


@dataclass(frozen=True)
class Refused:
    """A lowering's answer where the result would not be right: the reason, for ``explain``."""

    reason: str


LoweringFunction = Callable[..., Any]
Function = TypeVar("Function", bound=LoweringFunction)
LOWERINGS: dict[OpOverload, LoweringFunction] = {}
# Why ops that have no lowering cannot have one.
REASONS: dict[OpOverload, str] = {}
# Composite ops that are lowered as they are: the partitioner asks that they be not decomposed.
PRESERVED: set[OpOverload] = set()
# Ops whose result is a constant where their tensors are: they are computed ahead of time.
FOLDED: set[OpOverload] = set()
# Ops of this project's that stand for others while ExecuTorch has the program (see partition/outside_core.py).
ALIASES: dict[OpOverload, OpOverload] = {}


def overload_of(node: Node) -> Any:
    """The ATen overload that a node calls: Edge ops wrap it, and this project's own may stand for it."""
    target: Any = node.target._op if isinstance(node.target, EdgeOpOverload) else node.target
    return ALIASES.get(target, target)


def lowers(
    *overloads: OpOverload, preserve: bool = False, folds: bool = False, override: bool = False
) -> Callable[[Function], Function]:
    """Register a function as the lowering of ``overloads``.

    It is called as ``function(context, *args, **kwargs)`` with the overload's own arguments, tensors being
    :class:`~executorch_ggml.frontends.aten.context.Tensor`, and returns a Tensor, a tuple of them, or :class:`Refused`.
    """

    def register(function: Function) -> Function:
        for overload in overloads:
            if overload in LOWERINGS and not override:
                raise ValueError(f"{overload} has a lowering already; pass override=True to replace it")
            LOWERINGS[overload] = function
            if preserve:
                PRESERVED.add(overload)
            if folds:
                FOLDED.add(overload)
        return function

    return register
