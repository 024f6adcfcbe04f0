"""Constant folding before partitioning: what no input of the program decides is computed at export.

Inside a delegate :mod:`..passes.constant_folding` does that. This is for what comes before: a lowering asks whether a
layer's weight is a constant, ops over parameters may be in float64 or of a kind that the IR lacks, and what a delegate
does not take would be computed at each run.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from executorch.backends.transforms.utils import create_constant_placeholder
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Node

from ..frontends.aten.graph import buffer_of
from ..frontends.aten.registry import FOLDED
from ..frontends.aten.weights import WeightSource
from ..passes.constant_folding import MAX_GROWTH
from .functional import functional_copy
from .memory_formats import allow_copies_in_views

aten = torch.ops.aten

# Dequantized weights have a lowering of their own, which keeps their integers.
_QUANTIZED_NAMESPACES = frozenset({"quantized_decomposed", "torchao"})
_COPIES = frozenset({aten.clone.default, aten.contiguous.default, aten.detach.default, aten.lift_fresh_copy.default})
# The kernel of a convolution reads a constant weight, so views of parameters are folded for it too.
_CONVOLUTIONS = frozenset(
    {
        aten.convolution.default,
        *(getattr(aten, name).default for name in ("conv1d", "conv2d", "conv3d", "conv_transpose1d")),
        *(getattr(aten, name).padding for name in ("conv1d", "conv2d", "conv3d")),
        *(getattr(aten, name).input for name in ("conv_transpose2d", "conv_transpose3d")),
    }
)


def fold_constants(program: ExportedProgram, weights: WeightSource | None = None) -> ExportedProgram:
    """Replace what is computed from parameters and numbers alone by its value.

    Weight normalization, weight standardization and tables of positions cost nothing at run time then. Buffers are left
    alone, since another method of the program may write them, and so are parameters whose values ``weights`` has. The
    program is returned as it is where there is nothing to fold; else the result is a copy.

    Given   w = _weight_norm(v, g);  conv(x, w)
    Result  conv(x, constant)
    """
    if not _results(program, weights):
        return program
    program = functional_copy(program)
    results = _results(program, weights)
    parameters = _parameters(program)
    values = _evaluate(program, parameters, results)
    first = program.graph.find_nodes(op="placeholder")[0]
    for node in results:
        value = values[node].contiguous()
        read = sum(parameters[source].nbytes for source in _sources([node]) if source in parameters)
        if value.nbytes > read + MAX_GROWTH:
            continue
        with program.graph.inserting_before(first):
            constant = create_constant_placeholder(
                program, program.graph, f"folded_{node.name}", InputKind.CONSTANT_TENSOR, value
            )
        node.replace_all_uses_with(constant)
        if not values[node].is_contiguous():
            allow_copies_in_views(program)
    program.graph.eliminate_dead_code()
    program.graph_module.recompile()
    return program


def _results(program: ExportedProgram, weights: WeightSource | None) -> list[Node]:
    """The nodes to replace by constants, in order: no input decides them, but those of their readers."""
    parameters = _parameters(program).items()
    constant = {node for node, tensor in parameters if _has_values(program, node, tensor, weights)}
    computed: set[Node] = set()  # more than a view or a copy of a parameter, or a tensor of one number
    for node in program.graph.nodes:
        if _is_foldable(node) and constant.issuperset(node.all_input_nodes):
            constant.add(node)
            if computed.intersection(node.all_input_nodes) or (node.all_input_nodes and not _is_view(node)):
                computed.add(node)
    return [node for node in program.graph.nodes if node in constant and _is_result(node, constant, computed)]


def _is_result(node: Node, constant: set[Node], computed: set[Node]) -> bool:
    readers = [user for user in node.users if user not in constant]
    if node.op != "call_function" or not isinstance(node.meta.get("val"), torch.Tensor) or not readers:
        return False
    if any(user.op == "output" for user in readers):
        return False  # ExecuTorch returns what a node computes, not constants
    return node in computed or any(user.target in _CONVOLUTIONS and node in user.args[1:3] for user in readers)


def _parameters(program: ExportedProgram) -> dict[Node, torch.Tensor]:
    """The placeholders of parameters and lifted tensors, with their tensors."""
    signature = program.graph_signature
    names = {**signature.inputs_to_parameters, **signature.inputs_to_lifted_tensor_constants}
    placeholders = program.graph.find_nodes(op="placeholder")
    return {node: buffer_of(program, names[node.name]).detach() for node in placeholders if node.name in names}


def _has_values(program: ExportedProgram, node: Node, tensor: torch.Tensor, weights: WeightSource | None) -> bool:
    """Whether a parameter's values are those of the module's tensor."""
    if type(tensor) is not torch.Tensor or tensor.is_meta or not tensor.is_floating_point():
        return False  # integers may be quantized weights, which stay integers
    name = program.graph_signature.inputs_to_parameters.get(node.name)
    stored = None if weights is None or name is None else weights.find(name, tensor)
    return stored is None or not stored.replaces


def _is_foldable(node: Node) -> bool:
    """Whether a call's result follows from its arguments alone."""
    target = node.target
    if target is operator.getitem:
        return True
    if node.op != "call_function" or not isinstance(target, OpOverload) or target in FOLDED or node.is_impure():
        return False
    random = torch.Tag.nondeterministic_seeded in target.tags or "empty" in target.__name__
    return not (random or target._schema.is_mutable or target.namespace in _QUANTIZED_NAMESPACES)


def _is_view(node: Node) -> bool:
    target = node.target
    return target is operator.getitem or target in _COPIES or (isinstance(target, OpOverload) and target.is_view)


def _sources(nodes: Iterable[Node]) -> set[Node]:
    """The nodes and all that they are computed from."""
    reached: set[Node] = set()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if node not in reached:
            reached.add(node)
            waiting += node.all_input_nodes
    return reached


def _evaluate(
    program: ExportedProgram, parameters: Mapping[Node, torch.Tensor], results: list[Node]
) -> dict[Node, Any]:
    """The values of nodes and of their sources, by eager PyTorch."""
    needed = _sources(results)
    values: dict[Node, Any] = {}
    with torch.no_grad():
        for node in program.graph.nodes:
            if node in parameters:
                values[node] = parameters[node]
            elif node in needed:
                assert callable(node.target)
                args, kwargs = torch.fx.map_arg((node.args, dict(node.kwargs)), values.__getitem__)
                values[node] = node.target(*args, **kwargs)
    return values
