"""The lines of the tables that emulated tests print. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Row(NamedTuple):
    """What ran on one CPU."""

    cpu: str
    what: str
    passed: int
    failed: list[str]
    seconds: float

    def __str__(self) -> str:
        verdict = f"{len(self.failed)} failed: {', '.join(self.failed)}" if self.failed else "all passed"
        return f"{self.cpu:<24} {self.what:<14} {self.passed:>4} passed  {verdict:<12} {self.seconds:7.1f} s"


def report(rows: Iterable[Row], logs: str) -> int:
    """Print rows as they come; the exit status. `logs`: where to look for what failed."""
    failed = False
    for row in rows:
        print(row, flush=True)
        failed = failed or bool(row.failed)
    if failed:
        print(f"what the tests printed is in {logs}")
    return int(failed)
