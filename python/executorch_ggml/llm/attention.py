"""Attention as the exported models call it, registered with transformers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import bidirectional_mask_function

from ..experts import exported_experts
from ..frontends.aten.ops.attention import softcapped_attention

NAME = "executorch_ggml"
OWN = "executorch_ggml_own"  # for models that compute attention themselves


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
    position_bias: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attention of ``[batch, heads, tokens, head]``, key heads shared by groups of query heads."""
    del dropout
    if kwargs.get("s_aux") is not None:
        raise ValueError(f"{type(module).__name__}: attention with sinks is not known")
    if position_bias is not None and not _is_cross(module):
        attention_mask = position_bias if attention_mask is None else position_bias.where(attention_mask, -torch.inf)
    if softcap is None:
        grouped = query.shape[1] != key.shape[1]
        made = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=attention_mask, scale=scaling, enable_gqa=grouped
        )
    else:
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        made = softcapped_attention(query, key, value, attention_mask, scale, softcap)
    return made.transpose(1, 2), None


def _is_cross(module: Any) -> bool:
    """Whether a module that gives a bias for positions is the cross-attention, where T5's is a tensor of zeros."""
    return getattr(module, "is_decoder", False) and not getattr(module, "is_causal", True)


def mask(
    batch_size: int,
    q_length: Any,
    kv_length: Any,
    q_offset: Any = 0,
    kv_offset: Any = 0,
    mask_function: Callable[..., Tensor] | None = None,
    attention_mask: Tensor | None = None,
    **kwargs: Any,
) -> Tensor | None:
    """Which of the rows that are read each token attends to, as booleans ``[batch, 1, tokens, rows]``; None for all."""
    del batch_size, kwargs
    if mask_function is bidirectional_mask_function:
        return None if attention_mask is None else attention_mask[:, None, None, :]
    assert mask_function is not None
    queries = q_offset if isinstance(q_offset, Tensor) else torch.arange(q_length)  # the cache gives all positions
    rows = torch.arange(kv_offset, kv_offset + kv_length)
    zero = torch.zeros((), dtype=torch.int64)
    seen = mask_function(zero, zero, queries[None, None, :, None], rows[None, None, None, :])
    return seen if attention_mask is None else seen & attention_mask[:, None, None, :]


def added_mask(*args: Any, **kwargs: Any) -> Tensor | None:
    """The same as numbers that are added to scores, as models take it that compute attention themselves."""
    seen = mask(*args, **kwargs)
    return None if seen is None else torch.where(seen, 0.0, torch.finfo(torch.float32).min)


AttentionInterface.register(NAME, attention)
AttentionMaskInterface.register(NAME, mask)
AttentionMaskInterface.register(OWN, added_mask)


@contextmanager
def exported_functions(model: PreTrainedModel) -> Iterator[None]:
    """Have a model use this attention, and these experts, and its own again afterwards.

    One that has no choice of attention keeps its own, and gets masks that fit it.
    """
    modules = [module for module in model.modules() if isinstance(module, PreTrainedModel)]
    configs: dict[int, Any] = {id(module.config): module.config for module in modules}
    before = {key: config._attn_implementation for key, config in configs.items()}
    chosen = NAME if model._can_set_attn_implementation() else OWN  # what a class says it supports may be its own
    try:
        for config in configs.values():
            config._attn_implementation = chosen
        with exported_experts(model):
            yield
    finally:
        for key, config in configs.items():
            config._attn_implementation = before[key]
