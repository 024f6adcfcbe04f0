"""What ExecuTorch keeps of a delegate's program: it runs that on fake tensors again for each pass after lowering."""

from __future__ import annotations

from typing import Any

import torch
from executorch.exir.dialects._ops import ops as exir_ops
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature, InputKind, OutputKind, OutputSpec, TensorArgument
from torch.fx import Graph, GraphModule, Node

from ..ir.dims import as_dim
from ..ir.op import Dim
from .placement import delegates


def outline_delegates(program: ExportedProgram) -> None:
    """Replace the original programs of a method's lowered ggml delegates by outputs of the same sizes.

    Given   tokens, weights -> a thousand nodes -> logits
    Result  tokens -> sym_size;  full(1, sym_size, 32000) -> logits

    A program stays whole where a size is not that of an input.
    """
    for delegate, _ in delegates(program):
        outlined = _outlined(delegate.original_module)
        if outlined is not None:
            delegate._original_exported_program = outlined  # what `original_module`, which has no setter, returns


def _outlined(program: ExportedProgram) -> ExportedProgram | None:
    signature, graph = program.graph_signature, Graph()
    names = {spec.arg.name for spec in signature.input_specs if spec.kind == InputKind.USER_INPUT}
    inputs = [graph.node_copy(node) for node in program.graph.find_nodes(op="placeholder") if node.name in names]
    outputs = zip(program.graph.output_node().args[0], signature.output_specs, strict=True)
    results = [_result(graph, inputs, node) for node, spec in outputs if spec.kind == OutputKind.USER_OUTPUT]
    made = [result for result in results if result is not None]
    if len(made) < len(results):
        return None
    graph.output(tuple(made)).meta["val"] = tuple(result.meta["val"] for result in made)
    taken = [spec for spec in signature.input_specs if spec.kind == InputKind.USER_INPUT]
    given = [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(name=result.name), None) for result in made]
    return ExportedProgram(
        root=GraphModule({}, graph),
        graph=graph,
        graph_signature=ExportGraphSignature(list(taken), given),
        state_dict={},
        range_constraints=program.range_constraints,
        module_call_graph=program.module_call_graph,
        constants={},
        verifiers=program.verifiers,
    )


def _result(graph: Graph, inputs: list[Node], node: Any) -> Node | None:
    """A dense tensor like a node's value, or None where it is none, or has a size that no input has."""
    value = node.meta.get("val") if isinstance(node, Node) else None
    if not isinstance(value, torch.Tensor) or not value.is_contiguous():
        return None
    sizes = [_size(graph, inputs, as_dim(size)) for size in value.shape]
    if None in sizes:
        return None
    made = graph.call_function(exir_ops.edge.aten.full.default, (sizes, 0), {"dtype": value.dtype})
    made.meta["val"] = value
    return made


def _size(graph: Graph, inputs: list[Node], size: Dim) -> Node | int | None:
    """A number, or the node that reads it from an input's shape."""
    if isinstance(size, int):
        return size
    for node in inputs:
        value = node.meta["val"]
        if isinstance(value, torch.SymInt) and as_dim(value) == size:
            return node
        for dim, of_input in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
            if as_dim(of_input) == size:
                made = graph.call_function(torch.ops.aten.sym_size.int, (node, dim))
                made.meta["val"] = of_input
                return made
    return None
