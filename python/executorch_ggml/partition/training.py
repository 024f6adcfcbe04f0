"""Ops that compute something else in training mode than in evaluation."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

_FLAGS = ("train", "training")
_PROBABILITIES = ("p", "dropout", "dropout_p")


def training_fault(node: Node) -> str | None:
    """What a node of a traced model computes as in training alone, in words; None where it does nothing of that kind.

    Told by the op's schema: its flag (of dropout, batch norm, recurrent layers ...), the statistics that it takes (of
    instance norm), or that it draws random numbers (layers dropped by chance).
    """
    if not isinstance(node.target, torch._ops.OpOverload):
        return None
    arguments = _arguments(node)
    probability = next((arguments[name] for name in _PROBABILITIES if name in arguments), None)
    flag = next((arguments[name] for name in _FLAGS if name in arguments), None)
    if flag is not None:
        differs = flag and probability != 0
    elif "dropout_p" in arguments:
        differs = probability != 0
    elif "use_input_stats" in arguments:
        differs = arguments["use_input_stats"] and arguments["running_mean"] is not None
    else:
        differs = torch.Tag.nondeterministic_seeded in node.target.tags
    if not differs:
        return None
    line = (node.meta.get("stack_trace") or "").strip().splitlines()[-1:]
    where = f" at `{line[0].strip()}`" if line else ""
    return f"{node.target}{where} is random, or depends on the batch"


def _arguments(node: Node) -> dict[str, Any]:
    """The values of a call's arguments by name, defaults too."""
    assert isinstance(node.target, torch._ops.OpOverload)
    arguments = node.target._schema.arguments
    values = {argument.name: argument.default_value for argument in arguments if argument.has_default_value()}
    return {**values, **dict(zip((argument.name for argument in arguments), node.args, strict=False)), **node.kwargs}
