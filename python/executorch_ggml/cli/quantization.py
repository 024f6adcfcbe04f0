"""How a command's options say what weights are stored as."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from ..gguf.importance import of_parameters, tensor_names
from ..gguf.mixtures import MIXTURES, mixture_config
from ..quant import TYPES, GgmlQuantConfig

_TOLD = 8  # names in an error


def config_of(quantization: str, module: Any) -> GgmlQuantConfig:
    """The configuration that a type, a mixture of llama.cpp's, or the path of a JSON file stands for."""
    if quantization in TYPES or quantization.endswith(".json"):
        config = GgmlQuantConfig.of(quantization)
        return replace(config, importance=of_parameters(config.importance, module))
    if quantization not in MIXTURES:
        kinds = ", ".join(dict.fromkeys([*TYPES, *MIXTURES]))
        raise ValueError(f"no type or mixture is called {quantization!r}; there are {kinds}, and files called *.json")
    if not tensor_names(module):
        raise ValueError(
            f"{quantization} is a mixture for language models that GGUF files know, and {type(module).__name__} is "
            f"none; pass a type, such as {quantization[: quantization.index('_k') + 2]}, and --keep PATTERN=TYPE"
        )
    return mixture_config(quantization, module)


def with_rules(config: GgmlQuantConfig, texts: Sequence[str], module: Any) -> GgmlQuantConfig:
    """The configuration with rules before its own: PATTERN=TYPE, or PATTERN for what is not quantized.

    A pattern is a glob over parameters' names, or over the tensors' in a GGUF file.
    """
    rules = [rule for text in texts for rule in _rules(text, module)]
    return replace(config, rules=[*rules, *config.rules])


def _rules(text: str, module: Any) -> list[tuple[str, str]]:
    pattern, _, kind = text.partition("=")
    kind = kind or "f32"
    if kind not in TYPES:
        raise ValueError(f"--keep {text}: no weight type is called {kind!r}; there are {', '.join(TYPES)}")
    names = [name for name, _ in module.named_parameters(remove_duplicate=False)]
    if any(fnmatchcase(name, pattern) for name in names):
        return [(pattern, kind)]
    tensors = tensor_names(module)
    found = [name for name, known in tensors.items() if any(fnmatchcase(each, pattern) for each in known)]
    if not found:
        some = ", ".join(names[:_TOLD]) + (", ..." if len(names) > _TOLD else "")
        raise ValueError(f"--keep {text}: no parameter is called {pattern!r}; the model's are called {some}")
    return [(glob.escape(name), kind) for name in found]
