"""Programs called from many threads: each call gets its own answer, and none holds the interpreter."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from executorch.runtime import Runtime
from tests.helpers import assert_all_same, lowered, rand, session
from torch import Tensor, nn

import executorch_ggml
from executorch_ggml import GgmlPartitioner
from executorch_ggml._export import executorch_config

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


@pytest.mark.parametrize("threads", [1, 2])
def test_sessions_run_side_by_side(threads: int) -> None:
    """A short run begins and ends while a long one goes on: it waits for no lock that the long one holds."""
    x, y = torch.eye(1024).numpy(), torch.eye(64).numpy()
    long = session(lowered(Long(), (torch.from_numpy(x),)), threads=threads)
    short = session(lowered(Long(), (torch.from_numpy(y),)), threads=threads)
    expected = short.run(y)[0]
    long.run(x)
    during = 0
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(long.run, x)
        while not running.done():
            assert (short.run(y)[0] == expected).all()
            during += 1
    # With one lock for both, the first may go before the long run, and the second ends after it.
    assert during > 5


def test_threads_sleep_after_a_call() -> None:
    """A millisecond after a call the process uses no CPU. The least of several tries: other threads may live in it."""
    x = torch.eye(256).numpy()
    ready = session(lowered(Long(), (torch.from_numpy(x),)), threads=2)
    used = []
    for _ in range(8):
        ready.run(x)
        time.sleep(0.001)
        before = time.process_time()
        time.sleep(0.05)
        used.append(time.process_time() - before)
    assert min(used) < 0.002


def test_sessions_in_threads_share_the_cores() -> None:
    """As many sessions as cores, each called from a thread of its own: no slower together than one after the other."""
    x = torch.eye(384).numpy()
    sessions = [session(lowered(Long(), (torch.from_numpy(x),)), threads=2) for _ in range(os.cpu_count() or 1)]
    expected = sessions[0].run(x)[0]

    def seconds(workers: int) -> float:
        began = time.perf_counter()
        with ThreadPoolExecutor(workers) as pool:
            for outputs in pool.map(lambda one: [one.run(x)[0] for _ in range(5)], sessions):
                assert all((output == expected).all() for output in outputs)
        return time.perf_counter() - began

    ratios = [seconds(1) / seconds(len(sessions)) for _ in range(5)]
    assert max(ratios) > 0.8


def test_programs_of_one_buffer_have_their_own_states(tmp_path: Path) -> None:
    """Two loads of one bytes object lie at the same addresses."""

    class Cache(nn.Module):
        total: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.ones(3))  # zeros are not stored

        def forward(self, x: Tensor) -> Tensor:
            self.total.add_(x)
            return self.total + 0

    model = Cache()
    x = torch.ones(3)
    for weights_file in (None, "weights"):
        programs = {name: torch.export.export(model, (x,)) for name in ("forward", "again")}
        edge = to_edge_transform_and_lower(programs, partitioner=[GgmlPartitioner(weights_file=weights_file)])
        program = edge.to_executorch(executorch_config())
        program.save(str(tmp_path / "model.pte"))
        program.write_tensor_data_to_file(str(tmp_path))
        contents = (tmp_path / "model.pte").read_bytes()
        data = tmp_path / "weights.ptd" if weights_file else None
        first, second = (Runtime.get().load_program(contents, data_path=data) for _ in range(2))
        one, two, three = first.load_method("forward"), second.load_method("again"), first.load_method("again")
        assert one is not None
        assert two is not None
        assert three is not None
        sums = [float(method.execute([x])[0][0]) for method in (one, two, three, one)]
        assert sums == [2, 2, 3, 4], weights_file


VARIABLE = "EXECUTORCH_GGML_NUM_THREADS"


@pytest.mark.parametrize("value", ["abc", "0", "-3", "1e9", "2 threads", "513", "99999999999999999999"])
def test_a_variable_that_is_no_number_of_threads(
    models: list[tuple[nn.Module, Path]], monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv(VARIABLE, value)
    message = f'{VARIABLE} is "{value}", expected a whole number from 1 to 512'
    with pytest.raises(RuntimeError, match=message):
        session(lowered(nn.ReLU(), (rand(3),)), threads=0)
    with pytest.raises(RuntimeError, match=message):
        executorch_ggml.get_num_threads()
    with pytest.raises(RuntimeError, match=message):
        executorch_ggml.load(models[0][1]).load_method("forward")
    session(lowered(nn.ReLU(), (rand(3),)), threads=1)  # which does not ask


def test_a_variable_that_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "3")
    assert executorch_ggml.get_num_threads() == 3
