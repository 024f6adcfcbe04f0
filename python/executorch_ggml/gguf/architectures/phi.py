"""Phi 3 and 4 (mini): queries, keys and values in one tensor, and factors for long texts and short ones."""

from __future__ import annotations

import math
from typing import Any

import torch

from ..fields import (
    FEED_FORWARD,
    SIZES,
    Field,
    head_dim,
    read_field,
    read_fields,
    read_heads,
    write_fields,
    write_heads,
)
from ..file import GgufFile
from ..names import Names
from ..rope import divide_frequencies, read_rope, write_rope
from .base import Architecture, Load, register
from .llama import read_factors

WINDOW = Field("attention.sliding_window", "sliding_window", optional=True)
LONG, SHORT = "rope_factors_long.weight", "rope_factors_short.weight"


def read(file: GgufFile) -> Any:
    """Phi 3's config. The rotary embedding's factors are tensors, and not part of it."""
    from transformers import Phi3Config

    sizes = read_fields(file, (*SIZES, FEED_FORWARD)) | read_heads(file)
    # 0 is what converted models without a sliding window have.
    sizes[WINDOW.attribute] = file.field(f"{file.architecture}.{WINDOW.key}", int, 0) or None
    if sizes["head_dim"] * sizes["num_attention_heads"] != sizes["hidden_size"]:
        raise file.error(f"{sizes['num_attention_heads']} heads of {sizes['head_dim']} do not make up the embedding")
    rotated = read_field(file, "rope.dimension_count", int, optional=True) or sizes["head_dim"]
    if rotated > sizes["head_dim"] or rotated % 2 != 0:
        raise file.error(f"rotary embeddings turn {rotated} elements of heads of {sizes['head_dim']}")
    rope = read_rope(file, rotated) | {"partial_rotary_factor": rotated / sizes.pop("head_dim")}
    if rope["rope_type"] != "default":
        raise file.error(f"rotary embeddings scaled by {rope['rope_type']} are not supported for phi3")
    original = read_field(file, "rope.scaling.original_context_length", int, optional=True)
    return Phi3Config(
        **sizes,
        rope_parameters=rope,
        original_max_position_embeddings=original or sizes["max_position_embeddings"],
        pad_token_id=None,
    )


def adapt(module: Any, file: GgufFile, load: Load) -> None:
    """Use the factors for texts of the longest length that the module is for.

    Transformers chooses by each text's length, which no exported program can; llama.cpp by the context's, as here.
    Without a length the short factors are used, and ``max_position_embeddings`` becomes what they are good for.
    """
    config = module.config
    if SHORT not in file.tensors and LONG not in file.tensors:
        return
    original, whole = config.original_max_position_embeddings, config.max_position_embeddings
    name = LONG if (load.max_seq_len or original) > original else SHORT
    if name not in file.tensors:
        raise file.error(f"tensor {name} is missing")
    factor = whole / original
    usual = math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0
    attention = read_field(file, "rope.scaling.attn_factor", float, optional=True) or usual
    rotated = int(head_dim(config) * config.rope_parameters["partial_rotary_factor"])
    divide_frequencies(module.model.rotary_emb, read_factors(file.tensors[name], rotated), attention)
    if name == SHORT:
        config.max_position_embeddings = min(original, whole)


def write(config: Any) -> dict[str, Any]:
    """Phi 3's metadata."""
    found = write_fields(config, (*SIZES, FEED_FORWARD, WINDOW)) | write_heads(config) | write_rope(config)
    rope = config.rope_parameters
    if rope["rope_type"] == "longrope":
        factor = config.max_position_embeddings / config.original_max_position_embeddings
        usual = math.sqrt(1 + math.log(factor) / math.log(config.original_max_position_embeddings))
        found |= {
            "rope.scaling.original_context_length": config.original_max_position_embeddings,
            "rope.scaling.attn_factor": float(rope.get("attention_factor") or (usual if factor > 1 else 1.0)),
        }
    return found


def extra(module: Any) -> dict[str, torch.Tensor]:
    """The factors."""
    rope = module.config.rope_parameters
    if rope["rope_type"] != "longrope":
        return {}
    return {LONG: torch.tensor(rope["long_factor"]), SHORT: torch.tensor(rope["short_factor"])}


register(
    Architecture(
        name="phi3",
        model_types=("phi3",),
        names=Names(
            {
                "input_layernorm": "attn_norm",
                "self_attn.qkv_proj": "attn_qkv",
                "self_attn.o_proj": "attn_output",
                "post_attention_layernorm": "ffn_norm",
                "mlp.gate_up_proj": "ffn_up",
                "mlp.down_proj": "ffn_down",
            }
        ),
        read=read,
        write=write,
        adapt=adapt,
        extra=extra,
        extra_names=(LONG, SHORT),
    )
)
