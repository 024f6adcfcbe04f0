"""What stands for the code that was measured: kept measurements are of no use once it changed."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@functools.cache
def installed(package: str) -> str:
    """A package with its version."""
    try:
        return f"{package} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return f"{package} is missing"


def digest(files: Iterable[Path], *facts: object) -> str:
    """Stands for the contents of files, and for what `repr` says of the facts."""
    contents = hashlib.sha256(repr(facts).encode())
    for file in sorted(files):
        contents.update(file.read_bytes())
    return contents.hexdigest()[:12]


@functools.cache
def our_files(ending: str) -> tuple[Path, ...]:
    """The package's files with that ending; those of an editable install too."""
    found = importlib.util.find_spec("executorch_ggml")
    folders = found.submodule_search_locations if found is not None and found.submodule_search_locations else ()
    return tuple(file for folder in folders for file in Path(folder).rglob(f"*{ending}"))
