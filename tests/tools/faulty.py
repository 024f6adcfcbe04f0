"""Installed ggml packages to try things with: copies, and CPU libraries that are not right."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tools.ggml_variants import package_folder, variants

ROOT = Path(__file__).resolve().parents[2]
FAULTY = "ggml-cpu-faulty"


def copied_package(folder: Path) -> Path:
    """The installed package as a copy that may be changed; tests skip where it has no variants."""
    package = package_folder()
    if package is None or not variants(package):
        pytest.skip("this ggml has one CPU library: make GGML=variants")
    return Path(shutil.copytree(package, folder / "libggml", symlinks=True))


def add_faulty(package: Path, fault: str) -> Path:
    """A library with a fault beside the others: `SIGILL` or `WRONG`."""
    library = package / "lib" / f"lib{FAULTY}.so"
    right = package / "lib" / "libggml-cpu-x64.so"
    command = ["g++", "-std=c++17", "-O1", "-shared", "-fPIC", f'-DLIBRARY="{right}"', f"-D{fault}"]
    command += [f"-I{folder}" for folder in (package / "include", ROOT / "native" / "devices")]
    source = Path(__file__).with_name("faulty_variant.cpp")
    subprocess.run([*command, "-o", library, source, f"-L{package / 'lib'}", "-lggml-base"], check=True)
    return library
