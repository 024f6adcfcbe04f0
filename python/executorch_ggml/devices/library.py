"""The plug-in that brings the devices to ggml."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from .device import get

_SUFFIX = {"darwin": ".so", "win32": ".dll"}.get(sys.platform, ".so")


def library() -> Path:
    """The path of ``libggml-pydevice``: for ``GGML_BACKEND_PATH``, or ``ggml_backend_load``."""
    package = find_spec(__name__.partition(".")[0])
    folders = [Path(path) / "lib" for path in (package.submodule_search_locations or ()) if package] if package else []
    for folder in folders:
        path = folder / f"libggml-pydevice{_SUFFIX}"
        if path.exists():
            return path
    raise ImportError(f"libggml-pydevice{_SUFFIX} is not in {[str(folder) for folder in folders]}; build the project")


def load(*names: str) -> None:
    """Bring devices to the ggml of this package's own runtime: for ``Session(device=...)`` and programs.

    Those that are registered and those of these names (see :func:`get`).
    """
    from .. import _session
    from . import bridge

    for name in names:
        get(name)
    _session.load_backend(str(library()), "pydevice")
    bridge.offer()
