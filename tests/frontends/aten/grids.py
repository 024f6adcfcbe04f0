"""Models that round their tensors to integers, as PT2E's do."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import Tensor

from executorch_ggml.frontends.aten.ops import quantized
from executorch_ggml.ir.graph import Graph

decomposed = quantized.decomposed
RANGES = {torch.int8: (-128, 127), torch.uint8: (0, 255)}


@dataclass(frozen=True)
class Grid:
    """Integers that stand for numbers."""

    scale: float
    zero: int
    dtype: torch.dtype = torch.int8

    def round(self, x: Tensor) -> Tensor:
        return decomposed.quantize_per_tensor(x, self.scale, self.zero, *RANGES[self.dtype], self.dtype)

    def numbers(self, x: Tensor) -> Tensor:
        return decomposed.dequantize_per_tensor(x, self.scale, self.zero, *RANGES[self.dtype], self.dtype)

    def of(self, x: Tensor) -> Tensor:
        return self.numbers(self.round(x))


def grids() -> st.SearchStrategy[Grid]:
    scale, signed = st.sampled_from((0.0371, 0.25, 0.013)), st.integers(-128, 127)
    return st.one_of(st.builds(Grid, scale, signed), st.builds(Grid, scale, st.integers(0, 255), st.just(torch.uint8)))


def ops_of(graph: Graph) -> set[str]:
    return {node.op for node in graph.nodes}
