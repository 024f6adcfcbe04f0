"""executorch-ggml: PyTorch models on ggml, through ExecuTorch or without it."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

__version__ = "0.1.0"

# Where find_package(executorch_ggml) looks: the installed half of the package, which an editable install keeps apart.
cmake_prefix_path = next((path for path in __path__ if (Path(path) / "lib" / "cmake").is_dir()), __path__[0])

__all__ = [
    "Explanation",
    "GgmlBackend",
    "GgmlPartitioner",
    "Module",
    "Session",
    "cmake_prefix_path",
    "explain",
    "export",
    "get_num_threads",
    "list_devices",
    "load",
    "set_device",
    "set_num_threads",
]

# A plug-in of ggml's (native/devices/pydevice.cpp) comes into programs that may have to do neither with ExecuTorch nor
# with torch: what takes seconds to import waits there until somebody asks for it.
if hasattr(sys, "_executorch_ggml_plugin"):

    def __getattr__(name: str) -> Any:
        if name in __all__:
            return getattr(importlib.reload(sys.modules[__name__]), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

else:
    from .export import export
    from .partition import Explanation, GgmlBackend, GgmlPartitioner, explain
    from .runtime import (
        Module,
        Session,
        get_num_threads,
        list_devices,
        load,
        load_delegate,
        set_device,
        set_num_threads,
    )

    load_delegate()
