"""The code that README.md shows, for tests to run as it is printed."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"


def blocks(language: str) -> list[str]:
    """The code blocks of a language, in their order."""
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(), re.DOTALL)


def write_cpp_project(folder: Path) -> None:
    """Write the C++ project that README.md shows into a folder."""
    (cmake,), (program,) = blocks("cmake"), blocks("cpp")
    (folder / "CMakeLists.txt").write_text(cmake)
    (folder / "main.cpp").write_text(program)
