"""Mixtures of experts: linear layers of which each token uses a few.

PyTorch has no operator for them, so this module defines one for models to call.
"""

from __future__ import annotations

from typing import Any

import torch

from ....ir.dims import product
from ....ir.dtypes import DType
from ..context import Context, Tensor
from ..registry import Refused, lowers
from .indexing import is_index

_LIBRARY: Any = torch.library.Library("executorch_ggml", "FRAGMENT")  # type: ignore[no-untyped-call] # torch has no types for it
_LIBRARY.define("expert_linear(Tensor x, Tensor weight, Tensor ids) -> Tensor")


def _expert_linear(x: torch.Tensor, weight: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    return (weight[ids] @ x.unsqueeze(-1)).squeeze(-1)


_LIBRARY.impl("expert_linear", _expert_linear, "CompositeExplicitAutograd")

expert_linear = torch.ops.executorch_ggml.expert_linear.default


@lowers(expert_linear)
def _expert_linear_lowering(cx: Context, x: Tensor, weight: Tensor, ids: Tensor) -> Tensor | Refused:
    """``weight[ids] @ x``: ids ``[tokens, k]``, weight ``[experts, out, in]``, x ``[tokens, k or 1, in]``."""
    if (x.rank, weight.rank, ids.rank) != (3, 3, 2):
        return Refused(f"experts with operands of {x.rank}, {weight.rank} and {ids.rank} dims, expected 3, 3 and 2")
    if x.dtype != DType.F32 or weight.dtype != DType.F32 or not is_index(ids):
        return Refused("experts in other than float32, or chosen by other than integers")
    stored = cx.as_stored(weight)
    flat = cx.builder.reshape(ids.value, (product(ids.shape),))
    chosen = cx.builder.emit("to_index", flat, size=weight.shape[0], wrap=False)
    chosen = cx.builder.reshape(chosen, (ids.shape[1], ids.shape[0]))
    return cx.out(cx.builder.emit("mul_mat_id", weight.value if stored is None else stored, x.value, chosen))
