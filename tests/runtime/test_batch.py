"""Runs by parts: samples that a program computes apart, on several threads and on one."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers import assert_all_same, lowered, rand, run_session
from torch import Tensor, nn
from torch.export import Dim

from executorch_ggml.ir.graph import Graph
from executorch_ggml.ir.serialize import serialize
from executorch_ggml.runtime import Session

SIZE = 24  # pixels along a side: enough work for a part of a few samples
BATCHES = st.integers(1, 17)


class Images(nn.Module):
    """Two layers, whose samples do not depend on each other, and scales that all samples share."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.layers = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.Hardswish(), nn.Conv2d(16, 12, 3, stride=2))

    def forward(self, x: Tensor, scales: Tensor) -> tuple[Tensor, Tensor]:
        x = self.layers(x) * scales[:, None, None]
        return x, x.mean((2, 3))


class Mixed(Images):
    """The same, with an output that depends on all samples."""

    def forward(self, x: Tensor, scales: Tensor) -> tuple[Tensor, Tensor]:
        x, means = super().forward(x, scales)
        return x - means.mean(0)[:, None, None], means


class Windows(nn.Module):
    """What ggml's kernels compute some nodes of: they run one graph at a time."""

    def forward(self, x: Tensor) -> Tensor:
        return F.softmax(x @ x.transpose(1, 2) + 1.0, -1)


def inputs_of(samples: int) -> tuple[Tensor, Tensor]:
    return rand(samples, 8, SIZE, SIZE), rand(12)


def graph_of(module: nn.Module) -> Graph:
    return lowered(module.eval(), inputs_of(3), [{0: Dim("batch", max=64)}, None])


def session_of(graph: Graph, threads: int = 2, max_work: int | None = None) -> Session:
    constants = {each.key: each.stored() for each in graph.named_constants()}
    return Session(serialize(graph), constants, threads=threads, max_work=max_work)


def runs_by_parts(ready: Session) -> bool:
    """Whether the first run was divided: it prepared a graph of one sample, for its cost, beside that of a part."""
    return ready.prepared_count > 1


def whole(graph: Graph) -> Graph:
    """The program without its batch, whose runs are not divided."""
    return replace(graph, symbols=[replace(entry, batch=False) for entry in graph.symbols])


@pytest.fixture(scope="module")
def images() -> Graph:
    return graph_of(Images())


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_results_are_eagers(images: Graph, threads: int) -> None:
    ready, module = session_of(images, threads), Images().eval()

    @given(BATCHES)
    def check(samples: int) -> None:
        inputs = inputs_of(samples)
        assert_all_same(run_session(ready, inputs), module(*inputs))

    check()


@pytest.mark.parametrize("threads", [2, 3])
def test_runs_are_divided(images: Graph, threads: int) -> None:
    inputs = inputs_of(12)
    by_parts, undivided = session_of(images, threads), session_of(whole(images), threads)
    assert_all_same(run_session(by_parts, inputs), run_session(undivided, inputs))
    assert runs_by_parts(by_parts)
    assert not runs_by_parts(undivided)


def test_a_sample_alone_is_not_divided(images: Graph) -> None:
    ready = session_of(images)
    run_session(ready, inputs_of(1))
    assert not runs_by_parts(ready)


def test_samples_that_are_mixed_are_not_divided() -> None:
    ready, inputs = session_of(graph_of(Mixed())), inputs_of(12)
    assert_all_same(run_session(ready, inputs), Mixed().eval()(*inputs))
    assert not runs_by_parts(ready)


def test_what_ggml_computes_is_divided_in_turn() -> None:
    inputs = (rand(40, 96, 64),)
    graph = lowered(Windows(), inputs, [{0: Dim("batch", max=64)}])
    ready = session_of(graph)
    assert_all_same(run_session(ready, inputs), Windows()(*inputs))
    assert runs_by_parts(ready)


def test_no_samples(images: Graph) -> None:
    first, second = run_session(session_of(images), inputs_of(0))
    assert first.shape == (0, 12, 11, 11)
    assert second.shape == (0, 12)


def test_a_batch_beyond_the_programs_is_refused(images: Graph) -> None:
    with pytest.raises(RuntimeError, match="outside the 0 to 64 that the model was exported for"):
        run_session(session_of(images), inputs_of(65))


def test_a_batch_of_too_much_work_is_refused(images: Graph) -> None:
    ready = session_of(images, max_work=20_000_000)
    run_session(ready, inputs_of(4))
    with pytest.raises(RuntimeError, match=r"multiplications, more than the 20000000"):
        run_session(ready, inputs_of(32))
    run_session(ready, inputs_of(4))


def test_sizes_take_turns(images: Graph) -> None:
    ready, module = session_of(images), Images().eval()
    for samples in (12, 1, 7, 12, 16, 2, 64, 12):
        inputs = inputs_of(samples)
        assert_all_same(run_session(ready, inputs), module(*inputs))


def test_sessions_side_by_side(images: Graph) -> None:
    inputs = inputs_of(12)
    expected = run_session(session_of(images), inputs)
    results: list[list[Tensor]] = []

    def work() -> None:
        ready = session_of(images)
        results.extend(run_session(ready, inputs) for _ in range(5))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 20
    for result in results:
        assert all(torch.equal(a, b) for a, b in zip(result, expected, strict=True))


def test_a_program_that_says_so_wrongly_runs_whole(images: Graph) -> None:
    """A file is not trusted: an output that is not in equal parts is computed whole."""
    graph = graph_of(Mixed())
    graph.outputs[1].value, graph.outputs[1].shape = graph.outputs[0].value, graph.outputs[0].shape
    lying = replace(graph, symbols=[replace(entry, batch=True) for entry in graph.symbols])
    first, _ = run_session(session_of(lying), inputs_of(12))
    assert first.shape == (12, 12, 11, 11)


def test_an_index_out_of_range_in_one_part_fails_the_run() -> None:
    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(50, 64)
            self.layer = nn.Linear(64, 64)

        def forward(self, ids: Tensor) -> Tensor:
            return self.layer(self.table(ids))

    module, ids = Rows().eval(), torch.arange(12 * 64).reshape(12, 64) % 50
    ready = session_of(lowered(module, (ids,), [{0: Dim("batch", max=64)}]))
    assert_all_same(run_session(ready, (ids,)), module(ids))
    assert runs_by_parts(ready)
    ids[7, 3] = 50
    with pytest.raises(RuntimeError, match="50"):
        run_session(ready, (ids,))
    ids[7, 3] = 1
    np.testing.assert_allclose(run_session(ready, (ids,))[0], module(ids).detach(), atol=1e-5)
