"""executorch-ggml: PyTorch models on ggml, through ExecuTorch or without it.

Importing this package makes ggml known to ExecuTorch's runtime, and imports neither ExecuTorch nor torch: they take
seconds, and come with the first attribute that needs them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ._lazy import lazy

if TYPE_CHECKING:
    from ._export import export
    from .partition import GgmlBackend, GgmlPartitioner
    from .partition.explain import Explanation, explain
    from .recipes import GgmlRecipeType
    from .runtime import Module, Session, get_num_threads, list_devices, load, set_device, set_num_threads

__version__ = "0.1.0"

# Where find_package(executorch_ggml) looks: the installed half of the package, which an editable install keeps apart.
cmake_prefix_path = next((path for path in __path__ if (Path(path) / "lib" / "cmake").is_dir()), __path__[0])

__all__ = [
    "Explanation",
    "GgmlBackend",
    "GgmlPartitioner",
    "GgmlRecipeType",
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

__getattr__ = lazy(
    __name__,
    {
        "._export": ["export"],
        ".partition": ["Explanation", "GgmlBackend", "GgmlPartitioner", "explain"],
        ".recipes": ["GgmlRecipeType"],
        ".runtime": ["Module", "Session", "get_num_threads", "list_devices", "load", "set_device", "set_num_threads"],
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


# A plug-in of ggml's (native/devices/pydevice.cpp) comes into programs with a ggml of their own and no ExecuTorch.
if not hasattr(sys, "_executorch_ggml_plugin"):
    from ._needed import load_needed
    from ._versions import check_ggml, check_loaded_ggml, check_packages

    check_packages()
    load_needed(Path(cmake_prefix_path))
    check_loaded_ggml()

    from .runtime import load_delegate

    check_ggml(load_delegate())
