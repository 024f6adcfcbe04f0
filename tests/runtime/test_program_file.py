"""Parts of a program's file, read without ExecuTorch's readers, whose results they are held against."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from executorch.exir.tensor import enum_to_scalar_map
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.export import Dim

import executorch_ggml
from executorch_ggml.pte import inputs_of, plan_of, read_program
from executorch_ggml.runtime.program_file import DTYPES, input_ports, named_data

KEY, DATA = "a name", bytes(range(256)) * 3


class Shifted(nn.Module):
    def forward(self, x: Tensor, index: Tensor, by: float) -> Tensor:
        return x[index] + by


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / "shifted.pte"
    inputs = (torch.zeros(3, 5), torch.zeros(2, dtype=torch.int64), 2.0)
    dims = ({0: Dim("rows", max=7)}, None, None)
    executorch_ggml.export(Shifted(), inputs, dynamic_shapes=dims, named_data={KEY: DATA, "none": b""}).save(str(path))
    return path


def test_dtypes_are_executorchs() -> None:
    assert {int(number): dtype for number, dtype in enum_to_scalar_map.items()} == DTYPES


def test_input_ports(program: Path) -> None:
    assert input_ports(program, "forward") == inputs_of(plan_of(program, "forward")[0])
    assert [str(port) for port in input_ports(program, "forward")] == ["float32[7, 5] or smaller", "int64[2]", "None"]
    with pytest.raises(ValueError, match=r"shifted\.pte has no method 'other', but forward"):
        input_ports(program, "other")


def test_named_data(program: Path) -> None:
    assert named_data(program, KEY) == DATA
    assert named_data(program, "none") == b""
    assert named_data(program, "another name") is None


@pytest.mark.parametrize("read", [named_data, input_ports])
@pytest.mark.parametrize("size", [0, 4, 8, 31, 32, 100])
def test_files_that_end_early(read: Callable[[Path, str], object], size: int, program: Path, tmp_path: Path) -> None:
    path = tmp_path / "short.pte"
    path.write_bytes(program.read_bytes()[:size])
    with pytest.raises(ValueError, match=r"short\.pte: .* program"):
        read(path, "forward")


@given(at=st.integers(0, 4000), value=st.integers(0, 2**32 - 1))
def test_damage(at: int, value: int, program: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whichever four bytes are overwritten, reading succeeds or raises a ValueError that names the file."""
    data = bytearray(program.read_bytes())
    struct.pack_into("<I", data, at % (len(data) - 4), value)
    path = tmp_path_factory.getbasetemp() / "damaged.pte"
    path.write_bytes(data)
    errors = []
    for read, key in ((named_data, KEY), (input_ports, "forward")):
        try:
            read(path, key)
        except ValueError as error:
            errors.append(str(error))
    assert all("damaged.pte" in error for error in errors)


def test_data_beyond_the_file(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.pte"
    data = program.read_bytes()
    path.write_bytes(data[: data.index(DATA) + len(DATA) - 1])
    with pytest.raises(ValueError, match=r"cut\.pte: a damaged program: its data goes on after the file's end"):
        named_data(path, KEY)


def test_lengths_beyond_the_file(program: Path, tmp_path: Path) -> None:
    """As many entries as a length says would take all memory."""
    data = bytearray(program.read_bytes())
    (root,) = struct.unpack_from("<I", data)
    (back,) = struct.unpack_from("<i", data, root)
    (plans,) = struct.unpack_from("<H", data, root - back + 6)
    vector = root + plans + struct.unpack_from("<I", data, root + plans)[0]
    assert struct.unpack_from("<I", data, vector) == (len(read_program(program)[0].execution_plan),)
    struct.pack_into("<I", data, vector, 2**32 - 1)
    path = tmp_path / "long.pte"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"long\.pte: a damaged program: a vector of 4294967295 elements"):
        input_ports(path, "forward")
