"""Language models: export with a key-value cache, and generation of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .generator import Generation, Generator, Timing
from .sampling import Sampling
from .tokenizer import Tokenizer

if TYPE_CHECKING:
    from .causal_lm import export

__all__ = ["Generation", "Generator", "Sampling", "Timing", "Tokenizer", "export"]


def __getattr__(name: str) -> Any:
    """``export``, which needs ``transformers``: it is imported when it is asked for."""
    if name != "export":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .causal_lm import export

    globals()["export"] = export
    return export
