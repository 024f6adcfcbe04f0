"""Print what pip has to install for a build of this project, from pyproject.toml.

    python tools/requirements.py --extras demo,dev --build

The output is a requirements file. The versions come from constraints.txt, which pip is given beside it.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from pathlib import Path
from typing import Any

PYPROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def requirements(pyproject: dict[str, Any], extras: list[str], *, build: bool) -> list[str]:
    """The project's dependencies with those of the extras and, on request, of the build itself."""
    project = pyproject["project"]
    optional = project["optional-dependencies"]
    unknown = sorted(set(extras) - set(optional))
    if unknown:
        raise SystemExit(f"pyproject.toml has no extra named {', '.join(unknown)}; it has {', '.join(optional)}")
    found = list(project["dependencies"])
    for extra in extras:
        found += optional[extra]
    if build:
        found += pyproject["build-system"]["requires"]
    return sorted(set(found))


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description="Print the requirements of the project.")
    parser.add_argument("--extras", default="", help="extras to include, separated by commas")
    parser.add_argument("--build", action="store_true", help="include the build's own requirements")
    args = parser.parse_args()
    extras = [extra for extra in args.extras.split(",") if extra]
    print("\n".join(requirements(tomllib.loads(PYPROJECT.read_text()), extras, build=args.build)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
