"""The libstdc++ that wheels are linked with has what their tag allows, and nothing newer."""

import os
import subprocess
from pathlib import Path

import pytest
from tools.manylinux import Symbol, allowed, allowed_symbols, assembly, version_script

from tools import manylinux

LISTING = """
Symbol table '.dynsym' contains 6 entries:
   Num:    Value          Size Type    Bind   Vis      Ndx Name
     1: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND abort@GLIBC_2.2.5 (2)
     2: 00000000000a1000    43 FUNC    GLOBAL DEFAULT   14 _ZNSt4cond4waitEv@GLIBCXX_3.4.11
     3: 00000000000a2000    17 FUNC    GLOBAL DEFAULT   14 _ZNSt4cond4waitEv@@GLIBCXX_3.4.30
     4: 00000000000a3000    17 FUNC    GLOBAL DEFAULT   14 _ZSt28__throw_bad_array_new_lengthv@@GLIBCXX_3.4.29
     5: 0000000000000010     8 TLS     GLOBAL DEFAULT   20 _ZSt15__once_callable@@GLIBCXX_3.4.11
     6: 00000000000b0000    24 OBJECT  UNIQUE DEFAULT   21 _ZTIi@@CXXABI_1.3
"""


@pytest.mark.parametrize(
    ("version", "is_allowed"),
    [
        ("GLIBCXX_3.4", True),
        ("GLIBCXX_3.4.24", True),
        ("GLIBCXX_3.4.25", False),
        ("CXXABI_1.3.11", True),
        ("CXXABI_1.3.13", False),
        ("CXXABI_TM_1", False),
        ("GLIBC_2.2.5", False),
    ],
)
def test_versions(version: str, is_allowed: bool) -> None:
    assert allowed(version) is is_allowed


def test_each_symbol_has_its_newest_allowed_version() -> None:
    assert allowed_symbols(LISTING) == [
        Symbol("_ZNSt4cond4waitEv", "GLIBCXX_3.4.11", "STT_FUNC", 43),
        Symbol("_ZSt15__once_callable", "GLIBCXX_3.4.11", "STT_TLS", 8),
        Symbol("_ZTIi", "CXXABI_1.3", "STT_OBJECT", 24),
    ]


def test_the_library_has_these_symbols_alone(tmp_path: Path) -> None:
    symbols = allowed_symbols(LISTING)
    source, script, library = (tmp_path / name for name in ("lib.s", "lib.map", "lib.so"))
    source.write_text(assembly(symbols))
    script.write_text(version_script(symbols))
    subprocess.run(["gcc", "-shared", "-nostdlib", source, "-o", library, f"-Wl,--version-script,{script}"], check=True)
    listing = subprocess.run(["readelf", "--dyn-syms", "--wide", library], check=True, capture_output=True, text=True)
    assert sorted(allowed_symbols(listing.stdout)) == sorted(symbols)


def test_a_toolchain_is_made_again_when_what_it_is_made_from_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "script.py"
    monkeypatch.setattr(manylinux, "SCRIPT", script)
    monkeypatch.setattr(manylinux, "SYSROOTS", tmp_path / "sysroots")
    monkeypatch.setattr(manylinux, "make_glibc", lambda _machine, folder: [folder])
    monkeypatch.setattr(manylinux, "make_libstdcpp", lambda _compiler, folder: (folder / "made").touch())
    compiler = manylinux.compiler_for(os.uname().machine)

    script.write_text("first")
    first = manylinux.toolchain(compiler)
    (first.parent / "made").unlink()
    assert manylinux.toolchain(compiler) == first
    assert not (first.parent / "made").exists()

    script.write_text("second")
    second = manylinux.toolchain(compiler)
    assert (second.parent / "made").exists()
    assert sorted((tmp_path / "sysroots").iterdir()) == [second.parent]
