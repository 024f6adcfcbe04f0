"""Qwen 2 and 3, and those with experts."""

from __future__ import annotations

from typing import Any

from ...runtime.gguf_file import GgufFile
from .. import names
from ..fields import FEED_FORWARD, SIZES, Field, read_experts, read_fields, read_heads, write_fields, write_heads
from ..rope import read_rope, write_rope
from .base import Architecture, register
from .experts import separate_experts

EXPERT_FIELDS = (
    Field("expert_count", "num_experts"),
    Field("expert_used_count", "num_experts_per_tok"),
    Field("expert_feed_forward_length", "moe_intermediate_size"),
)
SHARED_EXPERT = Field("expert_shared_feed_forward_length", "shared_expert_intermediate_size")


def _read_dense(file: GgufFile) -> dict[str, Any]:
    sizes = read_fields(file, (*SIZES, FEED_FORWARD)) | read_heads(file)
    return sizes | {"rope_parameters": read_rope(file, sizes["head_dim"])}


def _write_dense(config: Any) -> dict[str, Any]:
    if getattr(config, "use_sliding_window", False):
        raise ValueError(f"{config.model_type} with a sliding window cannot be written as GGUF")
    return write_fields(config, (*SIZES, FEED_FORWARD)) | write_heads(config) | write_rope(config)


def _write_experts(config: Any) -> dict[str, Any]:
    if config.mlp_only_layers or config.decoder_sparse_step != 1:
        raise ValueError(f"{config.model_type} with layers that have no experts cannot be written as GGUF")
    return _write_dense(config) | write_fields(config, EXPERT_FIELDS)


def read_qwen2(file: GgufFile) -> Any:
    """Qwen 2's config; its queries, keys and values have biases."""
    from transformers import Qwen2Config

    return Qwen2Config(**_read_dense(file))


def read_qwen3(file: GgufFile) -> Any:
    """Qwen 3's config; its queries and keys have norms."""
    from transformers import Qwen3Config

    return Qwen3Config(**_read_dense(file), attention_bias="blk.0.attn_q.bias" in file.tensors)


def read_qwen2_moe(file: GgufFile) -> Any:
    """Qwen 2's config with experts, one of which is for every token."""
    from transformers import Qwen2MoeConfig

    return Qwen2MoeConfig(
        **_read_dense(file), **read_experts(file, (*EXPERT_FIELDS, SHARED_EXPERT)), norm_topk_prob=False
    )


def read_qwen3_moe(file: GgufFile) -> Any:
    """Qwen 3's config with experts, whose weights llama.cpp makes to add up to 1."""
    from transformers import Qwen3MoeConfig

    return Qwen3MoeConfig(**_read_dense(file), **read_experts(file, EXPERT_FIELDS), norm_topk_prob=True)


def write_qwen2_moe(config: Any) -> dict[str, Any]:
    """The metadata of Qwen 2 with experts."""
    if config.norm_topk_prob:
        raise ValueError("qwen2_moe with norm_topk_prob cannot be written as GGUF: llama.cpp does not do it")
    return _write_experts(config) | write_fields(config, (SHARED_EXPERT,))


def write_qwen3_moe(config: Any) -> dict[str, Any]:
    """The metadata of Qwen 3 with experts."""
    if not config.norm_topk_prob:
        raise ValueError("qwen3_moe without norm_topk_prob cannot be written as GGUF: llama.cpp always does it")
    return _write_experts(config)


_DENSE = names.ATTENTION | names.FEED_FORWARD
register(Architecture("qwen2", ("qwen2",), names.Names(_DENSE), read_qwen2, _write_dense))
register(Architecture("qwen3", ("qwen3",), names.Names(_DENSE | names.HEAD_NORMS), read_qwen3, _write_dense))
register(
    Architecture(
        "qwen2moe",
        ("qwen2_moe",),
        names.Names(names.ATTENTION | names.EXPERTS | names.SHARED_EXPERT),
        read_qwen2_moe,
        write_qwen2_moe,
        separate_experts,
    )
)
register(
    Architecture(
        "qwen3moe",
        ("qwen3_moe",),
        names.Names(names.ATTENTION | names.EXPERTS | names.HEAD_NORMS),
        read_qwen3_moe,
        write_qwen3_moe,
        separate_experts,
    )
)
