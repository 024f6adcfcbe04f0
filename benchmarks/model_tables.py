"""The tables of :mod:`benchmarks.models`, in Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks import results
from executorch_ggml.benchmark.comparison import percentile
from executorch_ggml.benchmark.engines import GGML, XNNPACK

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from executorch_ggml.benchmark.comparison import Column, Noise, Row
    from executorch_ggml.benchmark.engines import Engine

TIMES = """\
{threads} threads; meanwhile other processes took {noise:.0%} of the processors. Median milliseconds per call; in
brackets the speed as a multiple of {base}'s. The last column is the time of the fastest peer as a multiple of ours
(above 1, ours is faster){peers}:"""
TAILS = "The 90th percentile of a call in milliseconds{busy}:"
BUSY = """, and beside {busy} processes that use a core each, the median and the 90th
percentile (which the last column is of)"""
ERRORS = "Largest difference from eager{what}, relative to eager's largest magnitude{steps}:"
CUTS = "Delegates that a program is cut into + operators left outside them:"
FILES = "File size in MB:"
MEMORY = """\
Memory in MB: once the file is loaded; and the peak of loading it and of all its calls. Both are resident memory of the
engine's process (VmRSS and VmHWM of `/proc/self/status`, with the pages of mapped files that were touched), beyond what
it held before: that is after its imports, after a program of one node was loaded and run, and with the inputs and
expected outputs in memory."""
RATIO = "best peer / ours"


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g}" if seconds < 0.1 else f"{seconds * 1e3:.0f}"


def time_cell(column: Column, base: Column | None) -> str:
    """The median, and the speed as a multiple of `base`'s."""
    if column.failure:
        return "failed"
    median = milliseconds(column.median)
    return f"{median} ({column.speed(base):.2f}x)" if base and base.rounds and not base.failure else median


def tail_cell(column: Column) -> str:
    """90th percentile alone; median and 90th percentile beside busy processes."""
    if column.failure:
        return "failed"
    alone = milliseconds(percentile(column.rounds, 90))
    if not column.busy_rounds:
        return alone
    median, tail = (milliseconds(percentile(column.busy_rounds, percent)) for percent in (50, 90))
    return f"{alone}; {median}, {tail}"


def base_of(engines: Sequence[Engine]) -> Engine:
    """The engine that speeds are given as multiples of."""
    return XNNPACK if XNNPACK in engines else GGML


def best_peer(
    row: Row, engine: Engine, peers: Sequence[Engine], times_as_fast: Callable[[Column, Column], float]
) -> str:
    """How many times as fast an engine of ours is as the peer that it is the least ahead of."""
    ours = row.columns.get(engine.name)
    others = [column for peer in peers if (column := row.columns.get(peer.name)) and not column.failure]
    if ours is None or ours.failure or not others:
        return "-"
    return f"{min(times_as_fast(ours, other) for other in others):.2f}"


def _tail_ratio(ours: Column, other: Column) -> float:
    """Of the 90th percentiles beside busy processes, or alone where none were."""
    own, theirs = (percentile(column.busy_rounds or column.rounds, 90) for column in (ours, other))
    return theirs / own


def error_cell(column: Column, step: float | None) -> str:
    if column.call is None or column.call.error is None:
        return "failed"
    return f"{column.call.error:.1g}" + (f" ({column.call.error / step:.1f})" if step else "")


def cut_cell(column: Column) -> str:
    if column.written is None or column.written.delegates is None:
        return "-"
    return f"{column.written.delegates} + {column.written.outside}"


def size_cell(column: Column) -> str:
    return f"{column.written.size / 1e6:.1f}" if column.written else "failed"


def memory_cell(column: Column) -> str:
    """Once loaded, at the peak."""
    if column.loaded is None or column.failure:
        return "failed"
    return f"{column.loaded.resident / 1e6:.0f}, {column.peak / 1e6:.0f}" if column.peak else "-"


def _table(
    table: Mapping[str, Row],
    engines: Sequence[Engine],
    cell: Callable[[Row, Column], str],
    last: Callable[[Row], str] | None = None,
) -> str:
    header = ["model", *(engine.title for engine in engines), *([RATIO] if last else [])]
    rows = [
        [model, *(cell(row, row.columns[engine.name]) for engine in engines), *([last(row)] if last else [])]
        for model, row in table.items()
    ]
    return results.markdown_table(header, rows)


def report(
    table: Mapping[str, Row], engines: Sequence[Engine], peers: Sequence[Engine], threads: int, busy: int, noise: Noise
) -> str:
    """All tables of some rows; the first engine is the one that is compared with the peers."""
    ours, base = engines[0], base_of(engines)
    int8 = any(row.columns and row.step for row in table.values())
    others = [engine for engine in engines if engine is not ours and engine not in peers]
    cutting = [e for e in engines if any(cut_cell(row.columns[e.name]) != "-" for row in table.values())]
    without = f"; {' and '.join(engine.title for engine in others)} does not count" if others else ""
    steps = " (in brackets: in steps of the last scale)" if int8 else ""
    parts = [
        TIMES.format(threads=threads, noise=noise.share, base=base.title, peers=without),
        _table(
            table,
            engines,
            lambda row, column: time_cell(column, row.columns.get(base.name)),
            lambda row: best_peer(row, ours, peers, lambda own, other: own.speed(other)),
        ),
        TAILS.format(busy=BUSY.format(busy=busy) if busy else ""),
        _table(
            table, engines, lambda _, column: tail_cell(column), lambda row: best_peer(row, ours, peers, _tail_ratio)
        ),
        ERRORS.format(what=" of the quantized graph" if int8 else "", steps=steps),
        _table(table, engines, lambda row, column: error_cell(column, row.step)),
        *([CUTS, _table(table, cutting, lambda _, column: cut_cell(column))] if cutting else []),
        FILES,
        _table(table, engines, lambda _, column: size_cell(column)),
        MEMORY,
        _table(table, engines, lambda _, column: memory_cell(column)),
    ]
    return "\n\n".join(parts)
