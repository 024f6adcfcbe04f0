"""Mixtures of experts as files have them: a tensor for the gates of all, one for what they gate, one for the rest."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ...frontends.aten.ops.experts import expert_linear


class Experts(nn.Module):
    """What transformers' experts compute, with their ``gate_up_proj`` in two parts."""

    def __init__(self, experts: Any) -> None:
        super().__init__()
        count, doubled, width = experts.gate_up_proj.shape
        like = {"dtype": experts.gate_up_proj.dtype, "device": experts.gate_up_proj.device}
        self.gate_proj = nn.Parameter(torch.empty(count, doubled // 2, width, **like), requires_grad=False)
        self.up_proj = nn.Parameter(torch.empty(count, doubled // 2, width, **like), requires_grad=False)
        self.down_proj = experts.down_proj
        self.act_fn = experts.act_fn

    def forward(self, hidden: torch.Tensor, chosen: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
        """``hidden`` [tokens, width], ``chosen`` experts of each and their ``shares`` [tokens, k]."""
        gates = expert_linear(hidden.unsqueeze(1), self.gate_proj, chosen)
        gated = self.act_fn(gates) * expert_linear(hidden.unsqueeze(1), self.up_proj, chosen)
        made: torch.Tensor = expert_linear(gated, self.down_proj, chosen) * shares.unsqueeze(-1)
        return made.sum(1)


def separate_experts(module: Any) -> None:
    """Have all layers' experts in parts."""
    for layer in module.model.layers:
        if hasattr(layer.mlp, "experts"):
            layer.mlp.experts = Experts(layer.mlp.experts)
