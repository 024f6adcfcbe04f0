"""ggml's ops in terms of the IR's: one small function each, found by ggml's name for the op."""

from . import attention, elementwise, movement, products, reductions, spatial

__all__ = ["attention", "elementwise", "movement", "products", "reductions", "spatial"]
