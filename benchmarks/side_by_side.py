"""Rows of :mod:`benchmarks.models` side by side, on a machine with many cores: each row has cores of its own.

    python -m benchmarks.side_by_side --rows bf16 int8 -- --rounds 5

All files are written first, by as many processes as there are CPUs. Then as many rows as fit are measured at a time,
each with as many cores as it has threads, and the sections are written as `benchmarks.models` does. What follows `--`
goes to that program. Files and rows are kept (``--resume``): what was cut off goes on where it stopped.

Rows compete for the last-level cache and memory bandwidth: a quiet machine with two cores gives steadier figures.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from benchmarks.models import ROWS, chosen

CPUS = Path("/sys/devices/system/cpu")
MODELS = (sys.executable, "-m", "benchmarks.models")


def one_of_each_core(cpus: Iterable[int], folder: Path = CPUS) -> list[int]:
    """The first CPU of each core; all of them where the system does not say which share one."""
    first: dict[str, int] = {}
    for cpu in sorted(cpus):
        siblings = folder / f"cpu{cpu}" / "topology" / "thread_siblings_list"
        first.setdefault(siblings.read_text().strip() if siblings.exists() else str(cpu), cpu)
    return list(first.values())


def lanes_of(cpus: Sequence[int], threads: int) -> list[list[int]]:
    """As many groups of ``threads`` CPUs as there are; where there are several, one less, which is left to the system.

    Raises:
        ValueError: there is none.
    """
    lanes = [list(cpus[at : at + threads]) for at in range(0, len(cpus) - threads + 1, threads)]
    if not lanes:
        raise ValueError(f"{threads} threads need as many cores; this process may use {len(cpus)}")
    return lanes[:-1] or lanes


def run_all(commands: Sequence[Sequence[str]], lanes: Sequence[Sequence[int]]) -> list[Sequence[str]]:
    """Run commands, each in the next free lane; those that failed."""
    free: SimpleQueue[Sequence[int]] = SimpleQueue()
    for lane in lanes:
        free.put(lane)

    def run(command: Sequence[str]) -> bool:
        lane = free.get()
        try:
            return subprocess.run(["taskset", "-c", ",".join(map(str, lane)), *command], check=False).returncode == 0
        finally:
            free.put(lane)

    with ThreadPoolExecutor(len(lanes)) as pool:
        succeeded = list(pool.map(run, commands))
    return [command for command, success in zip(commands, succeeded, strict=True) if not success]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.side_by_side",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rows", nargs="+", choices=ROWS, help="sections (default: those of benchmarks.models)")
    parser.add_argument("--threads", type=int, default=2, help="threads and cores of each row")
    parser.add_argument("rest", nargs="*", metavar="-- ARGUMENTS", help="for benchmarks.models")
    arguments = parser.parse_args()
    cpus = sorted(os.sched_getaffinity(0))
    lanes = lanes_of(one_of_each_core(cpus), arguments.threads)
    sections = chosen(arguments.rows, None)
    rows = [
        [*MODELS, "--rows", section, "--models", name, *arguments.rest]
        for section in sections
        for name in sections[section]
    ]
    failed = run_all([[*row, "--threads", "1", "--write-files"] for row in rows], [[cpu] for cpu in cpus])
    measuring = ["--resume", "--threads", str(arguments.threads)]
    failed += run_all([[*row, *measuring] for row in rows], lanes)
    failed += run_all([[*MODELS, "--rows", *sections, *arguments.rest, *measuring]], lanes[:1])
    for command in failed:
        print("failed:", *command, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
