"""Matrices in panels in a session: used as they lie, unpacked where they must be, refused where they are damaged."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.runtime.panels import PANELS, READS, TYPES, contents, graph, inputs, session
from tests.runtime.test_bad_input import Damage, _set, changed
from tests.runtime.test_layer_weights import aligned
from tests.test_isa import ISAS

from executorch_ggml.ir.dtypes import DType
from executorch_ggml.ir.serialize import serialize
from executorch_ggml.ir.storage import Storage
from executorch_ggml.runtime import Session, cpu

# Those that have products with panels.
HAS_PRODUCTS = cpu().kernels not in ("generic", "avx512")


@pytest.mark.parametrize("isa", ISAS)
def test_panels_change_no_number(isa: str) -> None:
    used = cpu()
    if ISAS.index(isa) > max(ISAS.index(used.kernels), ISAS.index(used.library_isa)):
        pytest.skip(f"this machine has up to {used.kernels}, and its ggml up to {used.library_isa}")
    result = subprocess.run(
        [sys.executable, "-m", "tests.runtime.panels"],
        env={**os.environ, "EXECUTORCH_GGML_CPU": isa},
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr


@pytest.mark.skipif(not HAS_PRODUCTS, reason="this CPU unpacks panels")
@pytest.mark.parametrize("dtype", TYPES)
def test_panels_are_used_in_place(dtype: DType) -> None:
    program = serialize(graph(dtype, 19, 3, PANELS))
    data = aligned(contents(dtype, 19, PANELS))
    ready = Session(program, {"matrix": data})
    before = ready.run(*inputs(19, 3))
    data[...] = 0
    after = ready.run(*inputs(19, 3))
    assert all(np.abs(result).max() > 0 for result in before)
    assert all(np.abs(result).max() == 0 for result in after)


@pytest.mark.parametrize("dtype", TYPES)
def test_panels_that_are_not_aligned(dtype: DType) -> None:
    program, data = serialize(graph(dtype, 19, 3, PANELS)), contents(dtype, 19, PANELS)
    both = [Session(program, {"matrix": aligned(data, by)}).run(*inputs(19, 3)) for by in (0, 1)]
    for first, second in zip(*both, strict=True):
        np.testing.assert_array_equal(first, second)


def test_panels_that_are_read_otherwise_are_not_needed_afterwards() -> None:
    data = aligned(contents(DType.Q4_K, 19, PANELS))
    ready = Session(serialize(graph(DType.Q4_K, 19, 3, PANELS, READS)), {"matrix": data})
    expected = session(DType.Q4_K, 19, 3, PANELS, READS).run(*inputs(19, 3))
    data[...] = 0
    for first, second in zip(ready.run(*inputs(19, 3)), expected, strict=True):
        np.testing.assert_array_equal(first, second)


def test_any_bytes_are_a_matrix() -> None:
    """Whatever a file has there, nothing outside of it is read and the run ends."""
    for dtype in TYPES:
        size = contents(dtype, 19, PANELS).size
        for seed in range(4):
            noise = np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)
            ready = Session(serialize(graph(dtype, 19, 9, PANELS)), {"matrix": aligned(noise)})
            assert [result.shape for result in ready.run(*inputs(19, 9))] == [(9, 19), (3, 512)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set("constants.0.storage", int(Storage.PLAIN)), "constant matrix: 9472 bytes, expected 5472"),
        (_set("constants.0.storage", int(Storage.MATRIX_BLOCKS)), "constant matrix: storage layout #1 .* does not fit"),
        (_set("constants.0.storage", int(Storage.PANELS) + 1), "constant matrix: storage layout #5 is unknown"),
        (_set("constants.0.groups", 0), "constant matrix: storage layout #4 with 0 groups does not fit"),
        (_set("constants.0.groups", 19), "constant matrix: storage layout #4 with 19 groups does not fit"),
        (_set("values.2.dtype", int(DType.Q8_0)), "constant matrix: storage layout #4 .* does not fit its type"),
        (_set("values.2.dtype", int(DType.F32)), "constant matrix: storage layout #4 .* does not fit its type"),
        (_set("values.2.dtype", int(DType.Q6_K)), "constant matrix: 9472 bytes, expected"),
        (_set("values.2.ne.n1", 33), "constant matrix: 9472 bytes, expected 14208"),
        (_set("values.2.ne.n1", 0), "constant matrix: 9472 bytes, expected 0 for"),
        (_set("values.2.ne.n0", 768), "constant matrix: 9472 bytes, expected"),
        (_set("values.2.ne.n0", 100), "constant matrix: .* its rows are no multiple of 256"),
        (_set("values.2.ne.n1", 2**40), "constant matrix: .*"),
        (_set("values.2.ne.n2", 2), "constant matrix: storage layout #4 .* does not fit its type and dims"),
    ],
)
def test_session_refuses_damaged_panels(change: Damage, message: str) -> None:
    program = serialize(graph(DType.Q4_K, 19, 3, PANELS))
    with pytest.raises(RuntimeError, match=message):
        Session(changed(change, program), {"matrix": contents(DType.Q4_K, 19, PANELS)})
