"""Programs called from many threads: each call gets its own answer, and none holds the interpreter."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from tests.helpers import assert_all_same, rand
from torch import Tensor, nn

import executorch_ggml

CALLS = 1600
THREADS = 8


class Counted(nn.Module):
    """Two outputs, of which each says which call it is of; the cumulative sum in float64 stays outside of ggml."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(8, width)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.linear(x).relu()
        return y, y.double().cumsum(-1) + x.sum()


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[nn.Module, Path]]:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("programs")
    exported: list[tuple[nn.Module, Path]] = []
    for width in (16, 32, 48):
        model, path = Counted(width).eval(), folder / f"{width}.pte"
        executorch_ggml.export(model, (rand(4, 8),)).save(str(path))
        exported.append((model, path))
    return exported


def test_shared_modules_from_many_threads(models: list[tuple[nn.Module, Path]]) -> None:
    modules = [executorch_ggml.load(path) for _, path in models]
    inputs = [torch.randn(4, 8) for _ in range(40)]
    with torch.no_grad():
        expected = [[model(x) for x in inputs] for model, _ in models]
    barrier = threading.Barrier(THREADS)

    def work(thread: int) -> list[str]:
        barrier.wait()
        wrong = []
        for call in range(CALLS // THREADS):
            which, index = (thread + call) % len(modules), (7 * thread + call) % len(inputs)
            outputs = modules[which](inputs[index])
            for ours, theirs in zip(outputs, expected[which][index], strict=True):
                if not torch.allclose(ours, theirs, rtol=1e-4, atol=1e-4):
                    wrong.append(f"thread {thread}, call {call}")
        return wrong

    with ThreadPoolExecutor(THREADS) as pool:
        wrong = [one for several in pool.map(work, range(THREADS)) for one in several]
    assert not wrong, f"{len(wrong)} of {2 * CALLS} outputs are another call's: {wrong[:3]} ..."


def test_results_belong_to_the_caller(models: list[tuple[nn.Module, Path]]) -> None:
    model, path = models[0]
    module = executorch_ggml.load(path)
    inputs = [torch.randn(4, 8) for _ in range(5)]
    outputs = [module(x) for x in inputs]
    del module
    for x, output in zip(inputs, outputs, strict=True):
        assert_all_same(output, model(x))
        output[0].zero_()  # may be written to


class Long(nn.Module):
    """A run that takes a good part of a second."""

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(24):
            x = (x @ x) * 1e-3
        return x


@pytest.fixture(scope="module")
def long_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("long") / "long.pte"
    executorch_ggml.export(Long(), (torch.eye(1024),)).save(str(path))
    return path


def test_a_run_does_not_hold_the_interpreter(long_program: Path) -> None:
    module = executorch_ggml.load(long_program)
    x = torch.eye(1024)
    module(x)
    during = 0
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(module, x)
        while not running.done():
            time.sleep(0.001)
            during += 1
    # A held interpreter lets this thread go on once before the run, and once after it.
    assert during > 10
