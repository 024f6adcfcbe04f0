"""The libraries of other packages that ours link: ExecuTorch's and ggml's."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

_LIBRARIES = {"libggml": ("libggml-base", "libggml"), "executorch": ("libexecutorch", "libexecutorch_etdump")}
_SUFFIX = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")


def load_needed(native: Path) -> None:
    """Load those that are not found by themselves, for the installed half of our package in folder ``native``.

    Ours look for them in its own ``ggml`` and ``lib``, and in the packages beside it. Packages may lie in other folders
    of the path too: those of the user, or of the interpreter that a virtual environment was made from. A library that
    is loaded already is found by its name.
    """
    for package, libraries in _LIBRARIES.items():
        for path in _elsewhere(native, package, libraries):
            ctypes.CDLL(str(path))


def _elsewhere(native: Path, package: str, libraries: tuple[str, ...]) -> Iterator[Path]:
    spec = find_spec(package)
    root = Path(next(iter(spec.submodule_search_locations or ()), "")) if spec else Path()
    own = (native / folder / f"{libraries[0]}{_SUFFIX}" for folder in ("lib", "ggml/lib", "ggml/lib64"))
    if root.parent == native.parent or any(path.exists() for path in own):
        return
    for library in libraries:
        files = (root / folder / f"{library}{_SUFFIX}" for folder in ("lib", "lib64"))
        yield from [file for file in files if file.exists()][:1]
