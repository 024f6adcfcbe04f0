"""Print the folder of an installed Python package that has a given file, without importing anything.

CMake asks the interpreter that it builds for. The interpreter's own site-packages are searched even where pip's build
isolation hides them from ``sys.path``: what the finished extension will load is what is installed there.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path


def roots() -> Iterator[Path]:
    """Folders that may hold installed packages, the likeliest first."""
    scheme = sysconfig.get_paths()
    yield Path(scheme["purelib"])
    yield Path(scheme["platlib"])
    for entry in sys.path:
        yield Path(entry or ".")
    for entry in site.getsitepackages():
        yield Path(entry)
    active = os.environ.get("VIRTUAL_ENV")
    if active:
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        yield Path(active) / "lib" / version / "site-packages"


def main() -> int:
    """``locate_package.py PACKAGE FILE``: the first folder PACKAGE on the path that has FILE in it."""
    package, marker = sys.argv[1:]
    for root in roots():
        if (root / package / marker).exists():
            print((root / package).resolve().as_posix())
            return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
