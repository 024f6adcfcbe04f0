"""Rotary embeddings of type ``longrope``: some factors for texts up to a length, others for longer ones.

``transformers`` picks the factors in each call, for all of its positions, by the last one. With a cache that mixes
them: keys that were rotated by the short factors stay in it when a text grows past the limit. So a program's method
has one set of factors, whatever the positions.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

LONGROPE = "longrope"


def _parameters(config: Any) -> dict[str | None, dict[str, Any]]:
    """The rotary parameters of each type of layer; of a model whose layers have the same ones, under None."""
    given = getattr(config, "rope_parameters", None) or {}
    if "rope_type" in given:
        return {None: given}
    return {layer_type: part for layer_type, part in given.items() if isinstance(part, dict)}


def rope_types(config: Any) -> set[str]:
    """The kinds of rotary embeddings that a model has."""
    return {part.get("rope_type", "default") for part in _parameters(config).values()}


def short_limit(config: Any) -> int | None:
    """The length of the longest text that is rotated by the short factors; None for models without ``longrope``.

    Raises ValueError where types of layers have different limits.
    """
    parts = [part for part in _parameters(config).values() if part.get("rope_type") == LONGROPE]
    limits = {part["original_max_position_embeddings"] for part in parts}
    if len(limits) > 1:
        raise ValueError(
            f"rotary embeddings of type longrope with original_max_position_embeddings {sorted(limits)}: expected the "
            f"same in all types of layers"
        )
    return next(iter(limits), None)


@contextmanager
def fixed_rotary(model: nn.Module, length: int) -> Iterator[None]:
    """Have ``longrope`` modules rotate by the factors of texts of a length, at all positions."""
    module: Any
    with kept_rotary(model):
        for module in _longrope_modules(model):
            for layer_type in _longrope_layers(module):
                prefix = "" if layer_type is None else f"{layer_type}_"
                setattr(module, f"{prefix}inv_freq", _frequencies(module, layer_type, length))
            module.rope_type = _without_longrope(module.rope_type)
        yield


@contextmanager
def kept_rotary(model: nn.Module) -> Iterator[None]:
    """Put ``longrope`` modules back as they were: tracing leaves fake tensors in them."""
    kept = [(module, dict(vars(module)), dict(module._buffers)) for module in _longrope_modules(model)]
    try:
        yield
    finally:
        for module, attributes, buffers in kept:
            vars(module).clear()
            vars(module).update(attributes)
            module._buffers.clear()
            module._buffers.update(buffers)


def _longrope_modules(model: nn.Module) -> list[nn.Module]:
    return [module for module in model.modules() if _longrope_layers(module)]


def _longrope_layers(module: Any) -> list[str | None]:
    """The types of layers for which a rotary module computes ``longrope``."""
    kinds = getattr(module, "rope_type", None)
    return [name for name, kind in (kinds if isinstance(kinds, dict) else {None: kinds}).items() if kind == LONGROPE]


def _without_longrope(kinds: Any) -> Any:
    """What has ``transformers`` use the frequencies that a module has."""
    if not isinstance(kinds, dict):
        return "default"
    return {name: "default" if kind == LONGROPE else kind for name, kind in kinds.items()}


def _frequencies(module: Any, layer_type: str | None, length: int) -> torch.Tensor:
    options = {} if layer_type is None else {"layer_type": layer_type}
    frequencies: torch.Tensor = ROPE_INIT_FUNCTIONS[LONGROPE](module.config, None, seq_len=length, **options)[0]
    return frequencies
