"""How the demo looks on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH = 96


def heading(text: str) -> None:
    """Print a title with a rule under it."""
    print(f"\n{text}\n{'─' * WIDTH}", flush=True)


def step(text: str) -> None:
    """Print what was just done."""
    print(f"  {text}", flush=True)


def table(header: Sequence[str], rows: Sequence[Sequence[str]], gap: int = 3) -> None:
    """Print rows in aligned columns `gap` apart, the first to the left and the others to the right."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]

    def show(row: Sequence[str]) -> None:
        cells = [
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print(f"  {(' ' * gap).join(cells)}")

    show(header)
    print(f"  {'─' * (sum(widths) + gap * (len(widths) - 1))}")
    for row in rows:
        show(row)


def duration(seconds: float) -> str:
    """A duration in the unit that suits it."""
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.0f} µs"


def size(count: int) -> str:
    """A number of bytes in the unit that suits it."""
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.1f} kB"
