"""Matrix products."""

from __future__ import annotations

import torch

from .module import computes

Tensor = torch.Tensor


@computes("matmul")
def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Of stacks of matrices."""
    return torch.matmul(a, b)


@computes("gemm")
def gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float,
    beta: float,
    a_transpose: bool,
    b_transpose: bool,
) -> Tensor:
    """``alpha * a @ b + beta * c``."""
    product = alpha * torch.matmul(a.T if a_transpose else a, b.T if b_transpose else b)
    return product if c is None else product + beta * c
