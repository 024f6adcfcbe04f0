"""Constants of no elements: ExecuTorch cannot load a program whose constants have no bytes at all."""

from __future__ import annotations

import torch
from executorch.backends.transforms.utils import delete_constant_placeholder
from torch.export import ExportedProgram
from torch.fx import Node

from ..frontends.aten.graph import constant_sources, mutated_buffers
from .functional import functional_copy


def without_empty_constants(program: ExportedProgram) -> ExportedProgram:
    """The program with calls that make its empty constants, and none for those that nothing reads.

    Transformers' caches start with such tensors. The program is returned as it is where there are none; else the result
    is a copy.
    """
    if not _empty_constants(program):
        return program
    program = functional_copy(program)
    first = next(node for node in program.graph.nodes if node.op != "placeholder")
    for node in _empty_constants(program):
        if node.users:
            with program.graph.inserting_before(first):
                node.replace_all_uses_with(_made(node))
        delete_constant_placeholder(program, node)
    program.graph_module.recompile()
    return program


def _empty_constants(program: ExportedProgram) -> list[Node]:
    names = constant_sources(program).keys() - mutated_buffers(program)
    placeholders = [node for node in program.graph.find_nodes(op="placeholder") if node.name in names]
    return [node for node in placeholders if isinstance(node.meta["val"], torch.Tensor) and 0 in node.meta["val"].shape]


def _made(constant: Node) -> Node:
    fake = constant.meta["val"]
    made = constant.graph.call_function(torch.ops.aten.full.default, (list(fake.shape), 0), {"dtype": fake.dtype})
    made.meta["val"] = fake
    return made
