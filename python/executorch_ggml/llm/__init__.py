"""Language models: export with a key-value cache, generation of text, and embeddings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .embedding import Encoder
from .generator import Generation, Generator, Timing
from .sampling import Sampling
from .tokenizer import Tokenizer

if TYPE_CHECKING:
    from .export import export
    from .sentence_encoder import export_encoder

__all__ = ["Encoder", "Generation", "Generator", "Sampling", "Timing", "Tokenizer", "export", "export_encoder"]


def __getattr__(name: str) -> Any:
    """``export`` and ``export_encoder``, which need ``transformers``: they are imported when they are asked for."""
    if name not in ("export", "export_encoder"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .export import export
    from .sentence_encoder import export_encoder

    globals().update(export=export, export_encoder=export_encoder)
    return globals()[name]
