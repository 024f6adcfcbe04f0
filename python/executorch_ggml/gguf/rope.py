"""Rotary embeddings: their frequencies in metadata and tensors, and rotations of pairs of neighbours."""

from __future__ import annotations

import inspect
import math
import types
from typing import Any

import torch
from torch import nn

from ..runtime.gguf_file import GgufFile
from .fields import head_dim, read_field

# A factor by which each frequency is divided; llama.cpp applies it where it is there.
FREQUENCY_FACTORS = "rope_freqs.weight"


def read_rope(file: GgufFile, rotated: int) -> dict[str, Any]:
    """``rope_parameters`` of a config. ``rotated``: the elements of a head that the module turns."""
    given = read_field(file, "rope.dimension_count", int, optional=True) or rotated
    if given != rotated:
        raise file.error(f"rotary embeddings turn {given} elements of a head, expected {rotated}")
    theta = read_field(file, "rope.freq_base", float, optional=True) or 10000.0
    factor = read_field(file, "rope.scaling.factor", float, optional=True)
    factor = factor or read_field(file, "rope.scale_linear", float, optional=True) or 1.0
    kind = read_field(file, "rope.scaling.type", str, optional=True) or "linear"  # as llama.cpp has it
    if kind == "yarn":
        return {"rope_theta": theta, **_read_yarn(file, factor)}
    if kind not in ("none", "linear", "longrope"):  # what longrope scales by lies in tensors
        raise file.error(f"rope.scaling.type is {kind!r}, expected none, linear, yarn or longrope")
    if kind != "linear" or factor == 1.0:
        return {"rope_type": "default", "rope_theta": theta}
    return {"rope_type": "linear", "rope_theta": theta, "factor": factor}


def _read_yarn(file: GgufFile, factor: float) -> dict[str, Any]:
    if read_field(file, "rope.scaling.yarn_log_multiplier", float, optional=True) is not None:
        raise file.error("rope.scaling.yarn_log_multiplier is not supported")
    scale = read_field(file, "rope.scaling.attn_factor", float, optional=True) or 1.0
    original = read_field(file, "rope.scaling.original_context_length", int, optional=True)
    return {
        "rope_type": "yarn",
        "factor": factor,
        "original_max_position_embeddings": original or read_field(file, "context_length", int),
        "beta_fast": read_field(file, "rope.scaling.yarn_beta_fast", float, optional=True) or 32.0,
        "beta_slow": read_field(file, "rope.scaling.yarn_beta_slow", float, optional=True) or 1.0,
        "attention_factor": scale * _yarn_attention(factor),
    }


def _yarn_attention(factor: float) -> float:
    return 0.1 * math.log(factor) + 1.0 if factor > 1.0 else 1.0


def write_rope(config: Any, parameters: dict[str, Any] | None = None) -> dict[str, Any]:
    """The metadata of a config's ``rope_parameters``; ValueError for a scaling that llama.cpp has no metadata for."""
    rope = parameters if parameters is not None else config.rope_parameters
    rotated = int(head_dim(config) * rope.get("partial_rotary_factor", 1.0))
    fields = {"rope.dimension_count": rotated, "rope.freq_base": float(rope["rope_theta"])}
    kind = rope.get("rope_type", "default")
    if kind in ("default", "llama3", "longrope"):  # the scaling of the last two lies in tensors
        return fields
    fields |= {"rope.scaling.type": kind, "rope.scaling.factor": float(rope["factor"])}
    if kind == "linear":
        return fields
    if kind != "yarn" or rope.get("mscale") or rope.get("mscale_all_dim") or rope.get("truncate") is False:
        raise ValueError(f"a GGUF file cannot say what rotary embeddings do with {rope}")
    scale = (rope.get("attention_factor") or _yarn_attention(rope["factor"])) / _yarn_attention(rope["factor"])
    original = rope.get("original_max_position_embeddings") or config.max_position_embeddings
    return fields | {
        "rope.scaling.original_context_length": original,
        "rope.scaling.yarn_beta_fast": float(rope.get("beta_fast") or 32.0),
        "rope.scaling.yarn_beta_slow": float(rope.get("beta_slow") or 1.0),
        "rope.scaling.attn_factor": scale,
    }


def inverse_frequencies(theta: float, rotated: int) -> torch.Tensor:
    """What positions are multiplied by, one for each pair of elements."""
    return 1.0 / (theta ** (torch.arange(0, rotated, 2, dtype=torch.float) / rotated))


def frequency_factors(config: Any) -> torch.Tensor | None:
    """The tensor :data:`FREQUENCY_FACTORS` of a config with Llama 3's scaling."""
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    rope = config.rope_parameters
    if rope.get("rope_type") != "llama3":
        return None
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config, torch.device("cpu"))
    factors: torch.Tensor = inverse_frequencies(rope["rope_theta"], head_dim(config)) / scaled
    return factors


def divide_frequencies(rotary: Any, factors: torch.Tensor) -> None:
    """Let a rotary module turn each pair slower by a factor."""
    for name in ("inv_freq", "original_inv_freq"):
        getattr(rotary, name).div_(factors)


class PairedAngles(nn.Module):
    """Sines and cosines for pairs of neighbours: a, a, b, b … where the module's own has a, b … a, b …."""

    def __init__(self, rotary: nn.Module) -> None:
        super().__init__()
        self.rotary = rotary

    def forward(self, x: torch.Tensor, position_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """As the module that it stands for."""
        cos, sin = self.rotary(x, position_ids)
        return in_pairs(cos), in_pairs(sin)


def in_pairs(angles: torch.Tensor) -> torch.Tensor:
    """The first half of each row, every element twice."""
    half = angles[..., : angles.shape[-1] // 2]
    return torch.stack((half, half), dim=-1).flatten(-2)


def rotate_pairs(x: torch.Tensor) -> torch.Tensor:
    """A quarter turn of each pair of neighbours: (a, b) becomes (-b, a)."""
    return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)


def apply_to_pairs(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, unsqueeze_dim: int = 1
) -> tuple[torch.Tensor, torch.Tensor]:
    """As transformers' ``apply_rotary_pos_emb``, but pairs are neighbours, and not half a head apart."""
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    return q * cos + rotate_pairs(q) * sin, k * cos + rotate_pairs(k) * sin


def rotate_neighbours(module: Any) -> None:
    """Let a module's attention turn pairs of neighbours, which the rows of Llama's GGUF files are permuted for.

    The attention's own ``forward`` is kept, with :func:`apply_to_pairs` for the function that it calls.
    """
    module.model.rotary_emb = PairedAngles(module.model.rotary_emb)
    for layer in module.model.layers:
        attention = layer.self_attn
        forward = inspect.unwrap(type(attention).forward)
        if "apply_rotary_pos_emb" not in forward.__code__.co_names:
            raise RuntimeError(f"{type(attention).__name__} of this transformers has no rotary embedding to replace")
        names = {**forward.__globals__, "apply_rotary_pos_emb": apply_to_pairs}
        paired = types.FunctionType(
            forward.__code__, names, forward.__name__, forward.__defaults__, forward.__closure__
        )
        paired.__kwdefaults__ = forward.__kwdefaults__
        attention.forward = types.MethodType(paired, attention)


def neighbours_from_halves(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """A query or key weight (or bias) with each head's rows permuted, so that pairs half a head apart are neighbours.

    As llama.cpp's ``convert_hf_to_gguf.py`` does it for Llama.
    """
    halves = weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:])
    return halves.swapaxes(1, 2).reshape(weight.shape)
