"""Fuzzes for long, with other programs each time: python -m tests.fuzz --seconds 3600 --out build/fuzz.

A failure is made small, written as a file that reproduces it, and remembered by the ops that it needs, so that the
search goes on for others. The work is done in a process of its own, which starts again where it dies: then the program
that was running is the failure.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import logging
import random
import subprocess
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from tests.fuzz.check import check, check_delegate, failure, why_not
from tests.fuzz.draw import programs
from tests.fuzz.program import Program

EXAMPLES = 400  # between two seeds
HANGS = 120  # seconds without a new program
RUNNING, KNOWN, COUNT, LOG = "running.py", "known.json", "count", "log"


class Worker:
    """Searches with one seed after the other."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.known = [frozenset(ops) for ops in json.loads((out / KNOWN).read_text())] if (out / KNOWN).exists() else []
        self.count = 0

    def search(self, number: int) -> None:
        """One seed; failures are written down."""

        @seed(number)
        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
            derandomize=False,
        )
        @given(programs(), st.integers(0, 39))
        def property_(program: Program, way: int) -> None:
            self.judge(program, delegate=way == 39)

        property_()

    def judge(self, program: Program, delegate: bool) -> None:
        """Check one program; its failure is kept, unless it is known."""
        if not program.steps:
            return
        self.count += 1
        (self.out / COUNT).write_text(str(self.count))
        (self.out / RUNNING).write_text(program.source(json.dumps(names(program))))
        for way in (check, partial(check_delegate, folder=self.out))[: 2 if delegate else 1]:
            if why_not(program, way) is None or any(ops <= set(names(program)) for ops in self.known):
                continue
            found = failure(program, way)
            if found is not None:
                self.keep(*found)
        (self.out / RUNNING).write_text("")

    def keep(self, program: Program, why: str) -> None:
        """Write a failure down, and remember it."""
        self.known.append(frozenset(names(program)))
        (self.out / KNOWN).write_text(json.dumps([sorted(ops) for ops in self.known]))
        label = "-".join(name.split(".")[1] for name in names(program))[:80]
        (self.out / f"{len(self.known):03}-{label}.py").write_text(program.source(why))


def names(program: Program) -> list[str]:
    """The overloads that a program calls."""
    return sorted(map(str, program.overloads))


def work(out: Path) -> None:
    """Search without end."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    faulthandler.enable()
    torch.set_num_threads(1)
    worker = Worker(out)
    while True:
        worker.search(random.randrange(2**32))


def supervise(out: Path, seconds: float) -> int:
    """Run workers for so long; how many failures there are in the end."""
    out.mkdir(parents=True, exist_ok=True)
    (out / KNOWN).unlink(missing_ok=True)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        command = [sys.executable, "-m", "tests.fuzz", "--out", str(out), "--worker"]
        with (out / LOG).open("ab") as log, subprocess.Popen(command, stderr=log) as process:
            why = watch(process, out / RUNNING, until)
        if why is not None:
            died(out, why)
    failures = sorted(path.name for path in out.glob("[0-9]*.py"))
    print("\n".join([f"{len(failures)} failures in {out}", *failures]))
    return len(failures)


def watch(process: subprocess.Popen[bytes], running: Path, until: float) -> str | None:
    """Why a worker ended, or None where its time was over."""
    started = time.time()
    while time.monotonic() < until:
        try:
            return f"the process ended with status {process.wait(1)}"
        except subprocess.TimeoutExpired:
            last = running.stat().st_mtime if running.exists() else started
            if time.time() - max(last, started) > HANGS:
                process.kill()
                return "it took too long"
    process.kill()
    return None


def died(out: Path, why: str) -> None:
    """Keep the program that a worker ran last, and never run its ops together again."""
    if not (out / RUNNING).exists():
        raise SystemExit(f"no worker starts: {why}")
    text = (out / RUNNING).read_text()
    if not text:
        return  # torch's own kernels died while arguments were drawn
    ops = json.loads(text.splitlines()[0].removeprefix("# "))
    known = json.loads((out / KNOWN).read_text()) if (out / KNOWN).exists() else []
    (out / KNOWN).write_text(json.dumps([*known, ops]))
    (out / f"{len(known) + 1:03}-died.py").write_text(f"# {why}\n{text}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"))
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.out)
    elif supervise(options.out, options.seconds):
        sys.exit(1)
