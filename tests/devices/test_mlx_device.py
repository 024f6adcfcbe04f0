"""The MLX device as its callers meet it: availability, settings, refusals, threads, failing runs, states."""

from __future__ import annotations

import gc
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mlx.core")

import mlx.core as mx
import numpy as np
import torch
from tests.devices.mlx_check import built, check_graph, computed, run_plan
from tests.helpers import run_interpreter
from tests.native.corpus_program import Program
from tests.native.make_corpus import PROGRAMS

from executorch_ggml.devices.mlx import MlxDevice, available, set_device
from executorch_ggml.devices.mlx.docs import PAGE, page
from executorch_ggml.ir.arrays import Contents
from executorch_ggml.ir.builder import Builder
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.ir.ops.custom import BinaryKind


@pytest.fixture
def default_device() -> Iterator[None]:
    yield
    set_device(None)


def small(p: Program) -> None:
    x = p.random(2, 3, 8)
    y = p.emit("mul_mat", p.constant(torch.randn(5, 8)), p.emit("silu", x))
    p.output(p.emit("soft_max_ext", p.emit("scale_bias", y, s=2.0, b=1.0), None, scale=1.0, max_bias=0.0))


def test_available() -> None:
    there, what = available()
    assert there
    assert re.match(r"MLX \d+\.\d+\S* on cpu", what)
    assert MlxDevice().description == what
    free, total = MlxDevice().memory()
    assert 0 < free <= total


def test_set_device(default_device: None) -> None:
    set_device("cpu")
    check_graph(*built(small))
    with pytest.raises(ValueError, match="expected 'cpu' or 'gpu'"):
        set_device("tpu")
    if not mx.is_available(mx.gpu):
        with pytest.raises(RuntimeError, match="no device 'gpu' here"):
            set_device("gpu")
        with pytest.raises(RuntimeError, match="no device 'gpu' here"):
            MlxDevice("gpu")
    check_graph(*built(small), device=MlxDevice("cpu"))
    assert MlxDevice("cpu").name == "mlx:cpu"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="mx.compile needs g++ on the CPU")
def test_compiled() -> None:
    device = MlxDevice(compile=True)
    check_graph(*built(small), device=device)
    check_graph(*built(PROGRAMS["gathering"]), device=device)


def halves(p: Program) -> None:
    weight = p.constant(torch.randn(5, 8).bfloat16())
    p.output(p.emit("mul_mat", weight, p.random(3, 8)), weight, p.emit("iota", **COUNTED))


COUNTED = {"ne": (4, 2, 1, 1), "start": 1, "step": 2, "dtype": DType.F32}


@pytest.mark.parametrize("make", [halves, PROGRAMS["pooling"], PROGRAMS["softmax"]])
def test_graphs_run_on_any_thread(make: Callable[[Program], None]) -> None:
    graph, inputs = built(make)
    plan, made = MlxDevice().plan(graph), []
    for _ in range(2):
        thread = threading.Thread(target=lambda: made.append(run_plan(plan, graph, inputs)))
        thread.start()
        thread.join()
    assert len(made) == 2
    for outputs in made:
        for output, expected in zip(outputs, run_interpreter(graph, tuple(inputs)), strict=True):
            torch.testing.assert_close(output, expected)


def test_results_outlive_the_next_run() -> None:
    graph, (x,) = built(small)
    plan = MlxDevice().plan(graph)
    (first,) = plan([x.numpy()])
    kept = first.copy()
    plan([x.numpy() + 1])
    assert (first == kept).all()


def test_inputs_are_not_kept() -> None:
    graph, (x,) = built(small)
    plan, array = MlxDevice().plan(graph), x.numpy().copy()
    expected = plan([array])[0].copy()
    again = plan([array])
    array[:] = 0
    assert (again[0] == expected).all()


@pytest.mark.parametrize("index", [7, -8])
def test_index_out_of_range(index: int) -> None:
    def gather(p: Program) -> None:
        at = p.emit("to_index", p.input(torch.tensor([0, index])), size=7, wrap=True)
        p.output(p.emit("get_rows", p.constant(torch.randn(7, 6)), at))

    graph, inputs = built(gather)
    plan = MlxDevice().plan(graph)
    with pytest.raises(IndexError, match="mlx: index out of range for size 7"):
        run_plan(plan, graph, inputs)
    run_plan(plan, graph, [torch.tensor([0, 6])])


@pytest.mark.parametrize("kind", [BinaryKind.FLOOR_DIVIDE, BinaryKind.REMAINDER, BinaryKind.TRUNC_DIVIDE])
def test_division_by_zero(kind: BinaryKind) -> None:
    def divide(p: Program) -> None:
        p.output(p.emit("binary", p.input(torch.tensor([1, 2])), p.input(torch.tensor([1, 0])), kind=kind))

    with pytest.raises(ZeroDivisionError, match="mlx: division by zero"):
        computed(*built(divide))


def test_states_are_kept_between_runs() -> None:
    graph, inputs = built(PROGRAMS["state"])
    plan = MlxDevice().plan(graph)
    first, second = run_plan(plan, graph, inputs), run_plan(plan, graph, inputs)
    assert first[1].item() == 1
    assert second[1].item() == 2
    torch.testing.assert_close(second[0], first[0] + inputs[0])


def test_a_failed_run_leaves_states_as_they_were() -> None:
    def write(p: Program) -> None:
        cache = p.build.state("cache", DType.F32, (2, 3, 1, 1))
        at = p.build.reshape(p.input(torch.tensor([0])), (1, 1))
        p.output(p.emit("update_state", cache, at, p.random(1, 2), ne=(2, 1, 1, 1), axis=1, wrap=False))

    graph, (at, row) = built(write)
    plan = MlxDevice().plan(graph)
    with pytest.raises(IndexError, match="size 3"):
        run_plan(plan, graph, [torch.tensor([3]), row])
    (cache,) = run_plan(plan, graph, [at, row])
    assert torch.equal(cache.reshape(3, 2), torch.cat([row, torch.zeros(2, 2)]))


def test_every_reason_is_given_at_once() -> None:
    def several(p: Program) -> None:
        x = p.random(3)
        p.output(p.emit("unary", x, kind=26), p.emit("convert", x, dtype=DType.F64))

    graph, _ = built(several)
    with pytest.raises(ValueError, match=r"convert: f64 is no type of MLX's; unary: MLX has no lgamma"):
        MlxDevice().plan(graph)


def test_docs_are_up_to_date() -> None:
    assert Path(PAGE).read_text() == page(), "write it anew: python -m executorch_ggml.devices.mlx.docs"


def test_plans_share_their_weights() -> None:
    """A weight of a ggml program is converted once for all its graphs, and goes with the last of them."""
    reads = []

    def read() -> np.ndarray[Any, Any]:
        reads.append(1)
        return np.ones(32, np.float16)

    def plan(rows: int) -> Any:
        b = Builder()
        x = b.input("x", DType.F32, (1, 1, rows, 8), (8, rows, 1, 1))
        made = b.emit("mul_mat", b.constant("w", DType.F16, (8, 4, 1, 1), Contents(read, DType.F16, "a weight")), x)
        b.output("y", made, (1, 1, rows, 4))
        return MlxDevice().plan(b.finish())

    plans = [plan(rows) for rows in (1, 2, 7)]
    assert all(
        (p([np.ones((1, 1, rows, 8), np.float32)])[0] == 8).all() for p, rows in zip(plans, (1, 2, 7), strict=True)
    )
    assert len(reads) == 1
    del plans
    gc.collect()
    plan(1)
    assert len(reads) == 2
