"""ggml devices written in Python."""

from .device import GgmlDevice, get, register, registered

__all__ = ["GgmlDevice", "get", "register", "registered"]
