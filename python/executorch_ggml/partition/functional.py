"""The copy of a program that the partitioner's transforms rewrite in place."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch
from executorch.exir.tracer import _default_decomposition_table
from torch._C import DispatchKey
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from ..frontends.aten.registry import PRESERVED

Decompositions = Mapping[Any, Callable[..., Any]]


class FunctionalProgram(ExportedProgram):
    """A program in which no op writes to a tensor that another reads, and regions are inlined.

    Tracing it again takes as long as exporting it, and gives it again where nothing is left to decompose.
    """

    traced: Mapping[Node, Any]  # the ops that nodes call; transforms add nodes, and change their ops
    tried: frozenset[Any]  # ops that were decomposed where they can be
    transformed: bool = False  # what the partitioner does before decompositions is done

    @classmethod
    def of(cls, program: ExportedProgram, decompositions: Decompositions) -> FunctionalProgram:
        """A program that was traced with these decompositions, with dicts of tensors of its own."""
        made = cls(
            root=program.graph_module,
            graph=program.graph,
            graph_signature=program.graph_signature,
            state_dict=dict(program.state_dict),
            range_constraints=program.range_constraints,
            module_call_graph=program.module_call_graph,
            example_inputs=program.example_inputs,
            constants=dict(program.constants),
            verifiers=program.verifiers,
        )
        made.traced = {node: node.target for node in _calls(made)}
        made.tried = frozenset(decompositions)
        return made

    def run_decompositions(
        self, decomp_table: dict[Any, Callable[..., Any]] | None = None, decompose_custom_triton_ops: bool = False
    ) -> ExportedProgram:
        """The program decomposed: itself where that was tried on all that the table has."""
        table = torch.export.default_decompositions() if decomp_table is None else decomp_table
        known = dict(table.items())
        if any(self._is_left(node, known) for node in _calls(self)):
            decomposed: ExportedProgram = super().run_decompositions(table, decompose_custom_triton_ops)
            return decomposed
        return self

    def _is_left(self, node: Node, table: Mapping[Any, Any]) -> bool:
        """Whether tracing with a table may change a node."""
        if self.traced.get(node) is node.target:
            return node.target in table and node.target not in self.tried
        return node.target in table or _is_composite(node)


def _calls(program: ExportedProgram) -> list[Node]:
    """The calls of ops in a program, in all its graphs."""
    modules = [module for module in program.graph_module.modules() if isinstance(module, GraphModule)]
    return [node for module in modules for node in module.graph.nodes if node.op == "call_function"]


def _is_composite(node: Node) -> bool:
    """Whether an op is others to every trace, as `reshape` is."""
    return isinstance(node.target, OpOverload) and node.target.has_kernel_for_dispatch_key(
        DispatchKey.CompositeImplicitAutograd
    )


def functional_copy(program: ExportedProgram, decompositions: Decompositions | None = None) -> FunctionalProgram:
    """A copy that is functional; the inputs' names stay.

    A program that is functional already is returned as it is, unless ops are to be decomposed.
    """
    if isinstance(program, FunctionalProgram) and not decompositions:
        return program
    table = dict(decompositions or {})
    with torch.no_grad():
        return FunctionalProgram.of(program.run_decompositions(table), table)


def decomposed(
    program: ExportedProgram, kept: Collection[OpOverload] = PRESERVED, table: Decompositions | None = None
) -> FunctionalProgram:
    """A functional copy in Core ATen's ops and those that are ``kept``, by one trace.

    ExecuTorch traces a program twice for that. The partitioner rewrites what it is given here in place. The ``table``
    is :func:`decomposition_table`'s.
    """
    table = decomposition_table() if table is None else table
    return functional_copy(program, {op: rule for op, rule in table.items() if op not in kept})


def decomposition_table() -> Decompositions:
    """ExecuTorch's default decompositions, by op. torch looks at all ops for it, which takes as long as many passes."""
    return dict(_default_decomposition_table().items())
