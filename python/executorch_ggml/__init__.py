"""executorch-ggml: PyTorch models on ggml, through ExecuTorch or without it."""

from __future__ import annotations

from pathlib import Path

from .export import export
from .partition import Explanation, GgmlBackend, GgmlPartitioner, explain
from .runtime import Module, Session, devices, get_num_threads, load, load_delegate, set_num_threads

__version__ = "0.1.0"

cmake_prefix_path = str(Path(__file__).resolve().parent / "share" / "cmake")

__all__ = [
    "Explanation",
    "GgmlBackend",
    "GgmlPartitioner",
    "Module",
    "Session",
    "cmake_prefix_path",
    "devices",
    "explain",
    "export",
    "get_num_threads",
    "load",
    "set_num_threads",
]

load_delegate()
