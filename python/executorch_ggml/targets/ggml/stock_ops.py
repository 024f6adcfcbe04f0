"""Every node that ggml's own ops can compute, in those.

Given::

    %0 = conv_2d(%image, @weight, @bias, epilogue=relu)

Result::

    %0 = conv_2d(%image, @weight)
    %1 = add(%0, @bias as one number a channel)
    %2 = relu(%1)

Values stay in the layout that they are computed in: a permuted view stands for a dense tensor, elementwise ops work on
what the view is of, and pairs of permutations cancel. What has no such form is the CPU's, as it is, or with the image
in the order that the CPU's kernel reads.
"""

from __future__ import annotations

from ...ir.graph import Graph
from ...passes.rewrite import Rewriter
from . import elementwise, layers, recurrent, rows
from .rules import RULES

__all__ = ["elementwise", "layers", "recurrent", "rows", "run"]


def run(graph: Graph) -> Graph:
    """The graph in stock ops, as far as there are any."""
    return Rewriter(graph).run(RULES)
