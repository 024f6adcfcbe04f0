"""Gemma 1, 2 and 3 (its text model). The files' norm weights have the 1 added that transformers adds in each call."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ...runtime.gguf_file import GgufFile
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
from ..names import ATTENTION, HEAD_NORMS, Names
from ..names import FEED_FORWARD as FEED_FORWARD_NAMES
from ..rope import read_rope, write_rope
from .base import Architecture, Reader, Writer, register

SOFT_CAPS = (
    Field("attn_logit_softcapping", "attn_logit_softcapping", float, optional=True),
    Field("final_logit_softcapping", "final_logit_softcapping", float, optional=True),
)
WINDOW = Field("attention.sliding_window", "sliding_window")
# One layer in so many sees everything; llama.cpp knows these numbers too.
PATTERNS = {"gemma2": 2, "gemma3": 6}
# The layers of the 27B models, which scale attention by the embedding's share of a head, not by the head's size.
SCALED_BY_EMBEDDING = {"gemma2": 46, "gemma3": 62}
SLIDING_THETA = 10000.0


class Norm(nn.Module):
    """Gemma's RMS norm with the whole factor as its weight."""

    def __init__(self, norm: Any) -> None:
        super().__init__()
        self.eps: float = norm.eps
        self.weight = norm.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """As transformers has it, without the addition of 1."""
        values = x.float()
        values = values * torch.rsqrt(values.pow(2).mean(-1, keepdim=True) + self.eps)
        made: torch.Tensor = (values * self.weight.float()).type_as(x)
        return made


def adapt(module: Any, file: GgufFile) -> None:
    """Take norm weights as they are."""
    del file
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if type(child).__name__ in ("GemmaRMSNorm", "Gemma2RMSNorm", "Gemma3RMSNorm"):
                setattr(parent, name, Norm(child))


def stored(name: str, value: torch.Tensor, config: Any) -> torch.Tensor:
    """Norm weights with the 1 added."""
    del config
    return value + 1 if name.endswith("norm.weight") else value


def _sizes(file: GgufFile) -> dict[str, Any]:
    return read_fields(file, (*SIZES, FEED_FORWARD)) | read_heads(file)


def _scaled_by(architecture: str, sizes: Any) -> int:
    """The number whose root scales attention down. No metadata says it; llama.cpp tells models by their layers."""
    if sizes["num_hidden_layers"] == SCALED_BY_EMBEDDING[architecture]:
        return int(sizes["hidden_size"] // sizes["num_attention_heads"])
    return int(sizes["head_dim"])


def _layer_types(file: GgufFile, layers: int) -> list[str]:
    period = PATTERNS[file.architecture]
    given = file.metadata.get(f"{file.architecture}.attention.sliding_window_pattern", period)
    if isinstance(given, list):  # a truth value for each layer: whether its window slides
        if len(given) != layers or any(type(slides) is not bool for slides in given):
            raise file.error(f"attention.sliding_window_pattern is not a truth value for each of {layers} layers")
        return ["sliding_attention" if slides else "full_attention" for slides in given]
    if type(given) is not int or given < 1:
        raise file.error(f"attention.sliding_window_pattern is {given!r}, expected a number above 0")
    return _pattern(given, layers)


def _pattern(period: int, layers: int) -> list[str]:
    return ["sliding_attention" if (layer + 1) % period else "full_attention" for layer in range(layers)]


def _windows(file: GgufFile, sizes: dict[str, Any]) -> dict[str, Any]:
    return {
        **read_fields(file, (*SOFT_CAPS, WINDOW)),
        "layer_types": _layer_types(file, sizes["num_hidden_layers"]),
        "query_pre_attn_scalar": _scaled_by(file.architecture, sizes),
    }


def read_gemma(file: GgufFile) -> Any:
    """Gemma's config."""
    from transformers import GemmaConfig

    sizes = _sizes(file)
    return GemmaConfig(**sizes, rope_parameters=read_rope(file, sizes["head_dim"]))


def read_gemma2(file: GgufFile) -> Any:
    """Gemma 2's config: caps, and every other layer with a sliding window."""
    from transformers import Gemma2Config

    sizes = _sizes(file)
    caps = {"attn_logit_softcapping": None, "final_logit_softcapping": None}
    rope = read_rope(file, sizes["head_dim"])
    return Gemma2Config(**sizes, **(caps | _windows(file, sizes)), rope_parameters=rope)


def read_gemma3(file: GgufFile) -> Any:
    """Gemma 3's config: five layers of six have a sliding window, and rotary embeddings of their own."""
    from transformers import Gemma3TextConfig

    sizes = _sizes(file)
    theta = read_field(file, "rope.freq_base_swa", float, optional=True) or SLIDING_THETA
    rope = {
        "full_attention": read_rope(file, sizes["head_dim"]),
        "sliding_attention": {"rope_type": "default", "rope_theta": theta},
    }
    return Gemma3TextConfig(**sizes, **_windows(file, sizes), rope_parameters=rope)


def _write_sizes(config: Any) -> dict[str, Any]:
    if getattr(config, "use_bidirectional_attention", None):
        raise ValueError(f"{config.model_type} with bidirectional attention cannot be written as GGUF")
    return write_fields(config, (*SIZES, FEED_FORWARD)) | write_heads(config)


def write_gemma(config: Any) -> dict[str, Any]:
    """Gemma's metadata."""
    return _write_sizes(config) | write_rope(config)


def _write_windows(config: Any, architecture: str) -> dict[str, Any]:
    expected = _scaled_by(architecture, {**vars(config), "head_dim": head_dim(config)})
    if config.query_pre_attn_scalar != expected:
        raise ValueError(
            f"query_pre_attn_scalar is {config.query_pre_attn_scalar}, and a GGUF file of these sizes means {expected}"
        )
    if config.layer_types != _pattern(PATTERNS[architecture], config.num_hidden_layers):
        raise ValueError(f"{architecture}: one layer in {PATTERNS[architecture]} must have full attention in GGUF")
    return _write_sizes(config) | write_fields(config, (*SOFT_CAPS, WINDOW))


def write_gemma2(config: Any) -> dict[str, Any]:
    """Gemma 2's metadata."""
    return _write_windows(config, "gemma2") | write_rope(config)


def write_gemma3(config: Any) -> dict[str, Any]:
    """Gemma 3's metadata."""
    sliding = config.rope_parameters["sliding_attention"]
    if sliding.get("rope_type", "default") != "default" or sliding["rope_theta"] != SLIDING_THETA:
        raise ValueError(f"gemma3: a GGUF file cannot say that sliding windows rotate by {sliding}")
    return _write_windows(config, "gemma3") | write_rope(config, config.rope_parameters["full_attention"])


_NORMS_OF_LAYERS = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
_GEMMA = ATTENTION | FEED_FORWARD_NAMES
_GEMMA2 = _GEMMA | _NORMS_OF_LAYERS


def _register(name: str, model_type: str, layers: dict[str, str], read: Reader, write: Writer) -> None:
    register(Architecture(name, (model_type,), Names(layers), read, write, adapt=adapt, stored=stored))


_register("gemma", "gemma", _GEMMA, read_gemma, write_gemma)
_register("gemma2", "gemma2", _GEMMA2, read_gemma2, write_gemma2)
_register("gemma3", "gemma3_text", _GEMMA2 | HEAD_NORMS, read_gemma3, write_gemma3)
