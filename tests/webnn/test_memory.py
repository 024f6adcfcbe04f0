"""Constants are copies, and tensors are for dispatch unless asked for more."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.webnn.running import context

from executorch_ggml import webnn


def value_after(constant: object, change: object) -> list[float]:
    """What a graph computes of a constant that was changed after it was given."""
    on = context("torch")
    builder = on.create_graph_builder()
    operand = builder.constant(constant, [2], "float32")
    assert callable(change)
    change()
    return list(on.compute(builder.build({"y": builder.identity(operand)}), {})["y"].tolist())


def test_a_read_only_view_of_an_array() -> None:
    base = np.array([1, 2], np.float32)
    view = base[:]
    view.flags.writeable = False
    assert value_after(view, lambda: base.fill(9)) == [1, 2]


def test_an_array_that_becomes_writable_again() -> None:
    array = np.array([1, 2], np.float32)
    array.flags.writeable = False

    def change() -> None:
        array.flags.writeable = True
        array.fill(9)

    assert value_after(array, change) == [1, 2]


@pytest.mark.parametrize("as_memoryview", [False, True])
def test_bytes_that_can_be_written_to(as_memoryview: bool) -> None:
    owner = bytearray(np.array([1, 2], np.float32).tobytes())
    data = memoryview(owner).toreadonly() if as_memoryview else owner
    assert value_after(data, lambda: owner.__setitem__(slice(None), bytes(8))) == [1, 2]


def test_a_broadcast_array() -> None:
    base = np.array([3], np.float32)
    assert value_after(np.broadcast_to(base, [2]), lambda: base.fill(9)) == [3, 3]


def test_a_constant_tensor() -> None:
    on = context("torch")
    base = np.array([1, 2], np.float32)
    view = base[:]
    view.flags.writeable = False
    tensor = on.create_constant_tensor(view)
    base.fill(9)
    builder = on.create_graph_builder()
    graph = builder.build({"y": builder.identity(builder.constant(tensor))})
    assert on.compute(graph, {})["y"].tolist() == [1, 2]


def test_what_nobody_can_write_to_is_not_copied(tmp_path: Path) -> None:
    builder = context("torch").create_graph_builder()
    np.array([1, 2], np.float32).tofile(tmp_path / "weights")
    mapped = np.memmap(tmp_path / "weights", np.float32, "r")
    data = np.frombuffer(bytes(8), np.float32)
    for array in (mapped, data):
        operand = builder.constant(array)
        assert np.shares_memory(builder._constants[operand._id], array)


def test_tensors_are_neither_readable_nor_writable() -> None:
    tensor = context("torch").create_tensor([2])
    assert isinstance(tensor, webnn.MLTensor)
    assert not tensor.readable
    assert not tensor.writable
