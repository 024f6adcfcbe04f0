"""What is imported on first use: the op table is read by the build, and by devices in programs, which need no torch."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any


class _LazyModule(ModuleType):
    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self.__name__), name)


if TYPE_CHECKING:
    import sympy
    import torch
    import torch.nn.functional as F
else:
    sympy = _LazyModule("sympy")
    torch = _LazyModule("torch")
    F = _LazyModule("torch.nn.functional")

__all__ = ["F", "sympy", "torch"]
