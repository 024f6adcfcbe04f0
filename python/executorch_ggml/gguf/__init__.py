"""GGUF files: models rebuilt from them, their tensors as a program's constants, and models written as them."""

from ..runtime.gguf_file import GgufError, GgufFile, GgufTensor
from .architectures import known_architectures
from .model import GgufModel, load
from .tokenizer import GgufTokenizer, tokenizer_of
from .weights import GgufWeights
from .writer import export_gguf

__all__ = [
    "GgufError",
    "GgufFile",
    "GgufModel",
    "GgufTensor",
    "GgufTokenizer",
    "GgufWeights",
    "export_gguf",
    "known_architectures",
    "load",
    "tokenizer_of",
]
