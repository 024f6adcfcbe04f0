"""Families of models, one module each; importing them registers them."""

from . import gemma, llama, phi, qwen
from .base import Architecture, architecture_for, architecture_of, known_architectures

__all__ = [
    "Architecture",
    "architecture_for",
    "architecture_of",
    "gemma",
    "known_architectures",
    "llama",
    "phi",
    "qwen",
]
