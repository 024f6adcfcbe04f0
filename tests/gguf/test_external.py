"""Programs whose weights stay in the GGUF file that they were exported from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.gguf.models import FileMaker, logits, make, tokens
from torch import nn

import executorch_ggml
from executorch_ggml.cli import main
from executorch_ggml.gguf import GgufFile, export_gguf, load
from executorch_ggml.ir.builder import Builder
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.ir.serialize import serialize


class Logits(nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.model(ids, use_cache=False).logits


def exported(path: Path, out: Path, *, external: bool) -> Path:
    model = load(path, external=external)
    with torch.no_grad():
        program = executorch_ggml.export(Logits(model.module), (tokens(8),), weights=model.weights)
    program.save(str(out))
    return out


@pytest.fixture(scope="module")
def tied(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A file whose head is its embedding, and a program that leaves the weights there."""
    folder = tmp_path_factory.mktemp("tied")
    export_gguf(make("llama-3-tied"), folder / "x.gguf", types=DType.Q8_0)
    return folder / "x.gguf", exported(folder / "x.gguf", folder / "x.pte", external=True)


def test_programs_with_weights_outside_and_inside(tied: tuple[Path, Path], tmp_path: Path) -> None:
    path, outside = tied
    inside = exported(path, tmp_path / "inside.pte", external=False)
    assert inside.stat().st_size - outside.stat().st_size > 0.8 * path.stat().st_size
    result = executorch_ggml.load(outside, gguf=path)(tokens(8))
    assert torch.equal(result, executorch_ggml.load(inside)(tokens(8)))
    expected = logits(load(path, dequantize=True).module, tokens(8))
    # ggml quantizes activations to 8 bits
    torch.testing.assert_close(result, expected, rtol=0, atol=0.02 * float(expected.abs().max()))


def test_rotations_of_neighbours_are_one_node_each(tied: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(tied[1])]) == 0
    text = capsys.readouterr().out
    assert text.count("rotary(") == 2
    assert text.count("interleaved=True") == 2
    assert "0 calls outside" in text


def scale(file: GgufFile, *, name: str = "t", ne: tuple[int, int] = (4, 2), dtype: DType = DType.F32) -> bytes:
    """A program that multiplies its input by a tensor of the file."""
    builder = Builder()
    x = builder.input("x", dtype, (ne[1], ne[0]), (*ne, 1, 1))
    weight = builder.constant(f"gguf:{file.id}/{name}", dtype, (*ne, 1, 1), outside=True)
    builder.output("y", builder.emit("mul", x, weight), (ne[1], ne[0]))
    return serialize(builder.graph)


def small(path: Path, values: np.ndarray[Any, Any]) -> GgufFile:
    return GgufFile(FileMaker().tensor("t", [4, 2], data=values.tobytes()).write(path))


def test_sessions_take_constants_from_files(tmp_path: Path) -> None:
    values = np.arange(8, dtype=np.float32).reshape(2, 4)
    file = small(tmp_path / "x.gguf", values)
    program = scale(file)
    session = executorch_ggml.Session(program, gguf=file.path)
    assert np.array_equal(session.run(np.full((2, 4), 2.0, np.float32))[0], values * 2)
    (tmp_path / "x.gguf").rename(tmp_path / "moved.gguf")
    executorch_ggml.Session(program, gguf=[tmp_path / "moved.gguf"])
    with pytest.raises(RuntimeError, match=r"constant t lies in the GGUF file [0-9a-f]{16}, which is not open"):
        executorch_ggml.Session(program)
    other = small(tmp_path / "other.gguf", values + 1)
    with pytest.raises(RuntimeError, match=rf"not open: .*other.gguf is {other.id}"):
        executorch_ggml.Session(program, gguf=other.path)
    with pytest.raises(RuntimeError, match=r"no.gguf: cannot open it: No such file"):
        executorch_ggml.Session(program, gguf=tmp_path / "no.gguf")


def test_what_does_not_fit_is_named(tmp_path: Path) -> None:
    file = small(tmp_path / "x.gguf", np.zeros((2, 4), np.float32))
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"name": "u"}, "it has no tensor u"),
        ({"ne": (8, 1)}, r"tensor t is f32\[4, 2, 1, 1\], and the program expects f32\[8, 1, 1, 1\]"),
        ({"ne": (4, 3)}, r"program expects f32\[4, 3, 1, 1\]"),
        ({"dtype": DType.I32}, r"the program expects i32\[4, 2, 1, 1\]"),
    )
    for options, message in cases:
        with pytest.raises(RuntimeError, match=message):
            executorch_ggml.Session(scale(file, **options), gguf=file.path)


def test_other_files_are_refused(tied: tuple[Path, Path], tmp_path: Path) -> None:
    path, program = tied
    other = small(tmp_path / "other.gguf", np.zeros((2, 4), np.float32))
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({}, rf"which is not open; it was exported from {path.name}, which load\(gguf=\) and --gguf take"),
        ({"gguf": other.path}, rf"not open: .*other.gguf is {other.id}"),
    )
    for options, message in cases:
        with pytest.raises(RuntimeError, match=message):
            executorch_ggml.load(program, **options)(tokens(8))
    executorch_ggml.load(program, gguf=[other.path, path])(tokens(8))
    with pytest.raises(FileNotFoundError, match="no such GGUF file"):
        executorch_ggml.load(program, gguf=tmp_path / "no.gguf")
    (tmp_path / "short.gguf").write_bytes(path.read_bytes()[:-100])
    with pytest.raises(RuntimeError, match="end after the file"):
        executorch_ggml.load(program, gguf=tmp_path / "short.gguf")


def test_a_module_closes_its_files(tied: tuple[Path, Path]) -> None:
    path, program = tied
    module = executorch_ggml.load(program, gguf=path)
    expected = module(tokens(8))
    other = executorch_ggml.load(program, gguf=path)
    del module
    assert torch.equal(other(tokens(8)), expected)
    del other
    with pytest.raises(RuntimeError, match="which is not open"):
        executorch_ggml.load(program)(tokens(8))


def test_weights_are_used_where_they_are_mapped(tmp_path: Path) -> None:
    rows, width = 64, 64 * 1024  # 16 MiB
    path = tmp_path / "x.gguf"
    FileMaker().tensor("t", [width, rows], data=bytes(4 * rows * width)).write(path)
    file = GgufFile(path)
    program = scale(file, ne=(width, rows))
    before = anonymous_memory()
    session = executorch_ggml.Session(program, gguf=path)
    assert anonymous_memory() - before < 4 * 2**20
    session.run(np.ones((rows, width), np.float32))


def anonymous_memory() -> int:
    """Bytes of this process that are in memory and of no file."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("RssAnon"))
    return int(line.split()[1]) * 1024


def test_a_program_with_its_own_weights_takes_no_file(tied: tuple[Path, Path], tmp_path: Path) -> None:
    path, _ = tied
    program = exported(path, tmp_path / "own.pte", external=False)
    with pytest.raises(ValueError, match=rf"own.pte: it has its own weights, and takes none from {path}"):
        executorch_ggml.load(program, gguf=path)
