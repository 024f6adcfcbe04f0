"""Mixtures of experts as exported models compute them, registered with transformers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from transformers.integrations.moe import ExpertsInterface

from .frontends.aten.ops.experts import expert_linear

NAME = "executorch_ggml"


def experts(self: Any, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
    """The outputs of each token's chosen experts, added up with their weights.

    ``self`` is a module of transformers' ``use_experts_implementation``, whose attributes say how weights are stored.
    """
    if self._is_expert_parallel:
        raise ValueError(f"{type(self).__name__}: experts are spread over several processes; export the whole model")
    hidden = _linear(self, "gate_up_proj" if self.has_gate else "up_proj", hidden_states.unsqueeze(1), top_k_index)
    hidden = self._apply_gate(hidden) if self.has_gate else self.act_fn(hidden)
    output = _linear(self, "down_proj", hidden, top_k_index)
    if self.has_post_expert_norm:
        output = self.post_expert_norm(output)
    total: Tensor = (output * top_k_weights.unsqueeze(-1)).sum(dim=1)
    return total.to(hidden_states.dtype)


def _linear(self: Any, name: str, x: Tensor, ids: Tensor) -> Tensor:
    weight = getattr(self, name)
    output: Tensor = expert_linear(x, weight.mT if self.is_transposed else weight, ids)
    return output + getattr(self, f"{name}_bias")[ids] if self.has_bias else output


ExpertsInterface.register(NAME, experts)


@contextmanager
def exported_experts(model: nn.Module) -> Iterator[None]:
    """Have all mixtures of experts in a module use this implementation, and their own again afterwards."""
    found = (module.config for module in model.modules() if hasattr(module, "_is_expert_parallel"))
    configs: dict[int, Any] = {id(config): config for config in found}
    before = {key: config._experts_implementation for key, config in configs.items()}
    try:
        for config in configs.values():
            config._experts_implementation = NAME
        yield
    finally:
        for key, config in configs.items():
            config._experts_implementation = before[key]
