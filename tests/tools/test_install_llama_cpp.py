"""Which compiler llama.cpp is built with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import install_llama_cpp as install


@pytest.fixture
def clangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole PATH, on a CPU with AMX."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(install, "CPUINFO", tmp_path / "cpuinfo")
    (tmp_path / "cpuinfo").write_text("flags : avx512_vnni amx_tile amx_int8")
    monkeypatch.setattr(install, "compiler_loses_amx", lambda: True)
    return tmp_path


def add(folder: Path, name: str, says: str) -> None:
    for path in (folder / name, folder / name.replace("clang", "clang++")):
        path.write_text(f"#!/bin/sh\necho {says}\n")
        path.chmod(0o755)


def test_the_newest_clang(clangs: Path) -> None:
    add(clangs, "clang", "14.0.6")
    add(clangs, "clang-16", "16.0.6")
    add(clangs, "clang-19", "19.1.7")
    settings = {"CMAKE_C_COMPILER": str(clangs / "clang-19"), "CMAKE_CXX_COMPILER": str(clangs / "clang++-19")}
    assert install.compiler() == settings


@pytest.mark.parametrize(("says", "taken"), [("16", True), ("15.0.7", False), ("nothing", False)])
def test_a_clang_of_another_name(clangs: Path, monkeypatch: pytest.MonkeyPatch, says: str, *, taken: bool) -> None:
    monkeypatch.setattr(install, "compiler_loses_amx", lambda: False)
    add(clangs, "clang", says)
    assert bool(install.compiler()) == taken


def test_the_usual_compiler_without_amx(clangs: Path) -> None:
    add(clangs, "clang-19", "19.1.7")
    (clangs / "cpuinfo").write_text("flags : avx2 avx512_vnni")
    assert install.compiler() == {}


def test_a_compiler_that_loses_amx(clangs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match=r"this CPU has AMX, .*install clang 16 or newer"):
        install.compiler()
    monkeypatch.setattr(install, "compiler_loses_amx", lambda: False)
    assert install.compiler() == {}
