"""Rotary embeddings whose frequencies depend on how long the text is, made fixed: a program has one set of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS


def rope_types(config: Any) -> set[str]:
    """The kinds of rotary embeddings that a model has."""
    given = getattr(config, "rope_parameters", None) or {}
    parts = [given] if "rope_type" in given else [part for part in given.values() if isinstance(part, dict)]
    return {part.get("rope_type", "default") for part in parts}


@contextmanager
def fixed_rotary(model: nn.Module, max_seq_len: int) -> Iterator[None]:
    """Have a model whose embeddings are of type ``longrope`` use those for texts of a length, whatever comes."""
    changed: list[tuple[Any, Any]] = []
    module: Any
    for module in model.modules():
        if getattr(module, "rope_type", None) == "longrope":
            changed.append((module, module.inv_freq))
            module.rope_type, module.inv_freq = "default", _frequencies(module, max_seq_len)
    try:
        yield
    finally:
        for module, frequencies in changed:
            module.rope_type, module.inv_freq = "longrope", frequencies


def _frequencies(module: Any, max_seq_len: int) -> Any:
    limit = module.config.rope_parameters["original_max_position_embeddings"]
    if max_seq_len <= limit:
        return module.original_inv_freq
    frequencies, _ = ROPE_INIT_FUNCTIONS["longrope"](module.config, module.inv_freq.device, seq_len=limit + 1)
    return frequencies
