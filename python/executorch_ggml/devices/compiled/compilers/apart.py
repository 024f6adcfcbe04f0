"""Compilers that are packages of this Python, run in a process of their own: they may crash, and take their time."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from . import program
from .compiler import CompileError, seconds

# As `python -P` does, which came with Python 3.11: this folder has modules named for the packages that scripts import.
_RUN = "import runpy, sys; del sys.path[0], sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"


def run(script: str, arguments: Sequence[str], folder: Path) -> None:
    """Run a script of this folder, in a process that imports what this one does."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    line = [_interpreter(), "-c", _RUN, str(Path(__file__).with_name(script)), *arguments]
    program.run(line, folder, seconds(), {**os.environ, "PYTHONPATH": path})


def _interpreter() -> str:
    """This Python as a program: in a process that is no Python, ``sys.executable`` may be something else."""
    names = [Path(sys.executable), Path(sys.prefix, "bin", "python3"), Path(sys.prefix, "python.exe")]
    found = next((path for path in names if path.name.lower().startswith("python") and path.is_file()), None)
    if found is None:
        raise CompileError(f"no Python program to compile with: {names[0]} and {names[1]} are none")
    return str(found)
