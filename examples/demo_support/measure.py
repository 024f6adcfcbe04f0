"""Loading and timing one engine in a process of its own, so that no two thread pools are ever awake together."""

from __future__ import annotations

import logging
import multiprocessing
import os
import statistics
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    Inputs = tuple[Tensor, ...]

MIN_CALLS = 5
WARM_UP_CALLS = 3


@dataclass(frozen=True)
class Measured:
    """What one engine did."""

    load_seconds: float
    call_seconds: float
    """The median."""
    file_bytes: int
    outputs: list[Tensor]
    """One output for each of the batches that it was given."""


def quiet() -> None:
    """Silence the notices that the imported packages give at import and export."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


def _load_eager(path: Path) -> Callable[..., Tensor]:
    module: Callable[..., Tensor] = torch.load(path, weights_only=False)
    return module


def _load_executorch(path: Path) -> Callable[..., Tensor]:
    from executorch.runtime import Runtime

    program = Runtime.get().load_program(path)
    method = program.load_method("forward")

    def call(*inputs: Tensor, keep: Any = program) -> Tensor:  # a method does not keep its program alive
        output: Tensor = method.execute(inputs)[0]
        return output

    return call


def _load_ggml(path: Path) -> Callable[..., Tensor]:
    import executorch_ggml

    module: Callable[..., Tensor] = executorch_ggml.load(path)
    return module


LOADERS = {"eager": _load_eager, "xnnpack": _load_executorch, "ggml": _load_ggml}


def _import_engine(engine: str, threads: int) -> None:
    """Do what a program does once at its start and not for each model."""
    if engine == "eager":
        torch.set_num_threads(threads)
        return
    from executorch.extension.pybindings import portable_lib

    portable_lib._unsafe_reset_threadpool(threads)
    if engine == "ggml":
        import executorch_ggml

        executorch_ggml.set_num_threads(threads)


def _print_to(log: Path) -> None:
    """Keep what native libraries print off the terminal, for the case that something fails."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)


def _measure(
    engine: str,
    path: Path,
    batches: Sequence[Inputs],
    timed: Inputs,
    threads: int,
    seconds: float,
) -> Measured:
    quiet()
    _import_engine(engine, threads)
    clock = time.perf_counter
    start = clock()
    call = LOADERS[engine](path)
    load_seconds = clock() - start
    with torch.inference_mode():
        outputs = [call(*batch).clone() for batch in batches]
        for _ in range(WARM_UP_CALLS):
            call(*timed)
        durations: list[float] = []
        deadline = clock() + seconds
        while clock() < deadline or len(durations) < MIN_CALLS:
            start = clock()
            call(*timed)
            durations.append(clock() - start)
    return Measured(load_seconds, statistics.median(durations), path.stat().st_size, outputs)


def measure(
    engine: str,
    path: Path,
    batches: Sequence[Inputs],
    timed: Inputs,
    *,
    threads: int,
    seconds: float,
) -> Measured:
    """Load `path` with an engine in a new process, run it on `batches`, and time it on `timed`."""
    log = path.with_suffix(f".{engine}.log")
    with multiprocessing.get_context("spawn").Pool(1, initializer=_print_to, initargs=(log,)) as pool:
        try:
            return pool.apply(_measure, (engine, path, batches, timed, threads, seconds))
        except Exception:
            print(log.read_text(encoding="utf-8", errors="replace"), file=sys.stderr)
            raise
