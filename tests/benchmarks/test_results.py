"""What the benchmarks' tables say of what was measured."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from benchmarks.models import Column, percentile
from benchmarks.results import compiler_of

from benchmarks import results


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


def test_each_make_of_cpu_has_sections_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "RESULTS.md"
    for make, body in (("AMD with AVX2", "old"), ("Intel with AMX", "other"), ("AMD with AVX2", "new")):
        monkeypatch.setattr(results, "make", lambda make=make: make)
        results.write_section("models", "Models", body, path)
    text = path.read_text()
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## Models: AMD with AVX2",
        "## Models: Intel with AMX",
    ]
    assert "\nnew\n" in text
    assert "\nother\n" in text
    assert "old" not in text


def test_percentiles_are_of_all_rounds() -> None:
    rounds = [[1.0, 2.0, 3.0], [4.0, 5.0], [6.0, 7.0, 8.0, 9.0, 10.0, 11.0]]
    assert Column(rounds=rounds).median == 6.0
    assert percentile(rounds, 90) == 10.0
