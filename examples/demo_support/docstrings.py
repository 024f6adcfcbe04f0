"""Text that every machine with Python has: the documentation strings of its standard library."""

from __future__ import annotations

import ast
import inspect
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SHORTEST = 60  # characters; below, most say nothing
HELD_OUT = 16  # one text of so many is kept for the end
SKIPPED = {"site-packages", "dist-packages", "test", "tests", "idle_test", "lib2to3", "__pycache__"}


class Texts(NamedTuple):
    """Texts to learn from, and others to judge by."""

    train: list[str]
    held_out: list[str]


def load_texts() -> Texts:
    """All documentation strings, each once, in an order that is the same every time."""
    texts = list(dict.fromkeys(text for path in _sources() for text in _documentation(path)))
    held_out = texts[::HELD_OUT]
    known = set(held_out)
    return Texts([text for text in texts if text not in known], held_out)


def _sources() -> list[Path]:
    root = Path(sysconfig.get_path("stdlib"))
    return sorted(path for path in root.rglob("*.py") if SKIPPED.isdisjoint(path.relative_to(root).parts))


def _documentation(path: Path) -> Iterator[str]:
    """The documentation strings of a module and of what is in it."""
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node, clean=False)
            if text is not None and len(text) >= SHORTEST:
                yield inspect.cleandoc(text)
