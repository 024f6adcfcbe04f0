"""What the benchmarks' tables say of what was measured."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from benchmarks.results import compiler_of


@pytest.mark.parametrize(("command", "name"), [("gcc", "gcc"), ("clang", "clang"), ("clang-16", "clang")])
def test_compiler_of_a_library(tmp_path: Path, command: str, name: str) -> None:
    if shutil.which(command) is None:
        pytest.skip(f"{command} is missing")
    source, library = tmp_path / "empty.c", tmp_path / "libempty.so"
    source.write_text("int nothing(void) { return 0; }\n")
    subprocess.run([command, "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    printed = subprocess.run([command, "-dumpfullversion", "-dumpversion"], capture_output=True, text=True, check=True)
    assert compiler_of(library) == f"{name} {printed.stdout.strip()}"


def test_compiler_of_a_library_that_does_not_say(tmp_path: Path) -> None:
    library = tmp_path / "libquiet.so"
    library.write_bytes(b"\x7fELF")
    assert compiler_of(library) == "an unknown compiler"
