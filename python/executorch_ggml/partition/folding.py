"""Constants that are computed ahead of time belong to the delegate that reads them: each reader gets one of its own."""

from __future__ import annotations

from torch.export import ExportedProgram
from torch.fx import Node

from ..frontends.aten.registry import FOLDED, overload_of
from .functional import functional_copy


def one_reader_each(program: ExportedProgram) -> ExportedProgram:
    """Repeat what is folded into a constant for every reader. A delegate reads a constant, another's result it can't.

    Given   weight -> dequantize -> f, g
    Result  weight -> dequantize -> f;  weight -> dequantize -> g
    """
    if not any(_is_shared(node) for node in program.graph.nodes):
        return program
    program = functional_copy(program)  # where parts of a tensor subclass are placeholders
    for node in [node for node in program.graph.nodes if _is_shared(node)]:
        if any(source.op != "placeholder" for source in node.all_input_nodes):
            continue
        for user in list(node.users)[1:]:
            with program.graph.inserting_after(node):
                twin = program.graph.node_copy(node)
            user.replace_input_with(node, twin)
    program.graph_module.recompile()
    return program


def _is_shared(node: Node) -> bool:
    return node.op == "call_function" and overload_of(node) in FOLDED and len(node.users) > 1
