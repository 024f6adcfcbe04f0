"""What is imported on first use.

The op table is read by the build, and by devices in programs, which need no torch; programs with a ggml of their own
do without this package's native runtime unless there are weights to dequantize.
"""

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

    from .. import _session as session
else:
    sympy = _LazyModule("sympy")
    torch = _LazyModule("torch")
    F = _LazyModule("torch.nn.functional")
    session = _LazyModule("executorch_ggml._session")

__all__ = ["F", "session", "sympy", "torch"]
