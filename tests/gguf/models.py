"""Small models of every family, with random weights, and GGUF files made by hand."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    Gemma3TextConfig,
    GemmaConfig,
    LlamaConfig,
    MistralConfig,
    MixtralConfig,
    Phi3Config,
    Qwen2Config,
    Qwen2MoeConfig,
    Qwen3Config,
    Qwen3MoeConfig,
)

DEFAULT_ROPE = {"rope_type": "default", "rope_theta": 10000.0}
VOCABULARY = 96
# Rows are multiples of 32, so that they can be quantized; heads are not the embedding's share where a family allows it.
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": None,
}
GEMMA = {**SIZES, "head_dim": 32, "tie_word_embeddings": True}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 16}
LONG_ROPE = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0 + 0.1 * i for i in range(8)],
    "long_factor": [2.0 + i for i in range(8)],
}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}

CONFIGS: dict[str, Callable[[], Any]] = {
    "llama": lambda: LlamaConfig(**SIZES, rope_parameters=DEFAULT_ROPE),
    "llama-tied-wide-heads": lambda: LlamaConfig(
        **SIZES, head_dim=32, tie_word_embeddings=True, rope_parameters={**DEFAULT_ROPE, "rope_theta": 500000.0}
    ),
    "llama-biases": lambda: LlamaConfig(**SIZES, attention_bias=True, mlp_bias=True, rope_parameters=DEFAULT_ROPE),
    "llama-3": lambda: LlamaConfig(**SIZES, rope_parameters=LLAMA3),
    "llama-3-tied": lambda: LlamaConfig(
        **{**SIZES, "num_hidden_layers": 1}, rope_parameters=LLAMA3, tie_word_embeddings=True
    ),
    "llama-linear": lambda: LlamaConfig(
        **SIZES, rope_parameters={**DEFAULT_ROPE, "rope_type": "linear", "factor": 2.0}
    ),
    "llama-yarn": lambda: LlamaConfig(**SIZES, rope_parameters=YARN),
    "mistral": lambda: MistralConfig(**SIZES, sliding_window=None, rope_parameters=DEFAULT_ROPE),
    "mixtral": lambda: MixtralConfig(
        **SIZES, num_local_experts=4, num_experts_per_tok=2, rope_parameters=DEFAULT_ROPE, sliding_window=None
    ),
    "qwen2": lambda: Qwen2Config(**SIZES, rope_parameters=DEFAULT_ROPE),
    "qwen2-moe": lambda: Qwen2MoeConfig(
        **SIZES, **EXPERTS, shared_expert_intermediate_size=64, rope_parameters=DEFAULT_ROPE
    ),
    "qwen3": lambda: Qwen3Config(**SIZES, head_dim=32, tie_word_embeddings=True, rope_parameters=DEFAULT_ROPE),
    "qwen3-moe": lambda: Qwen3MoeConfig(
        **SIZES, **EXPERTS, head_dim=32, norm_topk_prob=True, rope_parameters=DEFAULT_ROPE
    ),
    "gemma": lambda: GemmaConfig(**GEMMA, rope_parameters=DEFAULT_ROPE),
    "gemma2": lambda: Gemma2Config(**GEMMA, sliding_window=8, query_pre_attn_scalar=32, rope_parameters=DEFAULT_ROPE),
    "gemma3": lambda: Gemma3TextConfig(
        **{**GEMMA, "num_hidden_layers": 6},
        sliding_window=8,
        query_pre_attn_scalar=32,
        rope_parameters={
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        },
    ),
    "phi3": lambda: Phi3Config(**SIZES, rope_parameters={**DEFAULT_ROPE, "partial_rotary_factor": 0.5}),
    "phi3-window": lambda: Phi3Config(**SIZES, sliding_window=8, rope_parameters=DEFAULT_ROPE),
    "phi3-long": lambda: Phi3Config(**SIZES, original_max_position_embeddings=32, rope_parameters=LONG_ROPE),
}


def make(name: str, **changes: Any) -> Any:
    """A model whose every parameter, norms and biases too, is random."""
    torch.manual_seed(0)
    config = CONFIGS[name]()
    vars(config).update(changes)
    config._attn_implementation = "eager"  # soft caps and windows as they are written down
    model = AutoModelForCausalLM.from_config(config).eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.copy_(torch.randn(parameter.shape) * 0.1 + (0.5 if parameter.dim() == 1 else 0.0))
    return model


def tokens(length: int = 24) -> torch.Tensor:
    return torch.randint(0, VOCABULARY, (1, length), generator=torch.Generator().manual_seed(1))


def logits(model: Any, ids: torch.Tensor) -> torch.Tensor:
    return model(ids, use_cache=False).logits


# GGUF's numbers of types in metadata
U32, F32, STRING, ARRAY = 4, 6, 8, 9


class FileMaker:
    """A GGUF file byte by byte, so that any of it can be wrong."""

    def __init__(self) -> None:
        self.entries: list[bytes] = []
        self.tensors: list[bytes] = []
        self.data = b""
        self.magic, self.version = b"GGUF", 3
        self.counts: tuple[int, int] | None = None

    @staticmethod
    def text(value: str | bytes) -> bytes:
        raw = value.encode() if isinstance(value, str) else value
        return struct.pack("<Q", len(raw)) + raw

    def entry(self, key: str, kind: int, value: bytes) -> FileMaker:
        self.entries.append(self.text(key) + struct.pack("<I", kind) + value)
        return self

    def string(self, key: str, value: str) -> FileMaker:
        return self.entry(key, STRING, self.text(value))

    def number(self, key: str, value: int) -> FileMaker:
        return self.entry(key, U32, struct.pack("<I", value))

    def tensor(
        self, name: str, ne: list[int], kind: int = 0, offset: int | None = None, data: bytes | None = None
    ) -> FileMaker:
        place = len(self.data) if offset is None else offset
        dims = struct.pack(f"<I{len(ne)}q", len(ne), *ne)
        self.tensors.append(self.text(name) + dims + struct.pack("<IQ", kind, place))
        if data is not None:
            self.data += data + bytes(-len(data) % 32)
        return self

    def bytes(self) -> bytes:
        tensors, entries = self.counts or (len(self.tensors), len(self.entries))
        head = self.magic + struct.pack("<IQQ", self.version, tensors, entries)
        head += b"".join(self.entries) + b"".join(self.tensors)
        return head + bytes(-len(head) % 32) + self.data

    def write(self, path: Path) -> Path:
        path.write_bytes(self.bytes())
        return path
