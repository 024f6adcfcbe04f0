"""Print the folder of an installed Python package that has a given file, without importing anything.

CMake asks the interpreter that it builds with, so that pip's build isolation holds here too: what is found is what
``[build-system]`` of pyproject.toml pins, and not what lies in the environment that the result is installed into.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> int:
    """``locate_package.py PACKAGE FILE``: the first folder PACKAGE on the path that has FILE in it."""
    package, marker = sys.argv[1:]
    for root in map(Path, sys.path):
        if (root / package / marker).exists():
            print((root / package).resolve().as_posix())
            return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
