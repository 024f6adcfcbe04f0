"""The lines of the tables that emulated tests print. Imports no torch."""

from __future__ import annotations

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
