"""One engine in a process of its own, which runs only while it is asked to.

The parent talks to it over a pipe: load a file, then time it for a while, again and again. Between its turns a
worker blocks on the pipe. What the engine's libraries print goes to a log file, for the case that the process dies.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .system import POLL_SECONDS, anonymous_bytes, cpu_seconds, peak_bytes, reset_peak, resident_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.connection import Connection
    from types import TracebackType

    from torch import Tensor

    from .engines import Written
    from .workload import Workload

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "EXECUTORCH_GGML_NUM_THREADS")
MIN_CALLS = 3
REFERENCE = "reference.pt"
"""The file of inputs and expected outputs, beside the engines' folders."""


@dataclass(frozen=True)
class Loaded:
    """The answer to a file that was loaded."""

    seconds: float
    resident: int
    """Bytes of memory that the process held more than before."""


@dataclass(frozen=True)
class FirstCall:
    """Time and error of loading a file and running it once."""

    seconds: float
    error: float | None
    """Largest difference from eager, relative to eager's largest magnitude; None without a module to run in eager."""


@dataclass(frozen=True)
class Failure:
    """The answer to a request that could not be carried out."""

    message: str


class EngineError(RuntimeError):
    """An engine could not prepare or run a workload, or its process died."""


def _largest_error(outputs: Sequence[Any], expected: Sequence[Tensor]) -> float:
    """Of all outputs, each relative to its largest magnitude; infinite where one side alone is not finite."""
    import torch

    from ..precision_error import relative_error

    pairs = zip(outputs, expected, strict=True)
    return max((relative_error(torch.as_tensor(output), reference) for output, reference in pairs), default=0.0)


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


class Writer:
    """What the process does that writes workloads as engines' files: the same model for all of them.

    ``load`` gives the workload of a name. It is part of what is sent to the process, as the others are.
    """

    def __init__(self, engine: str, threads: int, folder: Path, load: Callable[[str], Workload]) -> None:
        del engine, folder
        import torch

        torch.set_num_threads(threads)
        self._load = load
        self._last: tuple[str, Any] = ("", None)
        self._written: dict[Any, Written] = {}

    def _workload(self, name: str) -> Workload:
        if self._last[0] != name:
            self._last = ("", None)  # lets go of the one before
            self._last = (name, self._load(name))
        workload: Workload = self._last[1]
        return workload

    def reference(self, workload: str, folder: str) -> float | None:
        """Write down inputs and eager's outputs; the step of those that are quantized, relative to their largest."""
        import torch
        from torch.utils._pytree import tree_leaves

        load = self._workload(workload)
        self._written.clear()
        expected = None
        if load.module is not None:
            with torch.no_grad():
                expected = tree_leaves(load.reference(*load.args))
        torch.save((load.args, expected), Path(folder) / REFERENCE)
        return load.step / float(expected[0].abs().max()) if load.step and expected else None

    def write(self, workload: str, engine: str, folder: str) -> Written:
        """Write an engine's file into a folder of its own, beside the reference; once for engines that write alike."""
        from .engines import ENGINES

        write = ENGINES[engine].write
        if write not in self._written:
            own = Path(folder) / engine
            own.mkdir()
            self._written[write] = write(self._workload(workload), own)
        return self._written[write]


def _nothing() -> None:
    pass


class Runner(Timed):
    """What the process of one engine does, which never held the model that it loads.

    ``prepare`` makes the classes of pickled modules importable, for the engines that read such.
    """

    def __init__(self, engine: str, threads: int, folder: Path, prepare: Callable[[], None] = _nothing) -> None:
        del folder
        import torch

        from .. import precision_error  # noqa: F401 - imported now: what it takes is not the memory of a call
        from .engines import ENGINES

        torch.set_num_threads(threads)
        self.engine = ENGINES[engine]
        if self.engine.unpickles:
            prepare()
        self.threads = threads
        self.run: Any = None
        self.expected: Any = None
        self.before = 0

    def warm_up(self, path: str) -> None:
        """Warm up with a small file: starting libraries and threads is then not part of the next measurement."""
        args, _ = _reference(path)
        self.engine.load(Path(path), args, self.threads)()

    def load(self, path: str) -> Loaded:
        """Load a file, ready to run on the inputs of its reference."""
        args, self.expected = _reference(path)
        gc.collect()
        self.before = resident_bytes()
        reset_peak()
        start = time.perf_counter()
        self.run = self.engine.load(Path(path), args, self.threads)
        return Loaded(time.perf_counter() - start, resident_bytes() - self.before)

    def first_call(self) -> FirstCall:
        start = time.perf_counter()
        outputs = self.run()
        seconds = time.perf_counter() - start
        return FirstCall(seconds, None if self.expected is None else _largest_error(outputs, self.expected))

    def peak(self) -> int:
        """Bytes of memory that the process held at most since before it loaded the file, more than then."""
        return peak_bytes() - self.before


def _reference(path: str) -> Any:
    import torch

    return torch.load(Path(path).parents[1] / REFERENCE)


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
            answer = Failure(f"{type(error).__name__}: {' '.join(str(error).split())[:500]}")
        connection.send(answer)


class Worker:
    """The parent's side of one engine's process, which is started at the first request and again if it died.

    The process is named after the engine.
    ``server(engine, threads, folder)`` makes, in that process, what answers the requests by its methods.
    """

    def __init__(self, engine: str, threads: int, server: Callable[..., Any] = Runner) -> None:
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
            name=self.engine,
            target=_serve,
            args=(theirs, self._server, self.engine, self.threads, self._folder.name),
            daemon=True,
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


def peak_while(worker: Worker) -> int:
    """The peak of the worker's own memory until it answers the request that was just sent to it.

    It is watched from outside, because a native call may hold the interpreter of the process itself.
    """
    assert worker.pid is not None
    peak = 0
    while not worker.answered():
        peak = max(peak, anonymous_bytes(worker.pid))
        time.sleep(POLL_SECONDS)
    return peak
