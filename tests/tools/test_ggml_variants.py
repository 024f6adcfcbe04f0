"""ggml's CPU libraries: those that are not right are found and removed, and CMake goes on without them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.tools.faulty import FAULTY, ROOT, add_faulty, copied_package
from tools.ggml_variants import remove_variant
from tools.prove_ggml import in_child, prove_variants

from executorch_ggml import _session

# What gcc 12 and 14 have as _tile_loadconfig: the first says that 8 bytes are read, the second all 64.
LOAD = '#include <immintrin.h>\n#define _tile_loadconfig(p) __asm__ volatile("ldtilecfg %X0" ::"m"(*(const {})(p)))\n'


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="AMX is for x86-64")
@pytest.mark.parametrize(("operand", "right"), [("void **", False), ("char (*)[64]", True)])
def test_a_compiler_that_loses_stores_is_found(tmp_path: Path, operand: str, right: bool) -> None:
    (tmp_path / "load.h").write_text(LOAD.format(operand))
    probe = [sys.executable, str(ROOT / "cmake" / "probe_amx.py"), "g++", "-include", str(tmp_path / "load.h")]
    assert subprocess.run(probe, check=False).returncode == (0 if right else 1)


def test_variants_with_a_fault_are_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    package = copied_package(tmp_path)
    for library in package.glob("lib/libggml-cpu-*.so"):
        if library.stem not in {"libggml-cpu-x64", "libggml-cpu-haswell"}:
            library.unlink()
    faulty = add_faulty(package, "SIGILL")
    running, removed = prove_variants(package)
    assert (running, removed) == (3, 1)
    assert not faulty.exists()
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"removed {faulty.name}: ")
    assert "a product of q8_0 with 8 rows raises SIGILL" in line


def test_a_wrong_result_is_found(tmp_path: Path) -> None:
    library = add_faulty(copied_package(tmp_path), "WRONG")
    _, fault = in_child(lambda: _session.prove_cpu_library(str(library)))
    assert "a product of q8_0 with 8 rows gives" in fault


def test_a_process_that_dies_is_noticed() -> None:
    assert in_child(os.abort) == (None, "the process died of SIGABRT")


PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(find_ggml LANGUAGES C)
set(PACKAGE "{package}")
"""
OURS = """
function(executorch_ggml_locate variable)
  set(${variable} "${PACKAGE}" PARENT_SCOPE)
endfunction()
include("{root}/cmake/Ggml.cmake")
"""
THEIRS = "find_package(ggml CONFIG REQUIRED NO_DEFAULT_PATH PATHS ${PACKAGE}/lib/cmake/ggml)\n"


def configures(folder: Path, package: Path, lines: str) -> bool:
    folder.mkdir()
    text = PROJECT.replace("{package}", str(package)) + lines.replace("{root}", str(ROOT))
    (folder / "CMakeLists.txt").write_text(text)
    command = [sys.executable, "-m", "cmake", "-S", str(folder), "-B", str(folder / "build")]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_cmake_finds_a_ggml_without_some_variants(tmp_path: Path) -> None:
    package = copied_package(tmp_path)
    (package / "lib" / "libggml-cpu-haswell.so").unlink()
    assert not configures(tmp_path / "theirs", package, THEIRS)
    assert configures(tmp_path / "ours", package, OURS)
    remove_variant(package, "ggml-cpu-haswell")
    assert configures(tmp_path / "both", package, THEIRS)
    files = [path.read_text() for path in package.rglob("*.cmake")]
    assert not any("haswell" in text or FAULTY in text for text in files)
    assert any("ggml-cpu-skylakex" in text for text in files)
