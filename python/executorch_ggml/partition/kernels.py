"""Operators outside of all delegates that ExecuTorch has no kernel for: a program that calls one cannot run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch
from executorch.exir.dialects.backend._ops import BackendOpOverload
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from executorch.exir.passes import to_out_var_skiplist
from executorch.runtime import Runtime
from torch.export import ExportedProgram
from torch.fx import Graph, Node

from ..frontends.aten.registry import overload_of
from ..frontends.aten.source import source_line
from .control_flow import graph_modules

ANY_KERNEL = ("*",)  # as own_kernels: whoever runs the program has kernels for all of it

# What ExecuTorch's RemoveGraphAssertsPass takes out of a program.
_DROPPED = frozenset(
    {
        torch.ops.aten._assert_async.msg,
        torch.ops.aten._assert_scalar.default,
        torch.ops.aten._assert_tensor_metadata.default,
        torch.ops.aten.sym_constrain_range.default,
        torch.ops.aten.sym_constrain_range_for_size.default,
    }
)


@dataclass(frozen=True)
class MissingKernel:
    """A call, the kernel that it needs and ExecuTorch's runtime lacks, and the model's line that it comes from."""

    node: str
    op: str
    kernel: str
    source: str

    def __str__(self) -> str:
        where = f" at {self.source}" if self.source else ""
        return f"{self.op} ({self.node}) needs a kernel {self.kernel}{where}"


def missing_kernels(program: ExportedProgram, own_kernels: Collection[str] = ()) -> dict[Node, MissingKernel]:
    """The calls of an Edge program, but for delegates, that neither ExecuTorch's runtime nor its user has a kernel for.

    What the runtime has is asked of the one in this process, so that libraries of kernels loaded into it count.
    ``own_kernels`` are names, or patterns of names, of kernels that the program's user has beside these.
    """
    known = Runtime.get().operator_registry.operator_names
    found = {}
    for module in graph_modules(program.graph_module):
        for node in _calls(module.graph):
            kernel = _kernel_of(node)
            if kernel is None or kernel in known or any(fnmatchcase(kernel, pattern) for pattern in own_kernels):
                continue
            found[node] = MissingKernel(node.name, str(overload_of(node)), kernel, source_line(node))
    return found


def missing_kernels_text(missing: Iterable[MissingKernel], reasons: Mapping[str, str]) -> str:
    """What is missing, why ggml does not run it either, and what to do about it. ``reasons`` are by node."""
    lines = [
        "ExecuTorch's runtime has no kernels for these calls, and ggml does not run them, so the program cannot run:"
    ]
    lines += [f"  {item}; ggml: {reasons.get(item.node, 'not asked')}" for item in missing]
    lines.append("change these lines of the model, or name kernels that your runtime registers itself in own_kernels")
    return "\n".join(lines)


def _calls(graph: Graph) -> list[Node]:
    """The calls of a graph that ExecuTorch leaves in a program: not assertions and what they alone read."""
    dropped: set[Node] = set()
    for node in reversed(graph.nodes):
        if overload_of(node) in _DROPPED or (node.users and dropped.issuperset(node.users)):
            dropped.add(node)
    return [node for node in graph.nodes if node.op == "call_function" and node not in dropped]


def _kernel_of(node: Node) -> str | None:
    """The name of the kernel that a call becomes; None for what is no call of a kernel, and for arithmetic of sizes."""
    target = node.target
    if target in to_out_var_skiplist or not isinstance(target, (EdgeOpOverload, BackendOpOverload)):
        return None
    schema = target._schema
    if not schema.is_mutable:
        try:
            schema = target.to_out_variant()._schema
        except RuntimeError:  # it has no out variant, which ExecuTorch's kernels are
            return f"{schema.name}.out"
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else str(schema.name)
