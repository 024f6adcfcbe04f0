"""Attention as the exported models call it, registered with transformers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

NAME = "executorch_ggml"


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attention of ``[batch, heads, tokens, head]``, key heads shared by groups of query heads."""
    del module, dropout, kwargs
    if softcap is None:
        grouped = query.shape[1] != key.shape[1]
        made = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=attention_mask, scale=scaling, enable_gqa=grouped
        )
    else:
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        made = _capped(query, key, value, attention_mask, scale, softcap)
    return made.transpose(1, 2), None


def _capped(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float, cap: float) -> Tensor:
    """Attention whose scores are bent to stay within ``cap``."""
    groups = query.shape[1] // key.shape[1]
    key, value = (_repeated(states, groups) for states in (key, value))
    scores = torch.tanh(torch.matmul(query, key.transpose(2, 3)) * (scale / cap)) * cap
    if mask is not None:
        scores = torch.where(mask, scores, -torch.inf)
    return torch.matmul(torch.softmax(scores, dim=-1), value)


def _repeated(states: Tensor, groups: int) -> Tensor:
    return states if groups == 1 else states.repeat_interleave(groups, dim=1)


def mask(
    batch_size: int,
    q_length: Any,
    kv_length: Any,
    q_offset: Any = 0,
    kv_offset: Any = 0,
    mask_function: Callable[..., Tensor] | None = None,
    attention_mask: Tensor | None = None,
    **kwargs: Any,
) -> Tensor:
    """Which of the rows that are read each token attends to, as booleans ``[1, 1, tokens, rows]``."""
    del batch_size, q_length, kwargs
    assert attention_mask is None, "an exported model takes no padding"
    assert mask_function is not None
    queries: Tensor = q_offset  # all of their positions: the cache gives them
    rows = torch.arange(kv_offset, kv_offset + kv_length)
    zero = torch.zeros((), dtype=torch.int64)
    return mask_function(zero, zero, queries[None, None, :, None], rows[None, None, None, :])


AttentionInterface.register(NAME, attention)
AttentionMaskInterface.register(NAME, mask)


@contextmanager
def exported_functions(model: PreTrainedModel) -> Iterator[None]:
    """Have a model use this attention, and these experts, and its own again afterwards."""
    configs = {id(module.config): module.config for module in model.modules() if isinstance(module, PreTrainedModel)}
    before = {key: (config._attn_implementation, config._experts_implementation) for key, config in configs.items()}
    try:
        for config in configs.values():
            config._attn_implementation = config._experts_implementation = NAME
        yield
    finally:
        for key, config in configs.items():
            config._attn_implementation, config._experts_implementation = before[key]
