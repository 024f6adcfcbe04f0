"""The op table and all that is generated from it."""

from __future__ import annotations

import ctypes
import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from executorch_ggml.ir import codegen
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.ir.op import OPS, Registry, op

ROOT = Path(__file__).resolve().parents[2]


def test_generated_files_are_what_the_table_says() -> None:
    script = ROOT / "python" / "executorch_ggml" / "ir" / "codegen.py"
    made = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr


def test_generation_without_the_package(tmp_path: Path) -> None:
    """As the build does it: the table alone, without torch being imported."""
    script = ROOT / "python" / "executorch_ggml" / "ir" / "codegen.py"
    command = [sys.executable, str(script), "--schema-out", str(tmp_path / "ir.fbs"), "--cpp-out", str(tmp_path)]
    subprocess.run(command, check=True)
    assert (tmp_path / "ir.fbs").read_text() == (ROOT / "schema" / "ggml_ir.fbs").read_text()
    for name in ("ops_generated.h", "build_generated.inc"):
        assert (tmp_path / name).read_text().startswith(f"// {codegen.NOTICE}")


def test_rows_are_documented() -> None:
    for spec in (OPS[name] for name in OPS):
        assert spec.doc.endswith((".", ").")), spec.name
        for check in spec.checks:
            assert "`" not in check.expected, f"{spec.name}: {check.text} names something that is no parameter"


def test_names_and_numbers_are_taken_once() -> None:
    registry = Registry()
    spec = OPS["relu"]
    registry.add(spec)
    with pytest.raises(ValueError, match=r"relu .*declared twice"):
        registry.add(spec)
    assert registry.by_number(spec.number) is spec
    assert registry.by_number(9999) is None
    numbers = [OPS[name].number for name in OPS]
    assert numbers == sorted(set(numbers))


def test_a_row_must_match_its_function() -> None:
    with pytest.raises(TypeError, match="do not match its parameters"):
        op(9998, inputs={"b": "f32"}, result="b")(lambda a: a)


def test_checks_say_what_they_expect() -> None:
    for check, message in (("a.ne[0] == 1", "a call of a formula"), ("known(a.ne[0])", "what it 'Expects'")):
        with pytest.raises(TypeError, match=message):
            op(9998, inputs={"a": "f32"}, result="a", checks=(check,))(lambda a: a)


@pytest.mark.parametrize("dtype", [dtype for dtype in DType if not dtype.is_quantized])
def test_dtypes(dtype: DType) -> None:
    assert DType.from_torch(dtype.torch) == dtype
    assert torch.empty(0, dtype=dtype.torch).element_size() == dtype.itemsize == dtype.nbytes(1)


@pytest.mark.parametrize("dtype", list(DType))
def test_dtypes_are_as_ggml_has_them(dtype: DType) -> None:
    number = ctypes.c_int(dtype.ggml_type)
    assert ggml_library().ggml_blck_size(number) == dtype.block
    assert ggml_library().ggml_type_size(number) == dtype.nbytes(dtype.block)
    if dtype not in (DType.BOOL, DType.U8):
        assert DType.from_ggml(dtype.ggml_type) == dtype


def ggml_library() -> ctypes.CDLL:
    package = importlib.metadata.distribution("libggml-python").locate_file("libggml")
    (folder,) = Path(str(package)).glob("lib*")
    library = ctypes.CDLL(str(folder / "libggml-base.so"))
    library.ggml_blck_size.restype = ctypes.c_int64
    library.ggml_type_size.restype = ctypes.c_size_t
    return library


def test_rows_of_blocks_are_whole() -> None:
    assert DType.Q4_K.nbytes(512) == 288
    with pytest.raises(ValueError, match="multiple of 256"):
        DType.Q4_K.nbytes(300)


def test_dtypes_without_a_counterpart() -> None:
    assert DType.from_torch(torch.complex64) is None
