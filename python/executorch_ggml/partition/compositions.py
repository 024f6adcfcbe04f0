"""Ops that ExecuTorch has neither a kernel nor a decomposition for, as compositions of ops that ggml runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram

from ..frontends.aten.ops.experts import expert_linear
from .functional import functional_copy


def composed(program: ExportedProgram) -> ExportedProgram:
    """The program with calls of these ops decomposed; itself where there are none."""
    called = {node.target for node in program.graph.nodes if node.op == "call_function"}
    table = {op: COMPOSITIONS[str(op)] for op in called if str(op) in COMPOSITIONS}
    return functional_copy(program, table) if table else program


# Coefficients of the inverse error function over x, in powers of w = -log(1 - x * x), highest first: M. Giles,
# "Approximating the erfinv function", single precision.
_ERFINV_CENTER = (
    *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 2.1858087e-04),
    *(-1.25372503e-03, -4.17768164e-03, 2.46640727e-01, 1.50140941),
)
_ERFINV_TAIL = (
    *(-2.00214257e-04, 1.00950558e-04, 1.34934322e-03, -3.67342844e-03, 5.73950773e-03),
    *(-7.6224613e-03, 9.43887047e-03, 1.00167406, 2.83297682),
)


def _polynomial(coefficients: tuple[float, ...], x: Tensor) -> Tensor:
    result = coefficients[0] * x + coefficients[1]
    for coefficient in coefficients[2:]:
        result = result * x + coefficient
    return result


def _erfinv(x: Tensor) -> Any:
    if x.dtype == torch.float64:
        return NotImplemented
    wide = x.float()
    w = -torch.log((1 - wide) * (1 + wide))
    center, tail = _polynomial(_ERFINV_CENTER, w - 2.5), _polynomial(_ERFINV_TAIL, w.sqrt() - 3)
    result = torch.where(w < 5, center, tail) * wide
    result = torch.where(wide.abs() == 1, wide * torch.inf, result)
    return result.to(x.dtype) if x.is_floating_point() else result


def _histc(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    if min == max:  # then the limits are those of the data
        return NotImplemented
    x = x.reshape(-1)
    position = ((x - min) * bins / (max - min)).floor().clamp(max=bins - 1)
    hit = (position[:, None] == torch.arange(bins, dtype=x.dtype)) & ((x >= min) & (x <= max))[:, None]
    return hit.to(x.dtype).sum(0)


def _empty_permuted(size: Any, layout: list[int], **options: Any) -> Any:
    return torch.zeros(size, **options) if list(layout) == list(range(len(layout))) else NotImplemented


def _grouped_mm(x: Tensor, weight: Tensor, offs: Tensor) -> Any:
    """Rows ``offs[i - 1] .. offs[i]`` of x times ``weight[i]``, as transformers' mixtures of experts compute it."""
    if x.dtype != torch.float32:
        return NotImplemented
    ids = (torch.arange(x.shape[0])[:, None] >= offs).to(torch.int64).sum(1)
    last = weight.shape[0] - 1
    product = expert_linear(x[:, None], weight.mT, ids.clamp(max=last)[:, None])[:, 0]
    return torch.where((ids <= last)[:, None], product, 0.0)


# By name: transformers' op exists where its module is imported.
COMPOSITIONS: dict[str, Callable[..., Any]] = {
    "aten.empty_permuted.default": _empty_permuted,
    "aten.erfinv.default": _erfinv,
    "aten.histc.default": _histc,
    "transformers.grouped_mm_fallback.default": _grouped_mm,
}
