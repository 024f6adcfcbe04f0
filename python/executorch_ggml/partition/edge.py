"""From traced methods to an Edge program with ggml's delegates."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from executorch.exir import EdgeCompileConfig, EdgeProgramManager, to_edge_transform_and_lower
from executorch.exir._program_utils import _get_updated_graph_signature
from executorch.exir.backend.backend_api import MethodProgramsPartitionerSpec, to_backend
from executorch.exir.backend.partitioner import Partitioner
from executorch.exir.pass_base import ExportPass
from executorch.exir.passes import RemoveNoopPass
from executorch.exir.passes.debug_handle_generator_pass import DebugHandleGeneratorPass
from executorch.exir.passes.fold_redundant_qdq_pass import FoldRedundantDequantizeQuantizePass
from executorch.exir.passes.prune_empty_tensors_pass import PruneEmptyTensorsPass
from executorch.exir.passes.remove_noop_pass import RemoveToCopyPass
from executorch.exir.verification.verifier import EXIREdgeDialectVerifier
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.traceback import NodeSource, NodeSourceAction

from ..frontends.aten.graph import is_size_node
from .assertions import is_assertion
from .functional import FunctionalProgram, decomposition_table
from .outlines import outline_delegates
from .partitioner import GgmlPartitioner

# ExecuTorch's passes that remove no-ops without retracing the graph.
_SIMPLIFICATIONS: Sequence[ExportPass] = (
    RemoveNoopPass(),
    PruneEmptyTensorsPass(),
    RemoveToCopyPass(),
    FoldRedundantDequantizeQuantizePass(),
)


def lowered_to_edge(
    programs: Mapping[str, ExportedProgram],
    partitioner: GgmlPartitioner,
    *,
    constant_methods: Mapping[str, Any] | None = None,
    generate_etrecord: bool = False,
) -> EdgeProgramManager:
    """What ``to_edge_transform_and_lower`` makes of methods, in less time for those that ggml computes alone.

    ExecuTorch makes an Edge program of a method before it asks a partitioner. Eight of its passes run each node on fake
    tensors for that, about half of the time that it takes, and the lowering reads Core ATen as well. So where no method
    leaves a tensor to be computed by ExecuTorch, they are partitioned first:

    Given   tokens, weights -> a thousand nodes of Core ATen -> logits
    Result  tokens -> a delegate of ggml -> logits

    Nodes then have the names that they have in Core ATen. An ETRecord (``generate_etrecord``) is of Edge programs.
    """
    methods, partitioners = dict(programs), [partitioner]
    if not generate_etrecord:
        methods = {name: partitioner.core_aten(program) for name, program in programs.items()}
        if all(_computed_by_ggml(program, partitioner) for program in methods.values()):
            methods, partitioners = _delegated(methods, partitioner), []
    edge = to_edge_transform_and_lower(
        methods,
        partitioner=list[Partitioner](partitioners),
        compile_config=_config(),
        constant_methods=None if constant_methods is None else dict(constant_methods),
        generate_etrecord=generate_etrecord,
    )
    if partitioners and not generate_etrecord:
        for method in edge.methods:
            outline_delegates(edge.exported_program(method))
    return edge


def _config() -> EdgeCompileConfig:
    # ExecuTorch's verifier specializes a symbolic batch where an op returns a list (split, in a GRU).
    return EdgeCompileConfig(_check_ir_validity=False)


def _computed_by_ggml(program: ExportedProgram, partitioner: GgmlPartitioner) -> bool:
    """Whether nothing is left to ExecuTorch but numbers: sizes, and assertions about them."""
    return all(_is_about_sizes(node) for node in partitioner.refusals(program))


def _is_about_sizes(node: Node) -> bool:
    return is_size_node(node) or is_assertion(node) or (node.meta.get("val") is None and not node.users)


def _delegated(methods: Mapping[str, ExportedProgram], partitioner: GgmlPartitioner) -> dict[str, ExportedProgram]:
    """Partition Core ATen methods and lower their partitions to delegates; the result is not decomposed again."""
    simple = {name: _simplified(program) for name, program in methods.items()}
    lowered: dict[str, ExportedProgram] = to_backend(
        MethodProgramsPartitionerSpec(simple, dict.fromkeys(methods, partitioner))
    )
    for program in lowered.values():
        outline_delegates(program)
    return {name: FunctionalProgram.of(program, decomposition_table()) for name, program in lowered.items()}


def _simplified(program: ExportedProgram) -> ExportedProgram:
    """A program as partitioners expect it: simplified, with debug handles, and with delegates allowed in it."""
    # A copy, since fx renames inputs that are called like functions of Python, and ExecuTorch copies graphs.
    module = GraphModule(program.graph_module, copy.deepcopy(program.graph))
    for simplification in _SIMPLIFICATIONS:
        simplification(module)
    for node in module.graph.nodes:
        node.meta.setdefault("from_node", [NodeSource(node, GgmlPartitioner.__name__, NodeSourceAction.CREATE)])
    DebugHandleGeneratorPass()(module)
    return ExportedProgram(
        root=module,
        graph=module.graph,
        graph_signature=_get_updated_graph_signature(program.graph_signature, module),
        state_dict=program.state_dict,
        range_constraints=program.range_constraints,
        module_call_graph=program.module_call_graph,
        example_inputs=program.example_inputs,
        constants=program.constants,
        verifiers=[EXIREdgeDialectVerifier(_config(), class_only=True)],
    )
