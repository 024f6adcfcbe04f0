"""Ours beside XNNPACK, eager PyTorch, ONNX Runtime and OpenVINO on the models of the zoo.

Each engine lives in a process of its own with the same number of threads. They take turns in rounds, so that whatever
else happens on the machine hits all of them; a ratio is the median of the ratios of each round.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import results
from benchmarks.engines import COMPARED, ENGINES, XNNPACK, Engine
from benchmarks.system import busy_processes, busy_seconds
from benchmarks.worker import EngineError, Ready, Worker

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MODELS = ("bert", "llama", "vit", "resnet18", "mobilenet_v2", "unet", "lstm", "gru")
CONDITIONS = """\
Batch 1, f32, {threads} threads. Transformers run on 128 tokens, image models on 224x224 pixels (the U-Net on 128x128),
recurrent networks on 16 steps. Ours is exported with symbolic shapes, the others with those of the input. Median
milliseconds per call; in brackets the speed as a multiple of XNNPACK's. Meanwhile other processes took {noise:.0%} of
the processors."""
TAILS = """\
The 90th percentile of a call in milliseconds, and beside {busy} processes that use a core each, the median and the 90th
percentile:"""
SETTLE_SECONDS = 0.03
"""Between two turns: thread pools go on polling for a moment after their last call."""
IDLE_SHARE = 0.1
"""An idle worker that uses more of a core than this is reported: it slows down the one being timed."""


@dataclass
class Column:
    """What one engine did with one model."""

    ready: Ready | None = None
    failure: str = ""
    rounds: list[list[float]] = field(default_factory=list)
    loaded: list[list[float]] = field(default_factory=list)
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


Row = dict[str, Column]


def percentile(rounds: Sequence[Sequence[float]], percent: int) -> float:
    """A percentile of the durations of all rounds."""
    durations = [duration for durations in rounds for duration in durations]
    return statistics.quantiles(durations, n=100, method="inclusive")[percent - 1]


def available_engines(names: Sequence[str]) -> list[Engine]:
    """The engines of those names that are installed; says which are not."""
    engines = []
    for name in names:
        missing = ENGINES[name].missing()
        if missing:
            print(f"{ENGINES[name].title}: skipped, not installed: {', '.join(missing)}")
        else:
            engines.append(ENGINES[name])
    return engines


@dataclass
class Noise:
    """Processor time that went to others while a worker was timed."""

    elapsed: float = 0.0
    by_others: float = 0.0

    @property
    def share(self) -> float:
        """The part of the machine's processors that other processes took."""
        return max(0.0, self.by_others) / (self.elapsed * (os.cpu_count() or 1)) if self.elapsed else 0.0


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
            print(f"    {other} used {used[other] / elapsed:.0%} of a core in the turn of {name}", file=sys.stderr)


def _time(worker: Worker, column: Column, rounds: list[list[float]], seconds: float) -> None:
    try:
        rounds.append(worker.time(seconds, warm_up=2))
    except EngineError as error:
        column.failure = str(error)


@dataclass(frozen=True)
class Turns:
    """How engines take turns: each gets ``seconds`` in each of ``rounds``, and again beside ``busy`` processes."""

    rounds: int
    seconds: float
    busy: int = 0


def compare(workload: str, workers: Mapping[str, Worker], turns: Turns, noise: Noise) -> Row:
    """Prepare a workload in every worker, then time them in turns, alone and beside busy processes."""
    row: Row = {name: Column() for name in workers}
    for name, worker in workers.items():
        try:
            row[name].ready = worker.prepare(workload)
        except EngineError as error:
            row[name].failure = str(error)
            print(f"    {workload}: {ENGINES[name].title} failed: {error}", file=sys.stderr)
    order = [name for name in workers if row[name].ready]
    for name in _in_turns(order, turns.rounds, row):
        _turn(name, workers, row[name], turns.seconds, noise)
    with busy_processes(turns.busy):
        for name in _in_turns(order, turns.rounds if turns.busy else 0, row):
            _time(workers[name], row[name], row[name].loaded, turns.seconds)
    return row


def _in_turns(order: Sequence[str], rounds: int, row: Row) -> Iterator[str]:
    """The engines round by round, each round begun by the next; not those that failed meanwhile."""
    for number in range(rounds):
        first = number % len(order) if order else 0
        yield from (name for name in (*order[first:], *order[:first]) if not row[name].failure)


def _time_cell(column: Column, base: Column | None) -> str:
    if column.failure:
        return "failed"
    milliseconds = f"{column.median * 1e3:.3g}" if column.median < 0.1 else f"{column.median * 1e3:.0f}"
    return f"{milliseconds} ({column.speed(base):.2f}x)" if base and base.rounds and not base.failure else milliseconds


def _tail_cell(column: Column) -> str:
    """90th percentile alone; median and 90th percentile beside busy processes."""
    if column.failure or not column.loaded:
        return "failed" if column.failure else "-"
    shown = (percentile(column.rounds, 90), percentile(column.loaded, 50), percentile(column.loaded, 90))
    alone, median, tail = (f"{seconds * 1e3:.3g}" for seconds in shown)
    return f"{alone}; {median}, {tail}"


def _error_cell(column: Column) -> str:
    return f"{column.ready.error:.1g}" if column.ready else "failed"


def _cut_cell(column: Column) -> str:
    if not column.ready or column.ready.delegates is None:
        return "-"
    return f"{column.ready.delegates} + {column.ready.outside}"


def report(table: Mapping[str, Row], engines: Sequence[Engine], threads: int, busy: int, noise: Noise) -> str:
    """The tables, in Markdown."""
    titles = [engine.title for engine in engines]
    times = [
        [model, *(_time_cell(row[engine.name], row.get(XNNPACK.name)) for engine in engines)]
        for model, row in table.items()
    ]
    tails = [[model, *(_tail_cell(row[engine.name]) for engine in engines)] for model, row in table.items()]
    errors = [[model, *(_error_cell(row[engine.name]) for engine in engines)] for model, row in table.items()]
    cutting = [engine for engine in engines if any(_cut_cell(row[engine.name]) != "-" for row in table.values())]
    cuts = [[model, *(_cut_cell(row[engine.name]) for engine in cutting)] for model, row in table.items()]
    return "\n\n".join(
        [
            CONDITIONS.format(threads=threads, noise=noise.share),
            results.markdown_table(["model", *titles], times),
            *([TAILS.format(busy=busy), results.markdown_table(["model", *titles], tails)] if busy else []),
            "Largest difference from eager, relative to eager's largest magnitude:",
            results.markdown_table(["model", *titles], errors),
            "Delegates that a program is cut into + operators left outside them:",
            results.markdown_table(["model", *(engine.title for engine in cutting)], cuts),
        ]
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.models", description=__doc__)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS, metavar="MODEL")
    names = [engine.name for engine in COMPARED]
    parser.add_argument("--engines", nargs="+", default=names, choices=names, metavar="ENGINE")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1), help="threads of each engine")
    parser.add_argument("--rounds", type=int, default=9, help="how often each engine gets its turn")
    parser.add_argument("--seconds", type=float, default=0.3, help="length of a turn")
    parser.add_argument(
        "--busy", type=int, default=os.cpu_count() or 1, help="processes that load the machine; 0: none"
    )
    parser.add_argument(
        "--out", type=Path, help="file of results (default: RESULTS.md for a run over all models, else none)"
    )
    return parser.parse_args()


def main() -> None:
    arguments = _arguments()
    engines = available_engines(arguments.engines)
    table: dict[str, Row] = {}
    noise, turns = Noise(), Turns(arguments.rounds, arguments.seconds, arguments.busy)
    with ExitStack() as stack:
        workers = {engine.name: stack.enter_context(Worker(engine.name, arguments.threads)) for engine in engines}
        for model in arguments.models:
            table[model] = compare(model, workers, turns, noise)
            cells = [f"{e.title} {_time_cell(table[model][e.name], table[model].get(XNNPACK.name))}" for e in engines]
            print(f"{model}: {', '.join(cells)}", flush=True)
    body = report(table, engines, arguments.threads, arguments.busy, noise)
    print(f"\n{body}")
    complete = set(arguments.models) == set(MODELS) and len(engines) == len(COMPARED)
    out = arguments.out or (results.RESULTS if complete else None)
    if out:
        results.write_section("models", "Models", body, out)


if __name__ == "__main__":
    main()
