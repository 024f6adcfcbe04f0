"""What a family of models is to GGUF, and the registry of families."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ...runtime.gguf_file import GgufFile
from ..names import Names

Reader = Callable[[GgufFile], Any]  # the config of a file
Writer = Callable[[Any], dict[str, Any]]  # the metadata of a config, keys without the architecture


@dataclass(frozen=True)
class Architecture:
    """A value of ``general.architecture``, and the ``transformers`` models that are stored under it."""

    name: str
    model_types: tuple[str, ...]  # of transformers' configs
    names: Names
    read: Reader
    write: Writer
    # Gives a module of transformers the parameters that files have tensors for.
    reshape: Callable[[Any], None] = lambda module: None
    # Lets a module whose parameters are the file's tensors as they are compute what the model does.
    adapt: Callable[[Any, GgufFile], None] = lambda module, file: None
    # A parameter of transformers' own module as the file has it: (name, value, config).
    stored: Callable[[str, torch.Tensor, Any], torch.Tensor] = lambda name, value, config: value
    # Tensors that are no parameters, from a module.
    extra: Callable[[Any], dict[str, torch.Tensor]] = lambda module: {}
    extra_names: tuple[str, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether a module of ``transformers`` whose parameters are a file's tensors computes what the model does."""
        return self.reshape is Architecture.reshape and self.adapt is Architecture.adapt


_ARCHITECTURES: dict[str, Architecture] = {}


def register(architecture: Architecture) -> Architecture:
    """Make a family known."""
    assert architecture.name not in _ARCHITECTURES, f"{architecture.name} is registered twice"
    _ARCHITECTURES[architecture.name] = architecture
    return architecture


def known_architectures() -> list[str]:
    """Values of ``general.architecture`` that a module can be made of."""
    return sorted(_ARCHITECTURES)


def architecture_of(file: GgufFile) -> Architecture:
    """The family of a file."""
    found = _ARCHITECTURES.get(file.architecture)
    if found is None:
        known = ", ".join(known_architectures())
        raise file.error(f"architecture {file.architecture!r} is none of those that are known: {known}")
    return found


def architecture_for(config: Any) -> Architecture:
    """The family that a config's models are stored under."""
    for architecture in _ARCHITECTURES.values():
        if config.model_type in architecture.model_types:
            return architecture
    known = ", ".join(sorted(kind for each in _ARCHITECTURES.values() for kind in each.model_types))
    raise ValueError(f"models of type {config.model_type!r} cannot be written as GGUF; there are {known}")
