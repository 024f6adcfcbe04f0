"""The CPU libraries of an installed ggml: which there are, which the compiler gets wrong, and how one is removed."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
AMX = "ggml-cpu-sapphirerapids"  # the variant that uses it


def package_folder() -> Path | None:
    """The folder of the installed ggml, or None."""
    spec = importlib.util.find_spec("libggml")
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    return Path(folders[0]) if folders else None


def variants(package: Path) -> list[Path]:
    """The libraries for one generation of processor each."""
    return sorted(package.glob("lib*/libggml-cpu-*.so"))


def compiler_loses_amx() -> bool:
    """Whether the compiler that CMake takes loses AMX's tile configuration (cmake/probe_amx.py)."""
    compiler = os.environ.get("CXX", "").split() or [shutil.which("c++") or shutil.which("g++") or "c++"]
    return subprocess.run([sys.executable, ROOT / "cmake" / "probe_amx.py", *compiler], check=False).returncode == 1


def remove_variant(package: Path, name: str) -> None:
    """Remove a variant's library, and its target from the package's CMake files."""
    for path in package.rglob(f"lib{name}.so"):
        path.unlink()
    for path in package.rglob("*.cmake"):
        text = path.read_text()
        kept = _without_target(text, name)
        if kept != text:
            # A new file: pip may have linked this one to others.
            replacement = path.with_suffix(".new")
            replacement.write_text(kept)
            replacement.replace(path)


def _without_target(text: str, name: str) -> str:
    """A CMake file without the paragraphs that make a target, and without its name in lists."""
    paragraph = rf'# (?:Create imported target ggml::{name}\n|Import target "ggml::{name}" ).*?\n(?=# |if\()'
    text = re.sub(paragraph, "", text, flags=re.DOTALL)
    text = re.sub(rf'(?<=["; ])(?:ggml::)?{name}[; ]', "", text)
    return re.sub(rf'[; ](?:ggml::)?{name}(?=[")])', "", text)
