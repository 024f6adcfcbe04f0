"""Every op of ggml's, in the types and kinds of shapes that ggml's own backend tests have, as a generator of cases.

Sizes are smaller where a large one only asks for another kernel of a GPU.
"""

from __future__ import annotations

from . import attention, elementwise, movement, products, reductions, rest, spatial
from .family import FAMILIES, operators

__all__ = [
    "FAMILIES",
    "attention",
    "elementwise",
    "movement",
    "operators",
    "products",
    "reductions",
    "rest",
    "spatial",
]
