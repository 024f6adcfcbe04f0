"""Every ggml op on a device that runs the op table's torch functions, beside ggml's CPU."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from executorch_ggml import devices
from executorch_ggml.frontends.ggml.translate import FUNCTIONS

from .cases import CASES, Case
from .ggml import F32, Graph, backend, call, compute


@pytest.fixture(scope="module")
def torch_device() -> int:
    devices.load("torch")
    return backend("torch")


@pytest.fixture(scope="module")
def cpu() -> int:
    devices.load("torch")
    return backend("CPU")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_op(case: Case, torch_device: int, cpu: int, capfd: pytest.CaptureFixture[str]) -> None:
    expected, _ = compute(case.build, cpu)
    made, supported = compute(case.build, torch_device)
    assert supported == case.supported
    log = capfd.readouterr().err
    assert ("failed" in log) <= (not case.supported), log
    for ours, theirs in zip(made, expected, strict=True):
        assert ours.shape == theirs.shape
        largest = np.abs(np.nan_to_num(theirs.astype(np.float64), posinf=0, neginf=0)).max(initial=1e-6)
        np.testing.assert_allclose(ours.astype(np.float64), theirs.astype(np.float64), 0, case.tolerance * largest)


@pytest.mark.parametrize("device", ["CPU", "torch"])
def test_branches_that_are_not_selected(device: str) -> None:
    """ggml has all branches in a graph, and computes one."""
    devices.load("torch")
    graph = Graph(backend(device))
    tables = [graph.leaf(F32, 4, 3, data=np.full(12, number)) for number in (1, 2)]
    branches = [graph.op("scale_inplace", table, 3.0) for table in tables]
    made = ctypes.c_void_p(call("ggml_new_graph", graph.context))
    pointers = (ctypes.c_void_p * 2)(*(branch.pointer for branch in branches))
    call("ggml_build_forward_select", made, pointers, 2, 1)
    graph.compute(made)
    assert [table.read().max() for table in tables] == [1, 6]
    graph.close()


def test_functions_are_of_ggml() -> None:
    assert len(FUNCTIONS) > 50
