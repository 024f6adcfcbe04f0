"""Phi 3 and 4 (mini): queries, keys and values in one tensor, and factors for long texts and short ones."""

from __future__ import annotations

from typing import Any

import torch

from ...runtime.gguf_file import GgufFile
from ..fields import (
    FEED_FORWARD,
    SIZES,
    Field,
    read_field,
    read_fields,
    read_heads,
    write_fields,
    write_heads,
)
from ..names import Names
from ..rope import read_rope, write_rope
from .base import Architecture, register
from .llama import read_factors

WINDOW = Field("attention.sliding_window", "sliding_window", optional=True)
LONG, SHORT = "rope_factors_long.weight", "rope_factors_short.weight"


def read(file: GgufFile) -> Any:
    """Phi 3's config, of which the rotary embedding's factors are tensors."""
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
    original = original or sizes["max_position_embeddings"]
    if LONG in file.tensors or SHORT in file.tensors:
        rope |= _read_longrope(file, rotated) | {
            "original_max_position_embeddings": original,
            "factor": max(sizes["max_position_embeddings"] / original, 1.0),
        }
    return Phi3Config(**sizes, rope_parameters=rope, original_max_position_embeddings=original, pad_token_id=None)


def _read_longrope(file: GgufFile, rotated: int) -> dict[str, Any]:
    for name in (LONG, SHORT):
        if name not in file.tensors:
            raise file.error(f"tensor {name} is missing")
    return {
        "rope_type": "longrope",
        "long_factor": read_factors(file.tensors[LONG], rotated).tolist(),
        "short_factor": read_factors(file.tensors[SHORT], rotated).tolist(),
        # llama.cpp takes 1 where the file has none, and does not compute it from the lengths as transformers does.
        "attention_factor": read_field(file, "rope.scaling.attn_factor", float, optional=True) or 1.0,
    }


def write(config: Any) -> dict[str, Any]:
    """Phi 3's metadata."""
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    found = write_fields(config, (*SIZES, FEED_FORWARD, WINDOW)) | write_heads(config) | write_rope(config)
    rope = config.rope_parameters
    if rope["rope_type"] == "longrope":
        found |= {
            "rope.scaling.original_context_length": rope["original_max_position_embeddings"],
            "rope.scaling.attn_factor": float(ROPE_INIT_FUNCTIONS["longrope"](config)[1]),
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
        extra=extra,
        extra_names=(LONG, SHORT),
    )
)
