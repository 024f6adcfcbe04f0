"""Offline batch inference with Ray Data: actors that load a program once and map batches.

The actors are plain callable classes, for ``Dataset.map_batches``; :func:`map_batches` calls it with CPUs and threads
that agree. Progress, retries and the restart of actors are Ray's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazy

if TYPE_CHECKING:
    from .dataset import map_batches
    from .predict import ImagePredictor, Predictor
    from .text import Embedder, TextGenerator

__all__ = ["Embedder", "ImagePredictor", "Predictor", "TextGenerator", "map_batches"]

__getattr__ = lazy(
    __name__,
    {
        ".dataset": ["map_batches"],
        ".predict": ["ImagePredictor", "Predictor"],
        ".text": ["Embedder", "TextGenerator"],
    },
)
