"""What the framework itself costs: a call that computes nothing, loading weights, and the size of the runtime.

- A one-node program (adding two vectors of four) in ExecuTorch's Python runtime: delegated to ggml, delegated to
  XNNPACK, and on ExecuTorch's portable kernel. The difference to the last is the price of delegating.
- A program of half a gigabyte of weights: how long it takes to load, and how much memory it takes beside the file
  that it is mapped from, at its peak while it is loaded and runs for the first time. The file is in the page cache.
- The runtime library, stripped of symbols.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from benchmarks import results, workloads
from executorch_ggml.benchmark.comparison import available_engines
from executorch_ggml.benchmark.engines import GGML, PORTABLE, XNNPACK, Engine, Written
from executorch_ggml.benchmark.system import anonymous_bytes
from executorch_ggml.benchmark.worker import EngineError, FirstCall, Loaded, Worker, Writer, peak_while

ONE_NODE = (GGML, XNNPACK, PORTABLE)
LOADED = (GGML, XNNPACK)
MAX_ERROR = 1e-3
LIBRARY = "libexecutorch_ggml_runtime.so"


def write(workload: str, engines: Sequence[Engine], folder: Path) -> dict[str, Written]:
    """A workload's file for each engine, and the reference beside them."""
    folder.mkdir()
    with Worker("writer", 2, partial(Writer, load=workloads.load)) as writer:
        writer.ask("reference", workload, str(folder))
        return {engine.name: writer.ask("write", workload, engine.name, str(folder)) for engine in engines}


def checked(call: FirstCall) -> FirstCall:
    """The call, which must be right.

    Raises:
        EngineError: its outputs are not eager's.
    """
    if call.error is None or call.error > MAX_ERROR:
        raise EngineError(f"the loaded program is wrong by {call.error} of the largest magnitude")
    return call


def one_node(engines: list[Engine], rounds: int, seconds: float, small: Mapping[str, Written]) -> str:
    """Microseconds per call of a program of one node."""
    medians: dict[str, list[float]] = {engine.name: [] for engine in engines}
    with ExitStack() as stack:
        workers = {engine.name: stack.enter_context(Worker(engine.name, threads=1)) for engine in engines}
        for name, worker in workers.items():
            worker.ask("load", str(small[name].path))
            checked(worker.ask("first_call"))
        for _ in range(rounds):
            for name, worker in workers.items():
                medians[name].append(statistics.median(worker.time(seconds, warm_up=200)))
    micros = {name: statistics.median(of_rounds) * 1e6 for name, of_rounds in medians.items()}
    base = micros.get(PORTABLE.name)
    rows = [
        [engine.title, f"{micros[engine.name]:.1f}", f"{micros[engine.name] - base:+.1f}" if base else "-"]
        for engine in engines
    ]
    table = results.markdown_table(["one node on", "µs per call", "µs over portable"], rows)
    return f"A call of a one-node program from Python (most of it is the conversion of arguments):\n\n{table}"


def _load_once(engine: str, small: Written, big: Written, threads: int) -> dict[str, float]:
    """Load the big program in a fresh process; seconds and bytes."""
    with Worker(engine, threads) as worker:
        # Libraries and thread pools are not what is measured, so a small program goes first.
        worker.ask("warm_up", str(small.path))
        assert worker.pid is not None
        before = anonymous_bytes(worker.pid)
        worker.send("load", str(big.path))
        peak = peak_while(worker)
        loaded: Loaded = worker.receive()
        after_load = anonymous_bytes(worker.pid)
        worker.send("first_call")
        peak = max(peak, peak_while(worker))
        call = checked(worker.receive())
        after_call = anonymous_bytes(worker.pid)
        return {
            "load": loaded.seconds,
            "first call": call.seconds,
            "second call": statistics.median(worker.time(0.5, warm_up=1)),
            "loaded": after_load - before,
            "peak": max(peak, after_load, after_call) - before,
        }


def big_program(engines: list[Engine], threads: int, repeats: int, small: Mapping[str, Written]) -> str:
    """Milliseconds and memory to load a program whose weights are half a gigabyte."""
    rows = []
    for engine in engines:
        with tempfile.TemporaryDirectory() as folder:
            big = write(workloads.BIG, [engine], Path(folder) / "big")[engine.name]
            runs = [_load_once(engine.name, small[engine.name], big, threads) for _ in range(repeats)]
        median = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        rows.append(
            [
                engine.title,
                f"{big.size / 1e6:.0f}",
                f"{median['load'] * 1e3:.1f}",
                f"{median['first call'] * 1e3:.0f}",
                f"{median['second call'] * 1e3:.0f}",
                f"{median['loaded'] / 1e6:.1f} ({median['loaded'] / workloads.BIG_BYTES:.1%})",
                f"{median['peak'] / 1e6:.1f} ({median['peak'] / workloads.BIG_BYTES:.1%})",
            ]
        )
    header = [
        "program on",
        "file MB",
        "load ms",
        "first call ms",
        "later calls ms",
        "extra MB",
        "extra MB at peak",
    ]
    return (
        f"{workloads.BIG_LAYERS} linear layers of {workloads.BIG_WIDTH}x{workloads.BIG_WIDTH}, {threads} threads.\n"
        "Extra is the memory that no file backs, once loaded and at its peak (in brackets: of the weights).\n\n"
        f"{results.markdown_table(header, rows)}"
    )


def library_size() -> str:
    """Kilobytes of the runtime library without symbols."""
    found = importlib.util.find_spec("executorch_ggml")
    roots = list(found.submodule_search_locations or []) if found else []
    libraries = [path for root in roots for path in Path(root).rglob(LIBRARY)]
    strip = shutil.which("strip")
    if not libraries or strip is None:
        return f"Size of the runtime library: not measured, {'no strip' if libraries else f'no {LIBRARY}'} found."
    with tempfile.TemporaryDirectory() as folder:
        stripped = Path(folder) / LIBRARY
        subprocess.run([strip, "-o", str(stripped), str(libraries[0])], check=True)
        return f"Size of the runtime library, stripped: {stripped.stat().st_size / 1e3:.0f} KB."


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.overhead", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [engine.name for engine in ONE_NODE]
    parser.add_argument("--engines", nargs="+", default=names, choices=names, metavar="ENGINE")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1), help="threads for the big program")
    parser.add_argument("--rounds", type=int, default=15, help="how often each engine gets its turn at the one node")
    parser.add_argument("--repeats", type=int, default=3, help="how often the big program is loaded")
    parser.add_argument("--out", type=Path, help="file of results (default: RESULTS.md if ours is there, else none)")
    arguments = parser.parse_args()
    engines = available_engines(arguments.engines)
    parts = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            small = write(workloads.ADD, engines, Path(folder) / "small")
            parts.append(one_node(engines, arguments.rounds, 0.05, small))
            print(f"{parts[-1]}\n", flush=True)
            loading = [engine for engine in engines if engine in LOADED]
            parts.append(big_program(loading, arguments.threads, arguments.repeats, small))
            print(f"{parts[-1]}\n", flush=True)
    except EngineError as error:
        raise SystemExit(f"overhead: {error}") from error
    parts.append(library_size())
    print(parts[-1])
    out = arguments.out or (results.RESULTS if GGML in engines else None)
    if out:
        results.write_section("overhead", "Overhead of the framework", "\n\n".join(parts), out)


if __name__ == "__main__":
    main()
