"""From ggml's graphs to the project's IR, op by op: what devices written in Python compute."""

from . import ops
from .custom import CustomNodes
from .memory import as_array
from .translate import Effect, Names, Scattered, Translation, Translator
from .words import NODE, WORDS, Tensor, UnsupportedError, read

__all__ = [
    "NODE",
    "WORDS",
    "CustomNodes",
    "Effect",
    "Names",
    "Scattered",
    "Tensor",
    "Translation",
    "Translator",
    "UnsupportedError",
    "as_array",
    "ops",
    "read",
]
