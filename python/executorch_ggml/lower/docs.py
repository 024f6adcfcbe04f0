"""Generates docs/lowerings.md from the registry: ``python -m executorch_ggml.lower.docs [--check]``."""

from __future__ import annotations

import argparse
import inspect
import sys
from pathlib import Path

from . import LOWERINGS
from .registry import PRESERVED

PAGE = Path(__file__).resolve().parents[3] / "docs" / "lowerings.md"
_HEAD = """<!-- Generated from the registry by python/executorch_ggml/lower/docs.py; do not edit. -->

# ATen overloads that run in ggml

{count} overloads. A call of one is delegated unless its lowering refuses its arguments; `executorch_ggml.explain` says
why. Those marked "whole" are composite ops that are lowered as they are instead of being decomposed.

| overload | what | |
| --- | --- | --- |
"""


def page() -> str:
    """The table in Markdown."""
    rows = []
    for overload, function in sorted(LOWERINGS.items(), key=lambda entry: str(entry[0])):
        summary = inspect.cleandoc(function.__doc__ or "").split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
        rows.append(f"| `{overload}` | {summary} | {'whole' if overload in PRESERVED else ''} |")
    return _HEAD.format(count=len(rows)) + "\n".join(rows) + "\n"


def main() -> int:
    """Write the page, or with --check say whether it is up to date."""
    parser = argparse.ArgumentParser(description="Generate docs/lowerings.md.")
    parser.add_argument("--check", action="store_true", help="fail if the tracked page is out of date")
    text = page()
    if not parser.parse_args().check:
        PAGE.write_text(text)
        return 0
    if PAGE.exists() and PAGE.read_text() == text:
        return 0
    print("docs/lowerings.md is out of date: run make generate", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
