"""Assertions in exported programs: ExecuTorch cannot run them on values, and our runtime checks sizes itself."""

from __future__ import annotations

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from .functional import functional_copy

aten = torch.ops.aten

# Assertions about tensors, which no node reads the result of.
_ABOUT_TENSORS = (
    aten._assert_async.default,
    aten._assert_async.msg,
    aten._assert_tensor_metadata.default,
)
# Assertions about numbers, some of which are read from tensors.
_ABOUT_NUMBERS = (
    aten._assert_scalar.default,
    aten.sym_constrain_range.default,
    aten.sym_constrain_range_for_size.default,
)
_READS_A_NUMBER = (aten.item.default, aten._local_scalar_dense.default)


def is_assertion(node: Node) -> bool:
    """Whether a node only serves to assert something of a size: ExecuTorch drops it, and our runtime checks sizes."""
    asserts = node.target is aten._assert_scalar.default
    return asserts or (isinstance(node.meta.get("val"), torch.SymBool) and all(map(is_assertion, node.users)))


def without_assertions(program: ExportedProgram) -> ExportedProgram:
    """Drop assertions about the values of tensors, and what is computed for them alone.

    Given   x -> eq -> all -> item -> assert;  x -> f -> output
    Result  x -> f -> output

    Assertions about a number that is a size too stay: tracing needs them. The program is a copy where it changes.
    """
    if not any(map(_droppable, _graph_modules(program.graph_module))):
        return program
    copy = functional_copy(program)
    for module in _graph_modules(copy.graph_module):
        for node in _droppable(module):
            module.graph.erase_node(node)
        module.graph.eliminate_dead_code()
        module.recompile()
    return copy


def _graph_modules(module: GraphModule) -> list[GraphModule]:
    return [part for part in module.modules() if isinstance(part, GraphModule)]


def _droppable(module: GraphModule) -> list[Node]:
    """Assertions about values with what they are computed of from the first number on, users first."""
    only_asserted: set[Node] = set()
    for node in reversed(module.graph.nodes):
        if node.target in _ABOUT_NUMBERS or (node.users and only_asserted.issuperset(node.users)):
            only_asserted.add(node)
    numbers = [node for node in module.graph.nodes if node.target in _READS_A_NUMBER and node in only_asserted]
    after = set(numbers)
    for node in module.graph.nodes:
        if not after.isdisjoint(node.all_input_nodes):
            after.add(node)
    return [node for node in reversed(module.graph.nodes) if node in after or node.target in _ABOUT_TENSORS]
