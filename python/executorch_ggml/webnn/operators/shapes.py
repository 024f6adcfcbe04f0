"""Shapes: what a dimension may be, and the three kinds of broadcasting."""

from __future__ import annotations

from collections.abc import Sequence

Shape = tuple[int, ...]

MAX_RANK = 8
MAX_DIMENSION = 2**31 - 1


def is_dimension(size: int) -> bool:
    """Whether a size is a valid dimension: positive, and in the range of ``long``."""
    return 0 < size <= MAX_DIMENSION


def broadcast(a: Sequence[int], b: Sequence[int]) -> Shape | None:
    """The common shape of two that stretch to each other, or None."""
    rank = max(len(a), len(b))
    sizes = []
    for i in range(-rank, 0):
        m = a[i] if -i <= len(a) else 1
        n = b[i] if -i <= len(b) else 1
        if m not in (n, 1) and n != 1:
            return None
        sizes.append(max(m, n))
    return tuple(sizes)


def broadcasts_to(shape: Sequence[int], target: Sequence[int]) -> bool:
    """Whether a shape stretches to ``target``."""
    return len(shape) <= len(target) and all(
        size in (wanted, 1) for size, wanted in zip(reversed(shape), reversed(target), strict=False)
    )


def blocks_fill(shape: Sequence[int], target: Sequence[int]) -> bool:
    """Whether every dimension repeats a whole number of times in ``target`` (blockwise broadcasting)."""
    return len(shape) == len(target) and all(n % m == 0 for m, n in zip(shape, target, strict=True))
