"""What a command prints: lines for people, or one JSON object for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click


def show(facts: Mapping[str, Any], as_json: bool, lines: Iterable[str]) -> None:
    """Print the facts as JSON, or the lines that say the same."""
    if as_json:
        click.echo(json.dumps(facts, indent=2, default=_as_plain))
        return
    for line in lines:
        click.echo(line)


def show_line(facts: Mapping[str, Any]) -> None:
    """Print the facts as JSON in one line, at once: for programs that read while more comes."""
    click.echo(json.dumps(facts, default=_as_plain))
    sys.stdout.flush()


def described(name: str, array: Any) -> str:
    """An array in one line or a few: its name, type, shape, and the values at its ends."""
    import numpy as np

    return f"{name}: {array.dtype}{list(array.shape)} {np.array2string(array, threshold=16, edgeitems=3)}"


def _as_plain(value: Any) -> Any:
    """Numbers of numpy and torch, paths, and what is counted among sequences."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Path):
        return str(value)
    return list(value)
