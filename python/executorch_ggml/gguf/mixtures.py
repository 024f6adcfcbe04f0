"""The types that llama.cpp's ``llama-quantize`` gives a model's matrices, under its names."""

from __future__ import annotations

import glob
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ..ir.dtypes import DType
from ..quant import GgmlQuantConfig
from ..quant.names import all_names

_LAYER = re.compile(r"\.layers\.(\d+)\.")


@dataclass(frozen=True)
class Mixture:
    """A type for most matrices, one for the head (a tied embedding is it), and one for what matters more."""

    most: DType
    head: DType
    values: DType | None = None  # value projections and the last of the feed-forward, in half of the layers


# llama.cpp's llama_tensor_get_type; plain types quantize everything alike (`--pure`).
MIXTURES = {
    **{dtype.name.lower(): Mixture(dtype, dtype) for dtype in DType if dtype.is_quantized},
    "f32": Mixture(DType.F32, DType.F32),
    "f16": Mixture(DType.F16, DType.F16),
    "bf16": Mixture(DType.BF16, DType.BF16),
    "q4_k_m": Mixture(DType.Q4_K, DType.Q6_K, DType.Q6_K),
    "q5_k_m": Mixture(DType.Q5_K, DType.Q6_K, DType.Q6_K),
    "q4_k_s": Mixture(DType.Q4_K, DType.Q6_K),
    "q4_0_q6_k": Mixture(DType.Q4_0, DType.Q6_K),
}


def mixture(name: str, config: Any) -> Callable[[str, torch.Tensor], DType]:
    """The type of each parameter of a config's model, for :func:`executorch_ggml.gguf.export_gguf`."""
    if name not in MIXTURES:
        raise ValueError(f"no type or mixture is called {name!r}; there are {', '.join(MIXTURES)}")
    mixed, layers = MIXTURES[name], config.num_hidden_layers
    head = "embed_tokens" if config.tie_word_embeddings else "lm_head"

    def type_of(parameter: str, value: torch.Tensor) -> DType:
        del value
        if head in parameter:
            return mixed.head
        layer = _LAYER.search(parameter)
        important = "v_proj" in parameter or "down_proj" in parameter
        if mixed.values is not None and important and layer is not None and _more_bits(int(layer[1]), layers):
            return mixed.values
        return mixed.most

    return type_of


def mixture_config(name: str, module: Any) -> GgmlQuantConfig:
    """A mixture as a configuration with a rule for each matrix of a module; a tied one has it under all its names."""
    type_of = mixture(name, module.config)
    names = all_names(module)
    matrices = ((each, value) for each, value in module.named_parameters() if value.dim() > 1)
    rules = ((names[each], type_of(each, value).name.lower()) for each, value in matrices if not is_router(each))
    return GgmlQuantConfig(None, [(glob.escape(each), kind) for several, kind in rules for each in several])


def is_router(name: str) -> bool:
    """Whether a parameter or tensor chooses experts: an error there would choose others."""
    return name.endswith("mlp.gate.weight") or "ffn_gate_inp" in name


def _more_bits(layer: int, layers: int) -> bool:
    """The first and last eighth of the layers, and one in three between them."""
    eighth = layers // 8
    return layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2
