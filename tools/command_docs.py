"""Generates docs/command_line.md from the click commands: ``python -m tools.command_docs``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from executorch_ggml.cli import commands

DOCS = Path(__file__).resolve().parents[1] / "docs" / "command_line.md"
_NAME = "executorch-ggml"
_HEAD = """<!-- Generated from the commands by tools/command_docs.py; do not edit. -->

# The command line

The exit code is 0 for success, 1 for an error that one line on stderr explains, 2 for a wrong command line, 130 for
Ctrl-C; `compare --at-most` fails with 3 where outputs differ by more. Shell completion is click's:
`eval "$(_EXECUTORCH_GGML_COMPLETE=bash_source executorch-ggml)"` (or `zsh_source`, `fish_source`).
"""


def text() -> str:
    """The page: each command with its help, as the terminal shows it."""
    root = click.Context(commands, info_name=_NAME, **commands.context_settings)
    return _HEAD + "".join(_section(context) for context in _contexts(root))


def _contexts(parent: click.Context) -> Iterator[click.Context]:
    """The contexts of a group's commands, those of its groups' after them."""
    assert isinstance(parent.command, click.Group)
    for name in parent.command.list_commands(parent):
        command = parent.command.get_command(parent, name)
        assert command is not None
        context = click.Context(command, info_name=name, parent=parent, terminal_width=100)
        yield context
        if isinstance(command, click.Group):
            yield from _contexts(context)


def _section(context: click.Context) -> str:
    title = context.command_path.removeprefix(_NAME).strip()
    return f"\n## {title}\n\n```text\n{context.get_help()}\n```\n"


def main() -> int:
    """Write the page, or say whether it is up to date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail where the page is out of date")
    check = parser.parse_args().check
    page = text()
    if not check:
        DOCS.write_text(page, "utf-8")
        return 0
    if DOCS.is_file() and DOCS.read_text("utf-8") == page:
        return 0
    print(f"{os.path.relpath(DOCS)} is out of date: make generate", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
