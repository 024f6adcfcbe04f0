"""One engine in a process of its own, which runs only while it is asked to.

The parent talks to it over a pipe: prepare a workload, then time it for a while, again and again. Between its turns a
worker blocks on the pipe. What the engine's libraries print goes to a log file, for the case that the process dies.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.system import cpu_seconds

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from types import TracebackType

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "EXECUTORCH_GGML_NUM_THREADS")
MIN_CALLS = 3
MAX_ERROR = 1e-3


@dataclass(frozen=True)
class Ready:
    """The answer to a workload that was prepared."""

    error: float
    """Largest difference from eager, relative to eager's largest magnitude."""
    delegates: int | None
    outside: int | None


@dataclass(frozen=True)
class Failure:
    """The answer to a request that could not be carried out."""

    message: str


class EngineError(RuntimeError):
    """An engine could not prepare or run a workload, or its process died."""


def _relative_error(outputs: Any, expected: Any) -> float:
    import torch

    worst = 0.0
    for output, reference in zip(outputs, expected, strict=True):
        difference = (torch.as_tensor(output) - reference).abs().max()
        worst = max(worst, float(difference / reference.abs().max()))
    return worst


class Timed:
    """What times a call."""

    run: Any

    def time(self, seconds: float, warm_up: int) -> list[float]:
        run, clock = self.run, time.perf_counter
        for _ in range(warm_up):
            run()
        durations: list[float] = []
        deadline = clock() + seconds
        while clock() < deadline or len(durations) < MIN_CALLS:
            start = clock()
            run()
            durations.append(clock() - start)
        return durations


class _Server(Timed):
    """What a worker process does."""

    def __init__(self, engine: str, threads: int, folder: Path) -> None:
        import torch

        from benchmarks.engines import ENGINES

        torch.set_num_threads(threads)
        self.engine = ENGINES[engine]
        self.threads = threads
        self.folder = folder
        self.run: Any = None
        self.expected: Any = None

    def prepare(self, workload: str) -> Ready:
        import torch

        from benchmarks import workloads

        self.run = None  # lets go of the model before
        model, args = workloads.load(workload)
        folder = Path(tempfile.mkdtemp(prefix=f"{workload}-", dir=self.folder))
        with torch.inference_mode():
            result = model.module(*args)
        expected = result if isinstance(result, (list, tuple)) else [result]
        prepared = self.engine.prepare(model, args, self.threads, folder)
        self.run = prepared.run
        return Ready(_relative_error(self.run(), expected), prepared.delegates, prepared.outside)

    def export(self, workload: str, path: str) -> int:
        """Write a workload's program, and beside it what `load` needs to run and check it; the bytes of its weights."""
        import torch

        from benchmarks import workloads

        model, args = workloads.load(workload)
        with torch.inference_mode():
            torch.save((args, model.module(*args)), f"{path}.check")
        assert self.engine.delegate is not None
        self.engine.delegate.lower(model, args).save(path)
        return sum(weight.nbytes for weight in model.module.parameters())

    def load(self, path: str) -> float:
        """Load a program that `export` wrote, in a process that never held its weights; the seconds it took."""
        import torch

        from benchmarks.engines import load_program

        assert self.engine.delegate is not None
        self.engine.delegate.set_threads(self.threads)
        args, self.expected = torch.load(f"{path}.check")
        start = time.perf_counter()
        self.run = load_program(Path(path), args)
        return time.perf_counter() - start

    def first_call(self) -> float:
        """Run the loaded program; the seconds it took."""
        start = time.perf_counter()
        outputs = self.run()
        elapsed = time.perf_counter() - start
        error = _relative_error(outputs, [self.expected])
        if error > MAX_ERROR:
            raise ValueError(f"the loaded program is wrong by {error:.1e} of the largest magnitude")
        return elapsed


def _serve(connection: Connection, make: Callable[..., Any], engine: str, threads: int, folder: str) -> None:
    log = os.open(Path(folder) / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    server = make(engine, threads, Path(folder))
    while True:
        try:
            request, *arguments = connection.recv()
        except EOFError:
            return
        try:
            answer = getattr(server, request)(*arguments)
        except Exception as error:  # noqa: BLE001, RUF100 - whatever an engine raises becomes its table cell
            traceback.print_exc()
            answer = Failure(f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}")
        connection.send(answer)


class Worker:
    """The parent's side of one engine's process, which is started at the first request and again if it died.

    ``server(engine, threads, folder)`` makes, in that process, what answers the requests by its methods.
    """

    def __init__(self, engine: str, threads: int, server: Callable[..., Any] = _Server) -> None:
        self.engine = engine
        self.threads = threads
        self._server = server
        self._folder = tempfile.TemporaryDirectory(prefix=f"bench-{engine}-")
        self._process: Any = None
        self._connection: Any = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._folder.cleanup()

    def _start(self) -> None:
        for variable in THREAD_VARIABLES:
            os.environ[variable] = str(self.threads)
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, self._server, self.engine, self.threads, self._folder.name), daemon=True
        )
        self._process.start()
        theirs.close()

    def stop(self) -> None:
        """End the process, if there is one."""
        if self._process is not None:
            self._connection.close()
            self._process.join(timeout=10)
            self._process.kill()
            self._process.join()
            self._process = None

    def send(self, *request: Any) -> None:
        """Ask for something without waiting for it; `receive` takes the answer."""
        if self._process is None:
            self._start()
        self._connection.send(request)

    def answered(self) -> bool:
        """Whether `receive` would return at once."""
        return bool(self._connection.poll())

    def receive(self) -> Any:
        """The answer to the last request.

        Raises:
            EngineError: the request failed, or the process died of it.
        """
        try:
            answer = self._connection.recv()
        except (EOFError, ConnectionResetError):
            self._process.join()
            code = self._process.exitcode
            self._process = None
            raise EngineError(f"its process died with exit code {code}: {self._last_words()}") from None
        if isinstance(answer, Failure):
            raise EngineError(answer.message)
        return answer

    def ask(self, *request: Any) -> Any:
        self.send(*request)
        return self.receive()

    def prepare(self, workload: str) -> Ready:
        ready: Ready = self.ask("prepare", workload)
        return ready

    def time(self, seconds: float, warm_up: int) -> list[float]:
        durations: list[float] = self.ask("time", seconds, warm_up)
        return durations

    def _last_words(self) -> str:
        log = Path(self._folder.name) / "log"
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() if log.exists() else []
        return lines[-1][:200] if lines else "it printed nothing"

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def cpu_seconds(self) -> float:
        """Processor time that the process has used so far."""
        return cpu_seconds(self.pid) if self.pid is not None else 0.0
