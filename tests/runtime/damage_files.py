"""Loads and runs damaged .pte and .ptd files, each in a child process: what test_files.py starts.

python -m tests.runtime.damage_files FOLDER pte|ptd COUNT [--stock]

FOLDER holds the good files (files.pkl, which is made where it is missing). A crash or a hang of a child is counted, and
the next child goes on after it. --stock gives the files to ExecuTorch's own runtime as they are, to see what the check
is for.
"""

from __future__ import annotations

import argparse
import os
import pickle
import resource
import signal
import sys
from collections import Counter
from pathlib import Path

from executorch.runtime import Runtime
from tests.runtime.file_damage import Damager, Files, make_files

import executorch_ggml

SECONDS = 20  # of one mutant, that count as a hang
ADDRESS_SPACE = 8 << 30
BATCH = 40


def _run_stock(files: Files, pte: Path, ptd: Path | None) -> str:
    try:
        program = Runtime.get().load_program(pte, data_path=ptd)
        for method, args in files.calls:
            loaded = program.load_method(method)
            assert loaded is not None
            loaded.execute(args)
    except Exception:
        return "failed"
    return "ran"


def _try_files(files: Files, folder: Path, stock: bool) -> str:
    pte, ptd = folder / "model.pte", folder / "data.ptd"
    pte.write_bytes(files.pte)
    if files.ptd is not None:
        ptd.write_bytes(files.ptd)
    data_path = None if files.ptd is None else ptd
    if stock:
        return _run_stock(files, pte, data_path)
    outcome = "refused"
    try:
        program = executorch_ggml.load(pte, data_path=data_path)
        outcome = "failed"
        for method, args in files.calls:
            program.run(method, args)
    except (RuntimeError, KeyError) as error:
        if str(folder) not in str(error):
            return f"an error that names no file: {error!r}"[:300]
        return outcome
    except Exception as error:
        return f"an error of another kind: {error!r}"[:300]
    return "ran"


def _child(damagers: list[Damager], numbers: range, folder: Path, stock: bool, report: int) -> None:
    for number in numbers:
        signal.alarm(SECONDS)
        try:
            files = damagers[number % len(damagers)].damaged(number)
        except ValueError:
            os.write(report, b"not made\n")
            continue
        os.write(report, _try_files(files, folder, stock).replace("\n", " ").encode() + b"\n")
    os._exit(0)


def _run_batch(damagers: list[Damager], numbers: range, folder: Path, stock: bool) -> tuple[list[str], int]:
    """The outcomes up to the end or a crash, and the child's exit status."""
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(readable)
        try:
            _child(damagers, numbers, folder, stock, writable)
        finally:
            os._exit(1)
    os.close(writable)
    with os.fdopen(readable) as lines:
        outcomes = lines.read().splitlines()
    return outcomes, os.waitpid(child, 0)[1]


def run(damagers: list[Damager], count: int, folder: Path, stock: bool) -> Counter[str]:
    """How often each outcome was seen."""
    outcomes: Counter[str] = Counter()
    number = 0
    while number < count:
        seen, status = _run_batch(damagers, range(number, min(number + BATCH, count)), folder, stock)
        outcomes.update(seen)
        number += len(seen)
        if status != 0:
            name = damagers[number % len(damagers)].name
            end = "hang" if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM else f"status {status}"
            outcomes[f"{end}: {name} {number}"] += 1
            number += 1
    return outcomes


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("kind", choices=("pte", "ptd"))
    parser.add_argument("count", type=int)
    parser.add_argument("--stock", action="store_true")
    options = parser.parse_args()
    good = options.folder / "files.pkl"
    if not good.exists():
        options.folder.mkdir(parents=True, exist_ok=True)
        good.write_bytes(pickle.dumps(make_files(options.folder)))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    os.environ.update(EXECUTORCH_GGML_NUM_THREADS="1", GGML_NO_BACKTRACE="1")
    files: dict[str, Files] = pickle.loads(good.read_bytes())
    chosen = {name: each for name, each in files.items() if options.kind == "pte" or each.ptd is not None}
    damagers = [Damager(name, each, options.kind) for name, each in chosen.items()]
    outcomes = run(damagers, options.count, options.folder, options.stock)
    for outcome, times in sorted(outcomes.items()):
        print(f"{options.kind}: {times} {outcome}")
    sys.exit(set(outcomes) - {"refused", "failed", "ran", "not made"} != set())


if __name__ == "__main__":
    main()
