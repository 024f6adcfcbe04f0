"""Ctrl-C while Python's main thread waits for a run: it ends at the next node, and what was loaded stays usable."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import torch
from tests.helpers import lowered, session
from torch import Tensor, nn

import executorch_ggml

SIZE, PRODUCTS = 640, 150  # longer than two intervals of the check, on two fast cores too
X = torch.randn(SIZE, SIZE) / SIZE**0.5


class Long(nn.Module):
    """Many products, and a buffer that is written at the end."""

    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(2))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x
        for _ in range(PRODUCTS):
            y = (y @ x).tanh()
        self.calls.add_(1)
        return y, self.calls + 0


def _module(folder: Path) -> Callable[[], Any]:
    executorch_ggml.export(Long(), (X,)).save(str(folder / "long.pte"))
    executorch_ggml.set_num_threads(1)
    module = executorch_ggml.load(folder / "long.pte")
    executorch_ggml.set_num_threads(0)
    return lambda: [output.numpy() for output in module(X)]


def _session(threads: int) -> Callable[[], Any]:
    ready = session(lowered(Long(), (X,)), threads=threads)
    return lambda: ready.run(X.numpy())


RUNNERS: dict[str, Callable[[Path], Callable[[], Any]]] = {
    "module": _module,
    "session": lambda _: _session(1),
    "session of two threads": lambda _: _session(2),
}


@pytest.fixture(autouse=True)
def interrupts() -> Iterator[None]:
    """Ctrl-C raises, whatever handler the test runner has."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def _interrupt_after(seconds: float) -> threading.Timer:
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    return timer


@pytest.mark.parametrize("runner", RUNNERS)
def test_interrupt_ends_a_run(tmp_path: Path, runner: str) -> None:
    run = RUNNERS[runner](tmp_path)
    expected, calls = run()
    assert calls.tolist() == [1, 1]
    timer = _interrupt_after(0.05)
    with pytest.raises(KeyboardInterrupt):
        run()
    timer.join()
    again, calls = run()
    np.testing.assert_array_equal(again, expected)
    assert calls.tolist() == [2, 2], "the run went on to its end, where it writes the buffer"


def test_handlers_run_during_a_run() -> None:
    """One that raises nothing is called, and the run goes on."""
    run = _session(1)
    called: list[float] = []

    def handler(number: int, frame: FrameType | None) -> None:
        called.append(time.perf_counter())

    signal.signal(signal.SIGINT, handler)
    timer = _interrupt_after(0.02)
    began = time.perf_counter()
    _, calls = run()
    ended = time.perf_counter()
    timer.join()
    assert calls.tolist() == [1, 1]
    assert began < called[0] < ended - (ended - began) / 4


def test_other_threads_are_not_interrupted() -> None:
    """Python raises KeyboardInterrupt in its main thread alone."""
    run = _session(1)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run)
        timer = _interrupt_after(0.05)
        with pytest.raises(KeyboardInterrupt):
            time.sleep(30)
        timer.join()
        assert running.result()[1].tolist() == [1, 1]
