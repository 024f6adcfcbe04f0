"""Llama, and with its tensors and computation Mistral; Mixtral is Llama with experts.

The files' query and key rows are permuted for rotary embeddings of neighbours, and the module rotates neighbours, so
that the tensors are used as they are.
"""

from __future__ import annotations

from typing import Any

import torch

from ...runtime.gguf_file import GgufFile
from ..fields import (
    FEED_FORWARD,
    SIZES,
    Field,
    head_dim,
    read_experts,
    read_fields,
    read_heads,
    write_fields,
    write_heads,
)
from ..names import ATTENTION, EXPERTS, Names
from ..names import FEED_FORWARD as FEED_FORWARD_NAMES
from ..rope import (
    FREQUENCY_FACTORS,
    divide_frequencies,
    frequency_factors,
    neighbours_from_halves,
    read_rope,
    rotate_neighbours,
    write_rope,
)
from .base import Architecture, register
from .experts import separate_experts

EXPERT_FIELDS = (Field("expert_count", "num_local_experts"), Field("expert_used_count", "num_experts_per_tok"))


def read(file: GgufFile) -> Any:
    """Llama's config, or Mixtral's where there are experts."""
    from transformers import LlamaConfig, MixtralConfig

    sizes = read_fields(file, (*SIZES, FEED_FORWARD)) | read_heads(file)
    rope = read_rope(file, sizes["head_dim"])
    if file.field("llama.expert_count", int, 0) > 0:
        if (gating := file.field("llama.expert_gating_func", int, 1)) not in (0, 1):
            raise file.error(f"metadata llama.expert_gating_func is {gating}, expected 1 (softmax)")
        return MixtralConfig(**sizes, **read_experts(file, EXPERT_FIELDS), sliding_window=None, rope_parameters=rope)
    return LlamaConfig(
        **sizes,
        rope_parameters=rope,
        attention_bias="blk.0.attn_q.bias" in file.tensors,
        mlp_bias="blk.0.ffn_gate.bias" in file.tensors,
    )


def write(config: Any) -> dict[str, Any]:
    """The metadata of Llama, Mistral or Mixtral. It has no sliding window: the context ends where one would slide."""
    found = write_fields(config, (*SIZES, FEED_FORWARD)) | write_heads(config) | write_rope(config)
    if config.model_type == "mixtral":
        found |= write_fields(config, EXPERT_FIELDS)
    if (window := getattr(config, "sliding_window", None)) is not None:
        found["context_length"] = min(found["context_length"], window)
    return found


def adapt(module: Any, file: GgufFile) -> None:
    """Rotate neighbours, each pair as much slower as Llama 3's factors say."""
    factors = file.tensors.get(FREQUENCY_FACTORS)
    if factors is not None:
        divide_frequencies(module.model.rotary_emb, read_factors(factors, head_dim(module.config)))
    rotate_neighbours(module)


def read_factors(tensor: Any, rotated: int) -> torch.Tensor:
    """A tensor of frequency factors."""
    if tensor.dtype.torch != torch.float32 or tensor.shape != (rotated // 2,):
        raise tensor.file.error(f"tensor {tensor.name} is not f32[{rotated // 2}]")
    factors: torch.Tensor = tensor.data.view(torch.float32)
    if not bool((factors > 0).all()):
        raise tensor.file.error(f"tensor {tensor.name} has factors that are not above 0")
    return factors


def stored(name: str, value: torch.Tensor, config: Any) -> torch.Tensor:
    """Queries and keys permuted."""
    if ".self_attn.q_proj." in name:
        return neighbours_from_halves(value, config.num_attention_heads)
    if ".self_attn.k_proj." in name:
        return neighbours_from_halves(value, config.num_key_value_heads)
    return value


def extra(module: Any) -> dict[str, torch.Tensor]:
    """The factors of Llama 3's rotary embeddings."""
    factors = frequency_factors(module.config)
    return {} if factors is None else {FREQUENCY_FACTORS: factors}


register(
    Architecture(
        name="llama",
        model_types=("llama", "mistral", "mixtral"),
        names=Names(ATTENTION | FEED_FORWARD_NAMES | EXPERTS),
        read=read,
        write=write,
        reshape=separate_experts,
        adapt=adapt,
        stored=stored,
        extra=extra,
        extra_names=(FREQUENCY_FACTORS,),
    )
)
