"""Every node that ggml's own ops can compute, in those.

Given::

    %0 = permute(%image, axes=(1, 2, 0, 3))
    %1 = cont(%0)
    %2 = conv_2d(%1, @weight, @bias, epilogue=relu)     # channels innermost

Result::

    %0 = conv_2d_direct(%image, @weight)                # width innermost
    %1 = add(%0, @bias as one number a channel)
    %2 = relu(%1)
    %3 = permute(%2, axes=(1, 2, 0, 3))

Values stay in the layout that they are computed in: a permuted view stands for the dense tensor that the CPU's graph
has, elementwise ops work on what the view is of, and pairs of permutations cancel. What has no such form stays as it
is, and is the CPU's.
"""

from __future__ import annotations

from ...ir.graph import Graph
from ...passes.rewrite import Rewriter
from . import elementwise, layers, rows
from .rules import RULES

__all__ = ["elementwise", "layers", "rows", "run"]


def run(graph: Graph) -> Graph:
    """The graph in stock ops, as far as there are any."""
    return Rewriter(graph).run(RULES)
