"""Versions of other packages that this one is built for, and what is said where another is installed.

ExecuTorch and ggml keep no stable C++ interface between versions, so another one is refused. Torch is used from Python
alone, and another version of it is warned of.
"""

from __future__ import annotations

import ctypes
import os
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

EXECUTORCH = "1.5.1"
TORCH = "2.13.0"
GGML = "0.20.2"
GGML_PACKAGE = "0.20.2.post1"  # libggml-python, of an editable install


def check_packages() -> None:
    """Refuse another ExecuTorch than that which this is linked with; warn of another torch."""
    executorch = installed_version("executorch", EXECUTORCH)
    if executorch != EXECUTORCH:
        there = f"executorch {executorch} is installed" if executorch else "executorch is not installed"
        raise ImportError(
            f"executorch-ggml is built for executorch {EXECUTORCH}, and {there}: pip install executorch=={EXECUTORCH}"
        )
    torch = installed_version("torch", TORCH)
    if torch is not None and torch.partition("+")[0] != TORCH:
        warnings.warn(
            f"executorch-ggml is made for torch {TORCH}, and torch {torch} is installed: pip install torch=={TORCH}",
            stacklevel=3,
        )


def check_loaded_ggml() -> None:
    """The same as :func:`check_ggml` of a ggml that somebody loaded before, which is then the one of ours too."""
    if sys.platform == "linux":
        try:
            loaded = ctypes.CDLL("libggml-base.so.0", mode=os.RTLD_NOLOAD)
        except OSError:
            return
        check_ggml(loaded)


def check_ggml(library: ctypes.CDLL) -> None:
    """Refuse another ggml than that which this is linked with."""
    library.ggml_version.restype = ctypes.c_char_p
    version: str = library.ggml_version().decode()
    if version != GGML:
        raise ImportError(
            f"executorch-ggml is built for ggml {GGML}, and this process has loaded ggml {version} before it: import "
            f"executorch_ggml first, or pip install libggml-python=={GGML_PACKAGE} in an editable install"
        )


def installed_version(package: str, expected: str) -> str | None:
    """The version of a package that would be imported, or None.

    Its metadata has a folder beside it that is named for the version: to look for the expected one is much quicker than
    ``importlib.metadata``.
    """
    spec = find_spec(package) if package not in sys.modules else sys.modules[package].__spec__
    if spec is None or not spec.submodule_search_locations:
        return None
    site = Path(next(iter(spec.submodule_search_locations))).parent
    for version in (expected, f"{expected}+cpu"):
        if (site / f"{package}-{version}.dist-info").is_dir():
            return version
    from importlib.metadata import distributions

    found = [each.version for each in distributions(name=package, path=[str(site), *sys.path])]
    return found[0] if found else None
