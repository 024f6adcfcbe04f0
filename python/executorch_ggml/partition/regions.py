"""Regions of a program with settings of their own: autocast, or gradients switched off."""

from __future__ import annotations

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule

from .functional import functional_copy

# torch puts what was traced under these settings into submodules; inlined, autocast's casts become nodes.
INLINED = (torch.ops.higher_order.wrap_with_autocast, torch.ops.higher_order.wrap_with_set_grad_enabled)


def inlined(program: ExportedProgram) -> ExportedProgram:
    """Put the bodies of such regions in their place.

    Given   x -> wrap_with_autocast(bfloat16, body: linear) -> y
    Result  x -> to(bfloat16) -> linear -> y

    The program is a copy where it changes.
    """
    modules = (part for part in program.graph_module.modules() if isinstance(part, GraphModule))
    if not any(node.target in INLINED for module in modules for node in module.graph.nodes):
        return program
    return functional_copy(program)
