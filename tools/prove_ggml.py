"""Prove ggml's CPU libraries: each that this CPU runs multiplies every type, in a process of its own.

A variant that dies or computes something else is removed, with a line that says so. Where ggml has only one library,
that is an error.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from signal import Signals
from typing import Any, TypeVar

from tools.ggml_variants import package_folder, remove_variant, variants

from executorch_ggml import _session

SECONDS = 300

T = TypeVar("T")


def in_child(function: Callable[[], T]) -> tuple[T | None, str]:
    """A function's result and "", or None and what went wrong, where that may be the process's death."""
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe(duplex=False)
    child = fork.Process(target=_report, args=(function, theirs))
    child.start()
    theirs.close()
    try:
        answer: tuple[T | None, str] | None = ours.recv() if ours.poll(SECONDS) else None
    except EOFError:
        answer = None
    child.join(1)
    if answer is not None:
        return answer
    if child.exitcode is None:
        child.kill()
        return None, f"it did not end in {SECONDS} s"
    return None, f"the process died of {Signals(-child.exitcode).name if child.exitcode < 0 else child.exitcode}"


def _report(function: Callable[[], Any], answers: Connection) -> None:
    try:
        answers.send((function(), ""))
    except RuntimeError as error:
        answers.send((None, str(error)))


def prove_variants(package: Path) -> tuple[int, int]:
    """How many of a package's variants run here, and how many of those were removed."""
    running = removed = 0
    for library in variants(package):
        runs, fault = in_child(lambda path=str(library): _session.prove_cpu_library(path))  # type: ignore[misc]
        running += bool(runs or fault)
        if fault:
            remove_variant(package, library.stem.removeprefix("lib"))
            print(f"removed {library.name}: {fault}")
            removed += 1
    return running, removed


def main() -> int:
    """Command line."""
    package = package_folder()
    if package is not None:
        running, removed = prove_variants(package)
        if running:
            print(f"ggml: {running - removed} of the {running} CPU libraries that run here are right")
    cpu, fault = in_child(_session.cpu)
    if cpu is None:
        print(f"ggml cannot be used: {fault}", file=sys.stderr)
        return 1
    _, library, isa = cpu
    print(f"ggml runs on {Path(library).name} ({isa})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
