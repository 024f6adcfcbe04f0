"""A forked process runs what its parent loaded, on threads of its own."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from executorch.runtime import Runtime
from tests.helpers import lowered, rand, session
from torch import Tensor, nn

import executorch_ggml

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork"),
]
SECONDS = 60  # far more than a child needs; one that hangs is ended then


def in_child(check: Callable[[], object]) -> None:
    """Fork, and run a check in the child, which may hang."""
    child = os.fork()
    if child == 0:
        os._exit(0 if check() else 3)
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid == child:
            assert os.waitstatus_to_exitcode(status) == 0
            return
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    pytest.fail(f"the child hung for {SECONDS} s")


class Wide(nn.Module):
    """Work for several threads; a cumulative sum in float64, which stays with ExecuTorch."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = (x @ x).relu() @ x
        return y, y.double().cumsum(0)


X = torch.randn(192, 192) / 16


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fork") / "wide.pte"
    executorch_ggml.export(Wide(), (X,)).save(str(path))
    return path


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    executorch_ggml.set_num_threads(2)
    yield
    executorch_ggml.set_num_threads(0)


def _module(path: Path) -> Callable[[], Any]:
    module = executorch_ggml.load(path)
    return lambda: [output.numpy() for output in module(X)]


def _delegate(path: Path) -> Callable[[], Any]:
    method = Runtime.get().load_program(path).load_method("forward")
    assert method is not None
    # Views of the method's memory: torch copies outputs on threads of its own, which do not survive a fork.
    return lambda: [output.numpy().copy() for output in method._method([X], False)]


def _session(path: Path) -> Callable[[], Any]:
    del path
    ready = session(lowered(lambda x: (x @ x).relu() @ x, (X,)), threads=2)
    return lambda: ready.run(X.numpy())


RUNNERS = [_module, _delegate, _session]


@pytest.mark.parametrize("prepare", RUNNERS)
def test_a_child_runs_what_its_parent_loaded(path: Path, prepare: Callable[[Path], Callable[[], Any]]) -> None:
    run = prepare(path)
    expected = run()
    in_child(lambda: all(_same(run(), expected) for _ in range(3)))
    in_child(lambda: _same(prepare(path)(), expected))  # loaded in the child
    assert _same(run(), expected)


def _same(outputs: Any, expected: Any) -> bool:
    return all(np.array_equal(ours, theirs) for ours, theirs in zip(outputs, expected, strict=True))


@contextmanager
def running(run: Callable[[], Any], threads: int) -> Iterator[None]:
    """Other threads run it over and over."""
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            run()

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        stop.set()
        for worker in workers:
            worker.join()


@pytest.mark.parametrize("prepare", [_module, _session])
def test_a_child_forked_during_a_run(path: Path, prepare: Callable[[Path], Callable[[], Any]]) -> None:
    run, other = prepare(path), prepare(path)
    expected = run()
    with running(run, 2), running(other, 1):
        for _ in range(8):
            in_child(lambda: _same(run(), expected) and _same(other(), expected))
    assert _same(run(), expected)


class Counter(nn.Module):
    """Adds up what it was called with, with work for a while."""

    total: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(512, 512))

    def forward(self, x: Tensor) -> Tensor:
        self.total.add_((x @ x @ x @ x) * 0 + 1)
        return self.total + 0


def test_states_that_a_run_was_changing(tmp_path: Path) -> None:
    x = rand(512, 512)
    executorch_ggml.export(Counter(), (x,)).save(str(tmp_path / "counter.pte"))
    module = executorch_ggml.load(tmp_path / "counter.pte")
    module(x)
    in_child(lambda: float(module(x)[0, 0]) == 2)  # its own copy
    assert float(module(x)[0, 0]) == 2

    def check() -> bool:
        try:
            total = float(module(x)[0, 0])  # between two runs
            return total == round(total)
        except RuntimeError as error:
            if "when this process was forked" not in str(error):
                return False
        module.reset_state()
        return float(module(x)[0, 0]) == 1

    with running(lambda: module(x), 1):
        for _ in range(5):
            in_child(check)


_modules: dict[str, executorch_ggml.Module] = {}  # that workers inherit


def _in_worker(number: int) -> list[float]:
    return [float(output.sum()) for output in _modules["shared"](X * number)]


def test_a_pool_of_forked_workers(path: Path) -> None:
    _modules["shared"] = executorch_ggml.load(path)
    expected = [_in_worker(number) for number in range(6)]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map_async(_in_worker, range(6)).get(SECONDS) == expected
