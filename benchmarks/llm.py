"""Ours beside llama.cpp and transformers on language models of real shapes, all on the same GGUF files.

The weights are random, which speed does not depend on. Each engine lives in a process of its own with the same number
of threads. They take turns in rounds; a ratio is that of the fastest times, which a busy machine disturbs the least.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks import results
from benchmarks.llm_engines import ENGINES, export, make_engine, program_of
from benchmarks.random_gguf import SHAPES, random_gguf
from benchmarks.worker import EngineError, Worker

TYPES = ("q4_0", "q4_k_m", "q8_0", "f16")
PREFILLS = (32, 128, 512)
CONTEXTS = (2048, 512, 16)  # a cache is filled once and then shortened
STEPS = 12
SETTLE_SECONDS = 0.1
OURS, BASE = "ggml", "llama.cpp"
FOLDER = Path("build/bench-llm")
CONDITIONS = """\
{threads} threads; the cache holds {length} positions in f16. Tokens per second; in brackets the speed as a multiple of
llama.cpp's. "prefill n" reads n tokens into an empty cache, "decode n" makes one token after n."""


@dataclass
class Measured:
    """What one engine did with one file."""

    load: float = 0.0
    first: float = 0.0
    memory: int = 0
    times: dict[str, list[float]] = field(default_factory=dict)
    logits: list[float] = field(default_factory=list)

    def rate(self, part: str) -> float:
        """Tokens per second of the fastest time."""
        kind, count = part.split()
        return (int(count) if kind == "prefill" else 1) / min(self.times[part])


def prepare(shape: str, kind: str) -> Path:
    """A model's file and program, written once."""
    path = random_gguf(shape, kind, FOLDER)
    if not program_of(path).exists():
        print(f"exporting {path}", flush=True)
        with Worker("export", 1, make_exporter) as worker:
            worker.ask("export", str(path))
    return path


class Exporter:
    """Answers in a process of its own."""

    def export(self, path: str) -> None:
        """Write a file's program."""
        export(path)


def make_exporter(*_: object) -> Exporter:
    """The worker's server."""
    return Exporter()


def measure(path: Path, engines: Sequence[str], threads: int, rounds: int) -> dict[str, Measured]:
    """Load a file in each engine, and time the parts in turns."""
    found = {name: Measured() for name in engines}
    with ExitStack() as stack:
        workers = {name: stack.enter_context(Worker(name, threads, make_engine)) for name in engines}
        for name, worker in workers.items():
            try:
                found[name].load, found[name].first = worker.ask("load", str(path))
                found[name].logits = worker.ask("logits", 20)
            except EngineError as error:
                print(f"    {path.name}: {name} failed: {error}", file=sys.stderr)
                del found[name]
        order = list(found)
        for part in [*(f"prefill {n}" for n in PREFILLS), *(f"decode {n}" for n in CONTEXTS)]:
            for name in order if part.startswith("decode") else ():
                workers[name].ask("fill", int(part.split()[1]))
            for _ in range(rounds):
                for name in order:
                    time.sleep(SETTLE_SECONDS)
                    found[name].times.setdefault(part, []).extend(_turn(workers[name], part))
                order.append(order.pop(0))
            print(f"    {path.stem} {part}: {_line(found, part)}", flush=True)
        for name, measured in found.items():
            measured.memory = workers[name].ask("peak_memory")
    return found


def _turn(worker: Worker, part: str) -> list[float]:
    kind, count = part.split()
    if kind == "prefill":
        return [worker.ask("prefill", int(count))]
    durations: list[float] = worker.ask("decode", int(count), STEPS)
    return durations


def _line(found: dict[str, Measured], part: str) -> str:
    return ", ".join(f"{name} {_rate_cell(found, name, part)}" for name in found)


def _rate_cell(found: dict[str, Measured], name: str, part: str) -> str:
    if name not in found or part not in found[name].times:
        return "failed"
    rate = found[name].rate(part)
    if BASE not in found:
        return f"{rate:.3g}"
    return f"{rate:.3g} ({rate / found[BASE].rate(part):.2f}x)"


def disagreement(found: dict[str, Measured], name: str) -> float:
    """The largest difference of the logits from llama.cpp's, relative to their largest magnitude."""
    ours, base = np.array(found[name].logits), np.array(found[BASE].logits)
    return float(np.abs(ours - base).max() / np.abs(base).max())


def report(table: dict[str, dict[str, Measured]], engines: Sequence[str], threads: int) -> str:
    """The tables, in Markdown."""
    from benchmarks.llm_engines import LENGTH

    titles = [ENGINES[name].title for name in engines]
    parts = [*(f"prefill {n}" for n in PREFILLS), *(f"decode {n}" for n in sorted(CONTEXTS))]
    speed = [
        [f"{label}, {part}", *(_rate_cell(found, name, part) for name in engines)]
        for label, found in table.items()
        for part in parts
    ]
    start = [
        [
            label,
            *(
                f"{m.load:.2f} s, {m.first:.2f} s, {m.memory / 2**30:.2f} GiB" if (m := found.get(name)) else "failed"
                for name in engines
            ),
        ]
        for label, found in table.items()
    ]
    body = [
        CONDITIONS.format(threads=threads, length=LENGTH),
        results.markdown_table(["", *titles], speed),
        "Loading, loading and the first token after 32, and the most memory that the process had:",
        results.markdown_table(["", *titles], start),
    ]
    if BASE in engines and OURS in engines:
        body.append(_summary(table, parts))
    return "\n\n".join(body)


def _summary(table: dict[str, dict[str, Measured]], parts: Sequence[str]) -> str:
    lines = []
    for kind in ("prefill", "decode"):
        ratios = [
            found[OURS].rate(part) / found[BASE].rate(part)
            for found in table.values()
            for part in parts
            if part.startswith(kind) and OURS in found and BASE in found
        ]
        if ratios:
            mean = statistics.geometric_mean(ratios)
            lines.append(f"{kind}: {mean:.2f}x llama.cpp's speed as a geometric mean, {min(ratios):.2f}x at least.")
    worst = max(disagreement(found, OURS) for found in table.values() if OURS in found and BASE in found)
    lines.append(f"Logits differ from llama.cpp's by {worst:.1e} of their largest magnitude at most.")
    return "  \n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.llm", description=__doc__)
    parser.add_argument("--models", nargs="+", default=list(SHAPES), choices=SHAPES, metavar="MODEL")
    parser.add_argument("--types", nargs="+", default=list(TYPES), metavar="TYPE")
    parser.add_argument("--engines", nargs="+", default=[OURS, BASE], choices=ENGINES, metavar="ENGINE")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3, help="how often each engine gets its turn")
    arguments = parser.parse_args()
    engines = [name for name in arguments.engines if importlib.util.find_spec(ENGINES[name].package)]
    for name in set(arguments.engines) - set(engines):
        print(f"{ENGINES[name].title}: skipped, {ENGINES[name].package} is not installed")
    table = {}
    for shape in arguments.models:
        for kind in arguments.types:
            path = prepare(shape, kind)
            table[f"{shape} {kind}"] = measure(path, engines, arguments.threads, arguments.rounds)
    body = report(table, engines, arguments.threads)
    print(f"\n{body}")
    if set(arguments.models) == set(SHAPES) and set(arguments.types) == set(TYPES) and BASE in engines:
        results.write_section("llm", "Language models", body, results.RESULTS)


if __name__ == "__main__":
    main()
