"""Every ggml op on a device that runs the op table's torch functions, beside ggml's CPU."""

from __future__ import annotations

import numpy as np
import pytest

from executorch_ggml import devices
from executorch_ggml.devices.translate import FUNCTIONS

from .cases import CASES, Case
from .ggml import backend, compute


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


def test_functions_are_of_ggml() -> None:
    from executorch_ggml.devices import ops

    assert ops.__all__
    assert len(FUNCTIONS) > 50
