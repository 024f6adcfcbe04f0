"""Mixtures of experts as exported models compute them, registered with transformers."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers.integrations.moe import ExpertsInterface

from ..lower.experts import expert_linear
from .attention import NAME


def experts(self: Any, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
    """What each token's chosen experts give of it, added up with their weights."""
    if self.is_transposed or self.has_bias or self.has_post_expert_norm or not (self.has_gate and self.is_concatenated):
        raise ValueError(f"{type(self).__name__}: experts with biases, norms or weights in another order are not known")
    gate_up = expert_linear(hidden_states.unsqueeze(1), self.gate_up_proj, top_k_index)
    made = expert_linear(self._apply_gate(gate_up), self.down_proj, top_k_index)
    total: Tensor = (made * top_k_weights.unsqueeze(-1)).sum(dim=1)
    return total


ExpertsInterface.register(NAME, experts)
