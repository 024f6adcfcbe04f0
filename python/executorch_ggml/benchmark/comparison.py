"""Engines that take turns at a workload, each in a process of its own, so that what else happens hits all of them."""

from __future__ import annotations

import logging
import os
import statistics
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..progress import counted, stage
from .engines import ENGINES, Engine
from .system import busy_processes, busy_seconds
from .worker import EngineError, Runner, Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from .engines import Written
    from .worker import FirstCall, Loaded

_log = logging.getLogger(__name__)

SETTLE_SECONDS = 0.03
"""Between two turns: thread pools go on polling for a moment after their last call."""
BUSY_TURN = 3
"""A turn beside busy processes is so many times as long: a 90th percentile needs dozens of calls, which take longer."""
IDLE_SHARE = 0.1
"""An idle worker that uses more of a core than this is reported: it slows down the one being timed."""


def percentile(rounds: Sequence[Sequence[float]], percent: int) -> float:
    """A percentile of the durations of all rounds."""
    durations = [duration for durations in rounds for duration in durations]
    return statistics.quantiles(durations, n=100, method="inclusive")[percent - 1]


@dataclass
class Column:
    """What one engine did with one workload."""

    failure: str = ""
    written: Written | None = None
    loaded: Loaded | None = None
    call: FirstCall | None = None
    peak: int = 0
    """Peak resident bytes of its process (VmHWM), less the resident bytes before it loaded the file."""
    rounds: list[list[float]] = field(default_factory=list)
    busy_rounds: list[list[float]] = field(default_factory=list)
    """Rounds beside busy processes."""

    @property
    def median(self) -> float:
        return percentile(self.rounds, 50)

    def speed(self, base: Column) -> float:
        """How many times as fast as `base` this is."""
        return statistics.median(
            statistics.median(theirs) / statistics.median(own)
            for own, theirs in zip(self.rounds, base.rounds, strict=True)
        )


@dataclass
class Row:
    """What all engines did with one workload."""

    columns: dict[str, Column]
    step: float | None = None
    """The step of quantized outputs, relative to their largest magnitude."""


@dataclass
class Noise:
    """Processor time that went to others while a worker was timed."""

    elapsed: float = 0.0
    by_others: float = 0.0

    def add(self, other: Noise) -> None:
        self.elapsed += other.elapsed
        self.by_others += other.by_others

    @property
    def share(self) -> float:
        """The part of the machine's processors that other processes took."""
        return max(0.0, self.by_others) / (self.elapsed * (os.cpu_count() or 1)) if self.elapsed else 0.0


@dataclass(frozen=True)
class Turns:
    """How engines take turns.

    Each gets ``seconds`` in each of ``rounds``, and :data:`BUSY_TURN` times that beside ``busy`` processes.
    """

    rounds: int
    seconds: float
    busy: int = 0


def available_engines(names: Sequence[str]) -> list[Engine]:
    """The engines of those names that are installed; says which are not."""
    engines = []
    for name in names:
        missing = ENGINES[name].missing()
        if missing:
            _log.warning("%s: skipped, not installed: %s", ENGINES[name].title, ", ".join(missing))
        else:
            engines.append(ENGINES[name])
    return engines


def write(workload: str, engines: Sequence[Engine], writer: Worker, folder: str) -> Row:
    """A workload's file for each engine, and beside them the reference that they are checked with."""
    row = Row({engine.name: Column() for engine in engines})
    try:
        row.step = writer.ask("reference", workload, folder)
    except EngineError as error:
        for column in row.columns.values():
            column.failure = str(error)
        return row
    for name, column in counted("writing each engine's file", row.columns.items()):
        try:
            column.written = writer.ask("write", workload, name, folder)
        except EngineError as error:
            column.failure = str(error)
    return row


def _load(worker: Worker, column: Column, small: Written) -> None:
    assert column.written is not None
    worker.ask("warm_up", str(small.path))
    column.loaded = worker.ask("load", str(column.written.path))
    column.call = worker.ask("first_call")


@dataclass
class Comparison:
    """What the rows of a table have in common."""

    engines: Sequence[Engine]
    threads: int
    turns: Turns
    writer: Worker
    small: Mapping[str, Column]
    """A program of one node, written for every engine: each process loads that first."""
    runner: Callable[..., Runner] = Runner
    """What makes an engine's side of its process."""
    noise: Noise = field(default_factory=Noise)

    def row(self, workload: str) -> Row:
        """Write a workload for every engine, and measure it."""
        with tempfile.TemporaryDirectory() as folder:
            row = write(workload, self.engines, self.writer, folder)
            self.measure(row)
        return row

    def measure(self, row: Row) -> Noise:
        """Load each engine's file in a fresh process, and time them in turns; returns the noise of that time."""
        noise = Noise()
        with ExitStack() as stack:
            workers: dict[str, Worker] = {}
            for name, column in counted("loading in each engine", row.columns.items()):
                small = self.small[name].written
                if column.failure or small is None:
                    column.failure = column.failure or self.small[name].failure
                    continue
                workers[name] = stack.enter_context(Worker(name, self.threads, self.runner))
                try:
                    _load(workers[name], column, small)
                except EngineError as error:
                    column.failure = str(error)
            take_turns(workers, row.columns, self.turns, noise)
            for name, column in _unfailed(workers, row.columns).items():
                column.peak = workers[name].ask("peak")
        self.noise.add(noise)
        return noise


def take_turns(workers: Mapping[str, Worker], columns: Mapping[str, Column], turns: Turns, noise: Noise) -> None:
    """Time what the workers loaded, alone and beside busy processes."""
    order = list(_unfailed(workers, columns))
    for name in _in_turns(order, turns.rounds, columns):
        _turn(name, workers, columns[name], turns.seconds, noise)
    with busy_processes(turns.busy):
        for name in _in_turns(order, turns.rounds if turns.busy else 0, columns):
            _time(workers[name], columns[name], columns[name].busy_rounds, BUSY_TURN * turns.seconds)


def _unfailed(workers: Mapping[str, Worker], columns: Mapping[str, Column]) -> dict[str, Column]:
    return {name: columns[name] for name in workers if not columns[name].failure}


def _in_turns(order: Sequence[str], rounds: int, columns: Mapping[str, Column]) -> Iterator[str]:
    """The engines round by round, each round begun by the next; not those that failed meanwhile."""
    with stage("timing in rounds", rounds * len(order)) as advance:
        for number in range(rounds):
            first = number % len(order) if order else 0
            for name in (*order[first:], *order[:first]):
                if not columns[name].failure:
                    yield name
                advance(1)


def _turn(name: str, workers: Mapping[str, Worker], column: Column, seconds: float, noise: Noise) -> None:
    time.sleep(SETTLE_SECONDS)
    before = {other: worker.cpu_seconds() for other, worker in workers.items()}
    start, busy = time.perf_counter(), busy_seconds()
    _time(workers[name], column, column.rounds, seconds)
    if column.failure:
        return
    elapsed, busy = time.perf_counter() - start, busy_seconds() - busy
    used = {other: worker.cpu_seconds() - before[other] for other, worker in workers.items()}
    noise.elapsed += elapsed
    noise.by_others += busy - used[name]
    for other in used.keys() - {name}:
        if used[other] > IDLE_SHARE * elapsed:
            _log.warning("%s used %.0f%% of a core in the turn of %s", other, 100 * used[other] / elapsed, name)


def _time(worker: Worker, column: Column, rounds: list[list[float]], seconds: float) -> None:
    try:
        rounds.append(worker.time(seconds, warm_up=2))
    except EngineError as error:
        column.failure = str(error)
