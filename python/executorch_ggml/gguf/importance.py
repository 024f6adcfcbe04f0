"""Importance matrices of models that GGUF files know, by llama.cpp's names of tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..pte import GGUF_MAGIC
from ..quant import Importance
from ..quant.names import all_names
from .architectures import architecture_for


def tensor_names(module: Any) -> dict[str, tuple[str, ...]]:
    """The tensors of each parameter; of a module that GGUF files do not know, none."""
    try:
        names = architecture_for(module.config).names
    except (AttributeError, ValueError):  # no config of transformers, or of another model
        return {}
    return {name: tensors for name, _ in module.named_parameters() if (tensors := names.tensors(name))}


def save_importance(importance: Importance, path: str | Path, module: Any) -> None:
    """Write the form that llama.cpp reads, by its names where it knows the model."""
    importance.renamed(tensor_names(module)).save(path)


def of_parameters(importance: Importance, module: Any) -> Importance:
    """Matrices by the names of a module's parameters, those of a tied one under each of them."""
    tensors = {tensor: name for name, found in tensor_names(module).items() for tensor in found}
    importance = importance.renamed(tensors)
    return importance.renamed(all_names(module))


def load_importance(path: str | Path, module: Any) -> Importance:
    """Read what llama.cpp or :func:`save_importance` wrote, by the names of a module's parameters.

    Raises ValueError where it has no matrix for any of them.
    """
    with open(path, "rb") as file:
        if file.read(len(GGUF_MAGIC)) != GGUF_MAGIC:
            raise ValueError(
                f"{path}: an importance matrix is a GGUF file, and this is none; llama-imatrix writes one with "
                f"--output-format gguf"
            )
    importance = of_parameters(Importance.load(path), module)
    parameters = [name for name, _ in module.named_parameters(remove_duplicate=False)]
    if not any(name in importance for name in parameters):
        raise ValueError(
            f"{path}: none of its {len(importance.entries)} matrices ({', '.join([*importance.entries][:3])}, ...) is "
            f"for a parameter of this model ({', '.join(parameters[:3])}, ...); was it collected from another one?"
        )
    return importance
