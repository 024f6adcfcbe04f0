"""ggml devices written in Python."""

from .device import DeclinedError, GgmlDevice, get, register, registered
from .library import library, load

__all__ = ["DeclinedError", "GgmlDevice", "get", "library", "load", "register", "registered"]
