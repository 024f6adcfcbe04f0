"""Bars on standard error for what takes long, with the time that is left."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from ..progress import listening

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_PER_SECOND = 4
"""Draws: each takes processor time from what is measured."""


def shown(function: Callable[..., Any]) -> Callable[..., Any]:
    """A command with bars, if a terminal is there to see them; --json and --quiet leave them out."""

    @click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
    @wraps(function)
    def command(*args: Any, quiet: bool, **choice: Any) -> Any:
        if quiet or choice.get("as_json") or not sys.stderr.isatty():
            return function(*args, **choice)
        with _bars():
            return function(*args, **choice)

    return command


@contextmanager
def _bars() -> Iterator[None]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    progress = Progress(
        *(*columns, TimeRemainingColumn(), TextColumn("{task.fields[left]}")),
        console=Console(stderr=True),
        transient=True,
        refresh_per_second=_PER_SECOND,
        redirect_stdout=False,  # it would come out on standard error
    )
    with progress, listening(_Bars(progress)):
        yield


class _Bars:
    """A bar for each stage that has begun and is not over."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def begin(self, what: str, total: float | None) -> TaskID:
        return self._progress.add_task(what, total=total, left="" if total is None else "left")

    def advance(self, stage: TaskID, amount: float) -> None:
        self._progress.advance(stage, amount)

    def end(self, stage: TaskID) -> None:
        self._progress.remove_task(stage)
