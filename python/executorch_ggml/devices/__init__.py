"""ggml devices written in Python."""

from .device import GgmlDevice, get, register, registered
from .library import library, load

__all__ = ["GgmlDevice", "get", "library", "load", "register", "registered"]
