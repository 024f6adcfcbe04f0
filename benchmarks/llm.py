"""Ours beside llama.cpp, ExecuTorch's XNNPACK and transformers on language models of real shapes.

All start from the same GGUF files. The weights are random, which speed does not depend on. Each engine lives in a
process of its own with the same number of threads. They take turns in rounds; a ratio is that of the fastest times,
which a busy machine disturbs the least. Where a file or a process comes to lie in a machine's memory may change its
speed by a third, as long as it lies there: all of it is done anew once, files read again into other memory, but for
long texts, whose reading would take most of the time.

A whole run takes some half an hour on two cores of a Zen 4. What is measured is kept, so that it can be done in pieces:
with ``--resume`` a model that was measured with the same code, the same engines and the same parts is left alone.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import statistics
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import results
from benchmarks.llm_engines import ENGINES, LENGTH, Exporter, forget, make_engine
from executorch_ggml.benchmark.worker import EngineError, Worker

TYPES = ("q4_0", "q4_k_m", "q8_0", "f16", "bf16")
PREFILLS = (32, 128, 512)
CONTEXTS = (16, 512, 2048)
LONG = 512
"""Tokens of a prefill that each engine gets one turn for. What reads more is left out when all is done anew."""
EXPORTS_AT_ONCE = 2
STEPS = 12
SETTLE_SECONDS = 0.1
OURS, BASE = "ggml", "llama.cpp"
FOLDER = Path("build/bench-llm")
CONDITIONS = """\
{threads} threads; the cache holds {length} positions, in f16 except for XNNPACK (f32). Tokens per second; in brackets
the speed as a multiple of llama.cpp's. "prefill n" reads n tokens into an empty cache, "decode n" makes one token after
n. XNNPACK runs 4-bit weights with 8-bit activations by ExecuTorch's own recipe (8da4w, groups of 32, its custom
attention and cache ops), transformers bf16. "-": not measured."""
EXPORT = """\
Seconds that a program's export from the GGUF file took, with the imports of a new process, beside another export on the
second core; llama.cpp runs the file itself:"""

START = """\
Loading a file that is in the page cache, loading and the first token after 32, and the most memory that the process had
at any time beyond that of its imported libraries, which loading does not include:"""

SUMMARY = """\
Multiples of llama.cpp's, as a geometric mean and the worst: of speeds, of seconds, of bytes. And the largest difference
of the logits from llama.cpp's, relative to their largest magnitude:"""


@dataclass
class Measured:
    """What one engine did with one file."""

    export: float = math.nan  # of engines that run programs
    load: float = math.inf
    first: float = math.inf
    memory: int = 0
    times: dict[str, list[float]] = field(default_factory=dict)
    logits: list[float] = field(default_factory=list)

    def with_more(self, other: Measured) -> Measured:
        """Both as one: all times, the fastest start, the most memory."""
        parts = {part: self.times.get(part, []) + other.times.get(part, []) for part in {**self.times, **other.times}}
        load, first = min(self.load, other.load), min(self.first, other.first)
        return Measured(other.export, load, first, max(self.memory, other.memory), parts, other.logits)

    def rate(self, part: str) -> float:
        """Tokens per second of the fastest time."""
        kind, count = part.split()
        return (int(count) if kind == "prefill" else 1) / min(self.times[part])


Found = dict[str, Measured]


@dataclass(frozen=True)
class Plan:
    """What is measured of each file."""

    engines: Sequence[str]
    prefills: Sequence[int]
    contexts: Sequence[int]
    threads: int
    rounds: int
    repeats: int
    exports: bool = True

    @property
    def parts(self) -> list[str]:
        """In the order of the tables."""
        return [*(f"prefill {n}" for n in self.prefills), *(f"decode {n}" for n in self.contexts)]

    def order(self, repeat: int) -> list[str]:
        """What to measure, as it reads the least: each part goes on where the one before it ended."""
        longest = max(self.prefills, default=0)
        contexts = sorted(count for count in self.contexts if repeat == 0 or count <= LONG)
        contexts = [count for count in contexts if count >= longest] + [count for count in contexts if count < longest]
        return [*(f"prefill {n}" for n in sorted(self.prefills)), *(f"decode {n}" for n in contexts)]

    def rounds_of(self, part: str) -> int:
        """How often each engine gets its turn: a long part is disturbed less, and gets one."""
        kind, count = part.split()
        return 1 if kind == "prefill" and int(count) >= LONG else self.rounds

    def engines_for(self, label: str) -> list[str]:
        """The engines that have weights like a file's, and a program of it or leave to export one."""
        kind = label.rsplit(maxsplit=1)[-1]
        fitting = [name for name in self.engines if (types := ENGINES[name].types) is None or kind in types]
        return [name for name in fitting if self.exports or has_program(label, name)]

    def whole(self) -> bool:
        """Whether no part and no engine is missing that the results should have."""
        return (
            set(self.engines) == set(ENGINES)
            and set(self.prefills) >= set(PREFILLS)
            and set(self.contexts) >= set(CONTEXTS)
        )


class Kept:
    """The measured cells, in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cells: dict[str, dict[str, Any]] = json.loads(path.read_text("utf-8")) if path.exists() else {}

    @staticmethod
    def _conditions(plan: Plan, label: str) -> dict[str, Any]:
        engines = {name: ENGINES[name].version() for name in plan.engines_for(label)}
        return {"engines": engines, "parts": plan.parts, "threads": plan.threads}

    def find(self, label: str, plan: Plan) -> Found | None:
        """What was measured under the same conditions."""
        cell = self.cells.get(label)
        if cell is None or cell["conditions"] != self._conditions(plan, label):
            return None
        return {name: Measured(**measured) for name, measured in cell["found"].items()}

    def keep(self, label: str, plan: Plan, found: Found) -> None:
        """Write down what was measured, unless an engine failed."""
        if set(found) != set(plan.engines_for(label)):
            return
        made = {name: asdict(measured) for name, measured in found.items()}
        self.cells[label] = {"conditions": self._conditions(plan, label), "found": made}
        self.path.write_text(json.dumps(self.cells), "utf-8")


def has_program(label: str, name: str) -> bool:
    """Whether an engine could load a file right now."""
    gguf = FOLDER / f"{label.replace(' ', '-')}.gguf"
    return ENGINES[name].ending is None or ENGINES[name].program(gguf).exists()


def prepare(shape: str, kind: str, engines: Sequence[str]) -> Path:
    """A model's file, and its programs, each written once."""
    from benchmarks.random_gguf import random_gguf

    path = random_gguf(shape, kind, FOLDER)
    missing = [
        name for name in engines if ENGINES[name].ending is not None and not ENGINES[name].program(path).exists()
    ]
    with ThreadPoolExecutor(EXPORTS_AT_ONCE) as pool:
        list(pool.map(lambda name: export(path, name), missing))
    return path


def export(path: Path, name: str) -> None:
    """Write an engine's program of a file; what fails is said, and its row has no figures."""
    print(f"exporting {path} for {ENGINES[name].title}", flush=True)
    with Worker(name, 2, Exporter) as worker:
        try:
            worker.ask("export", str(path))
        except EngineError as error:
            print(f"    {error}", file=sys.stderr)


def measure(path: Path, engines: Sequence[str], plan: Plan) -> Found:
    """What `measure_once` finds, in processes and memory of its own each time."""
    found = {name: Measured() for name in engines}
    for repeat in range(plan.repeats):
        for name in engines:
            forget(ENGINES[name].file(path))
        once = measure_once(path, list(found), plan, plan.order(repeat))
        found = {name: found[name].with_more(once[name]) for name in once}
    for part in plan.parts:
        print(f"    {path.stem} {part}: {_line(found, part)}", flush=True)
    return found


def measure_once(path: Path, engines: Sequence[str], plan: Plan, parts: Sequence[str]) -> Found:
    """Load a file in each engine, and time some parts in turns."""
    found = {name: Measured() for name in engines}
    with ExitStack() as stack:
        workers = {name: stack.enter_context(Worker(name, plan.threads, make_engine)) for name in engines}
        for name, worker in workers.items():
            try:
                found[name].export = ENGINES[name].export_seconds(path)
                found[name].load, found[name].first = worker.ask("load", str(path))
                found[name].logits = worker.ask("logits", 20)
            except EngineError as error:
                print(f"    {path.name}: {name} failed: {error}", file=sys.stderr)
                worker.stop()
                del found[name]
        for part in parts:
            for turn in range(plan.rounds_of(part)):
                order = list(found)
                for name in order[turn % len(order) :] + order[: turn % len(order)]:
                    time.sleep(SETTLE_SECONDS)
                    try:
                        found[name].times.setdefault(part, []).extend(turn_of(workers[name], part))
                    except EngineError as error:
                        print(f"    {path.name}, {part}: {name} failed: {error}", file=sys.stderr)
                        del found[name]
        for name, measured in found.items():
            measured.memory = workers[name].ask("peak_memory")
    return found


def turn_of(worker: Worker, part: str) -> list[float]:
    """Let a loaded engine do a part ("prefill 512", "decode 16") once: the seconds of each call of the model."""
    kind, count = part.split()
    if kind == "prefill":
        return [worker.ask("prefill", int(count))]
    durations: list[float] = worker.ask("decode", int(count), STEPS)
    return durations


def _line(found: Found, part: str) -> str:
    return ", ".join(f"{name} {_rate_cell(found, name, part)}" for name in found)


def _rate_cell(found: Found, name: str, part: str) -> str:
    rate = found[name].rate(part)
    if BASE not in found:
        return f"{rate:.3g}"
    return f"{rate:.3g} ({rate / found[BASE].rate(part):.2f}x)"


def disagreement(found: Found, name: str) -> float:
    """The largest difference of the logits from llama.cpp's, relative to their largest magnitude."""
    theirs, base = np.array(found[name].logits), np.array(found[BASE].logits)
    return float(np.abs(theirs - base).max() / np.abs(base).max())


def llama_cpp_compiler() -> str:
    """The compiler of the installed llama.cpp's CPU kernels, which names its column in each table."""
    # Not imported: its libraries have the names of our ggml's.
    spec = importlib.util.find_spec("llama_cpp")
    assert spec is not None
    assert spec.origin is not None
    return results.compiler_of(Path(spec.origin).parent / "lib" / "libggml-cpu.so")


def report(table: dict[str, Found], plan: Plan) -> str:
    """The tables, in Markdown."""

    def missing(label: str, name: str) -> str:
        return "failed" if name in plan.engines_for(label) else "-"

    compiler = f" ({llama_cpp_compiler()})" if BASE in plan.engines else ""
    titles = [ENGINES[name].title + (compiler if name == BASE else "") for name in plan.engines]
    speed = [
        [
            f"{label}, {part}",
            *(_rate_cell(found, name, part) if name in found else missing(label, name) for name in plan.engines),
        ]
        for label, found in table.items()
        for part in plan.parts
    ]
    start = [
        [
            label,
            *(
                f"{m.load:.2f} s, {m.first:.2f} s, {m.memory / 2**30:.2f} GiB"
                if (m := found.get(name))
                else missing(label, name)
                for name in plan.engines
            ),
        ]
        for label, found in table.items()
    ]
    exporting = [name for name in plan.engines if ENGINES[name].ending is not None]
    exports = [
        [label, *(f"{found[name].export:.0f}" if name in found else missing(label, name) for name in exporting)]
        for label, found in table.items()
    ]
    body = [
        CONDITIONS.format(threads=plan.threads, length=LENGTH),
        results.markdown_table(["", *titles], speed),
        *([EXPORT, results.markdown_table(["", *(ENGINES[n].title for n in exporting)], exports)] if exporting else []),
        START,
        results.markdown_table(["", *titles], start),
    ]
    if BASE in plan.engines:
        body += _summary(table, plan)
    return "\n\n".join(body)


def _summary(table: dict[str, Found], plan: Plan) -> list[str]:
    """The means over all files that an engine ran."""
    rows = []
    for name in plan.engines:
        both = [found for found in table.values() if name in found and BASE in found]
        if name == BASE or not both:
            continue
        cells = []
        for kind in ("prefill", "decode"):
            parts = [part for part in plan.parts if part.startswith(kind)]
            ratios = [found[name].rate(part) / found[BASE].rate(part) for found in both for part in parts]
            cells.append(f"{statistics.geometric_mean(ratios):.2f}x, {min(ratios):.2f}x" if ratios else "-")
        for measure_of in ("load", "first", "memory"):
            ratios = [getattr(found[name], measure_of) / getattr(found[BASE], measure_of) for found in both]
            cells.append(f"{statistics.geometric_mean(ratios):.2f}x, {max(ratios):.2f}x")
        rows.append([ENGINES[name].title, *cells, f"{max(disagreement(found, name) for found in both):.0e}"])
    header = ["", "prefill", "decode", "load", "first token", "memory", "logits"]
    return [
        SUMMARY,
        results.markdown_table(header, rows),
    ]


def installed(names: Sequence[str]) -> list[str]:
    """Those engines whose packages are there."""
    found = []
    for name in names:
        packages = {package.split(".")[0] for package in ENGINES[name].packages}
        missing = sorted(package for package in packages if not importlib.util.find_spec(package))
        if missing:
            print(f"{ENGINES[name].title}: skipped, {' and '.join(missing)} missing")
        else:
            found.append(name)
    return found


def main() -> None:
    # Not above: workers import this module too, and llama.cpp's process must not load our ggml, which has its names.
    from benchmarks.random_gguf import SHAPES, TINY

    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.llm", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--models",
        nargs="+",
        default=list(SHAPES),
        choices=[*SHAPES, *TINY],
        metavar="MODEL",
        help=f"{', '.join(SHAPES)}, and {', '.join(TINY)} to try this out",
    )
    parser.add_argument("--types", nargs="+", default=list(TYPES), metavar="TYPE")
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=ENGINES, metavar="ENGINE")
    parser.add_argument("--prefills", nargs="*", type=int, default=list(PREFILLS), metavar="TOKENS")
    parser.add_argument("--contexts", nargs="*", type=int, default=list(CONTEXTS), metavar="TOKENS")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2, help="how often each engine gets its turn")
    parser.add_argument("--repeats", type=int, default=2, help="how often all of it is done, in other memory")
    parser.add_argument("--write", action="store_true", help="put the tables into RESULTS.md, not all models too")
    parser.add_argument("--resume", action="store_true", help="keep what was measured before with the same code")
    parser.add_argument("--no-export", action="store_true", help="leave out the programs that are not exported yet")
    arguments = parser.parse_args()
    if max(arguments.prefills, default=0) > LENGTH or max(arguments.contexts, default=0) > LENGTH - STEPS:
        parser.error(f"the cache holds {LENGTH} positions")
    plan = Plan(
        installed(arguments.engines),
        arguments.prefills,
        arguments.contexts,
        arguments.threads,
        arguments.rounds,
        arguments.repeats,
        not arguments.no_export,
    )
    FOLDER.mkdir(parents=True, exist_ok=True)
    kept = Kept(FOLDER / "measured.json")
    table: dict[str, Found] = {}
    for shape in arguments.models:
        for kind in arguments.types:
            label = f"{shape} {kind}"
            engines = plan.engines_for(label)
            found = kept.find(label, plan) if arguments.resume else None
            if found is None and engines:
                found = measure(prepare(shape, kind, engines), engines, plan)
                kept.keep(label, plan, found)
            table[label] = found or {}
    body = report(table, plan)
    print(f"\n{body}")
    all_models = set(arguments.models) == set(SHAPES) and set(arguments.types) == set(TYPES)
    if plan.whole() and (all_models or arguments.write):
        results.write_section("llm", "Language models", body, results.RESULTS)


if __name__ == "__main__":
    main()
