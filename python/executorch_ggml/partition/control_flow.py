"""Control flow stays with ExecuTorch, which runs cond, map and scan by jumps; ggml runs what is in their bodies."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from executorch.exir.graph_module import get_control_flow_submodules
from torch._ops import HigherOrderOperator
from torch.fx import GraphModule, Node

from .regions import INLINED

_RUNS = (torch.ops.higher_order.cond, torch.ops.higher_order.map_impl, torch.ops.higher_order.scan)


def graph_modules(module: GraphModule) -> Iterator[GraphModule]:
    """A graph and the bodies of its control flow, and theirs."""
    yield module
    for _, body, _ in get_control_flow_submodules(module):
        yield from graph_modules(body)


def is_control_flow(node: Node) -> bool:
    """Whether a node calls an operator that has bodies, other than those that are inlined."""
    has_bodies = node.op == "call_function" and isinstance(node.target, HigherOrderOperator)
    return has_bodies and node.target not in INLINED


def control_flow_fault(node: Node) -> str | None:
    """What of a control flow node ExecuTorch cannot run, or None."""
    name = getattr(node.target, "__name__", str(node.target))
    if node.target not in _RUNS:
        return f"ExecuTorch cannot run torch.ops.higher_order.{name}; leave the loop to the caller, or unroll it"
    if node.target is torch.ops.higher_order.map_impl:
        mapped, results = node.args[1], node.meta["val"]
        assert isinstance(mapped, (tuple, list))
        if len(mapped) != 1 or len(results) != 1:
            given = f"{len(mapped)} and {len(results)}"
            return f"ExecuTorch runs map with one mapped tensor and one result, not with {given}; use scan"
        if any(isinstance(size, torch.SymInt) for size in results[0].shape):
            return "ExecuTorch runs map on constant sizes only; scan may go over a dynamic one"
    return None
