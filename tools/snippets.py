"""The code that README.md and the pages of docs/ show, for tests to run as it is printed.

A fence that no test can run has a line right above it: ``<!-- not run: the reason -->``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
LANGUAGE_MODELS = ROOT / "docs" / "language_models.md"
CPP = ROOT / "docs" / "cpp.md"
CONTRIBUTING = ROOT / "docs" / "contributing.md"
FENCE = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]+) -->\n)?^```(?P<language>\w+)[^\n]*\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Snippet:
    """A block of code in a page, and why it is not run (``""`` where it is)."""

    language: str
    code: str
    not_run: str
    line: int


def snippets(page: Path) -> list[Snippet]:
    """The blocks of code of a page, in their order."""
    text = page.read_text("utf-8")
    return [
        Snippet(found["language"], found["code"], found["reason"] or "", text.count("\n", 0, found.start("code")) + 1)
        for found in FENCE.finditer(text)
    ]


def blocks(language: str, page: Path = README) -> list[str]:
    """The code blocks of a language, in their order."""
    return [snippet.code for snippet in snippets(page) if snippet.language == language]


def write_cpp_project(folder: Path) -> None:
    """Write the C++ project that docs/cpp.md shows into a folder."""
    (cmake,), (program,) = blocks("cmake", CPP), blocks("cpp", CPP)
    (folder / "CMakeLists.txt").write_text(cmake)
    (folder / "main.cpp").write_text(program)
