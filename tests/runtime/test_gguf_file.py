"""Reading GGUF files: what is in them, and every way in which one can be wrong."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.gguf.models import ARRAY, F32, STRING, FileMaker

import gguf
from executorch_ggml.gguf import GgufError, GgufFile
from executorch_ggml.ir.dtypes import DType


def small() -> FileMaker:
    maker = FileMaker().string("general.architecture", "llama").number("llama.block_count", 1)
    return maker.tensor("token_embd.weight", [32, 2], 8, data=bytes(range(68))).tensor("n", [4], 0, data=bytes(16))


def test_reads_what_the_gguf_package_writes(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint32("llama.block_count", 3)
    writer.add_float32("llama.rope.freq_base", 0.1)
    writer.add_bool("tokenizer.ggml.add_bos_token", True)
    writer.add_int64("x.large", -(2**40))
    writer.add_uint8("x.small", 255)
    writer.add_array("tokenizer.ggml.tokens", ["a", "é", "▁▁"])
    writer.add_array("tokenizer.ggml.scores", [0.5, -1.0, 2.0])
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    writer.add_tensor("w", values)
    quantized = np.arange(4 * 34, dtype=np.uint8).reshape(2, 2, 34)
    writer.add_tensor("q", quantized, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    file = GgufFile(path)
    assert file.architecture == "llama"
    assert file.field("llama.block_count", int) == 3
    assert file.field("llama.rope.freq_base", float) == np.float32(0.1)
    assert file.field("tokenizer.ggml.add_bos_token", bool) is True
    assert (file.metadata["x.large"], file.metadata["x.small"]) == (-(2**40), 255)
    assert file.values("tokenizer.ggml.tokens", str) == ["a", "é", "▁▁"]
    assert file.values("tokenizer.ggml.scores", float) == [0.5, -1.0, 2.0]
    w, q = file.tensors["w"], file.tensors["q"]
    assert (w.dtype, w.shape, q.dtype, q.shape) == (DType.F32, (3, 4), DType.Q8_0, (2, 2, 32))
    assert torch.equal(w.data.view(torch.float32).reshape(3, 4), torch.from_numpy(values))
    assert q.data.numpy().tobytes() == quantized.tobytes()


def test_tensors_outlive_the_file(tmp_path: Path) -> None:
    data = GgufFile(small().write(tmp_path / "x.gguf")).tensors["token_embd.weight"].data
    assert data.numpy().tobytes() == bytes(range(68))
    assert data.data_ptr() % 32 == 0


def test_the_id_tells_files_apart(tmp_path: Path) -> None:
    first = GgufFile(small().write(tmp_path / "a.gguf")).id
    assert GgufFile(small().write(tmp_path / "b.gguf")).id == first
    other = small()
    other.data = bytes([1]) + other.data[1:]
    assert GgufFile(other.write(tmp_path / "c.gguf")).id != first
    assert GgufFile(small().number("x", 1).write(tmp_path / "d.gguf")).id != first


Damage = Callable[[FileMaker], object]


def array(kind: int, count: int, rest: bytes = b"") -> bytes:
    return struct.pack("<IQ", kind, count) + rest


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda m: setattr(m, "magic", b"GGML"), "does not start with GGUF"),
        (lambda m: setattr(m, "version", 1), "GGUF version 1, expected 2 or 3"),
        (lambda m: setattr(m, "version", 3 << 24), "big-endian"),
        (lambda m: setattr(m, "counts", (2, 2**63)), "9223372036854775808 metadata entries are said"),
        (lambda m: setattr(m, "counts", (2**62, 2)), "tensors are said to be in a file"),
        (lambda m: setattr(m, "counts", (2, 1)), "tensor llama.block_count is of ggml type"),
        (lambda m: m.entry("x", 13, b""), "metadata x is of type #13"),
        (lambda m: m.entry("x", ARRAY, array(13, 1)), "metadata x is of type #13"),
        (lambda m: m.entry("x", ARRAY, array(ARRAY, 1)), "an array of arrays"),
        (lambda m: m.entry("x", ARRAY, array(F32, 2**62)), "ends within metadata x"),
        (lambda m: m.entry("x", ARRAY, array(STRING, 2**60)), "ends within metadata x"),
        (lambda m: m.entry("x", STRING, struct.pack("<Q", 2**63)), "ends within metadata x"),
        (lambda m: m.entry("x", STRING, struct.pack("<Q", 2**64 - 1)), "ends within metadata x"),
        (lambda m: m.number("", 1), "a name that is empty"),
        (lambda m: m.number("a\nb", 1), "not text"),
        (lambda m: m.number("llama.block_count", 1), "llama.block_count is there twice"),
        (lambda m: m.number("general.alignment", 48), "alignment is 48, expected a power of two"),
        (lambda m: m.number("general.alignment", 0), "alignment is 0"),
        (lambda m: m.string("general.alignment", "32"), "general.alignment is no u32"),
        (lambda m: m.tensor("n", [4], data=bytes(16)), "tensor n is there twice"),
        (lambda m: m.tensor("\xff" * 3, [4], offset=2**40), "tensor ÿÿÿ: its 16 bytes at offset"),
        (lambda m: m.tensor("t", [4], offset=2**64 - 32), "tensor t: its 16 bytes"),
        (lambda m: m.tensor("t", [1 << 40], offset=0), "tensor t: its 4398046511104 bytes"),
        (lambda m: m.tensor("t", [1 << 31, 1 << 31, 1 << 31], offset=0), "tensor t: dim [12] of 2147483648"),
        (lambda m: m.tensor("t", [-4], offset=0), "tensor t: dim 0 has -4 elements"),
        (lambda m: m.tensor("t", [4, 0], offset=0), "tensor t: dim 1 has 0 elements"),
        (lambda m: m.tensor("t", [1] * 5, offset=0), "tensor t has 5 dims"),
        (lambda m: m.tensor("t", [4], offset=4), "tensor t lies at offset 4, not a multiple"),
        (lambda m: m.tensor("t", [4], kind=99, offset=0), "tensor t is of ggml type #99"),
        (lambda m: m.tensor("t", [4], kind=4, offset=0), "tensor t is of ggml type #4"),
        (lambda m: m.tensor("t", [8], offset=64), "tensors token_embd.weight and t overlap"),
        (lambda m: m.tensor("t", [33], kind=8, offset=0), "rows of 33 elements, and q8_0 comes in blocks of 32"),
        (lambda m: m.number("split.count", 3), "one part of 3"),
        (lambda m: m.string("split.count", "3"), "split.count is a str, expected a int"),
    ],
)
def test_damage_is_named(tmp_path: Path, damage: Damage, message: str) -> None:
    maker = small()
    damage(maker)
    path = maker.write(tmp_path / "x.gguf")
    with pytest.raises(GgufError, match=message) as caught:
        GgufFile(path)
    assert str(path) in str(caught.value)


def test_every_truncation_is_an_error(tmp_path: Path) -> None:
    whole = small().bytes()
    path = tmp_path / "x.gguf"
    for size in range(len(whole) - 16):  # the last tensor ends 16 bytes before the file
        path.write_bytes(whole[:size])
        with pytest.raises(GgufError):
            GgufFile(path)


def test_random_damage_is_an_error_or_a_file(tmp_path: Path) -> None:
    draw, path = random.Random(0), tmp_path / "x.gguf"
    whole = small().bytes()
    for _ in range(2000):
        damaged = bytearray(whole)
        for _ in range(draw.randint(1, 3)):
            damaged[draw.randrange(len(damaged))] = draw.choice((0, 1, 127, 128, 255, draw.randrange(256)))
        path.write_bytes(damaged)
        try:
            file = GgufFile(path)
        except GgufError:
            continue
        for tensor in file.tensors.values():
            assert tensor.data.sum() >= 0
        assert file.metadata


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no.gguf: no such GGUF file"):
        GgufFile(tmp_path / "no.gguf")
    with pytest.raises(GgufError, match="not a file"):
        GgufFile(tmp_path)
    (tmp_path / "empty.gguf").write_bytes(b"")
    with pytest.raises(GgufError, match="the file is empty"):
        GgufFile(tmp_path / "empty.gguf")


def test_fields_are_checked(tmp_path: Path) -> None:
    maker = small().entry("a.nan", F32, struct.pack("<f", float("nan")))
    maker.entry("a.list", ARRAY, array(STRING, 1, FileMaker.text("x")))
    file = GgufFile(maker.write(tmp_path / "x.gguf"))
    with pytest.raises(GgufError, match=r"metadata a.nan is nan"):
        file.field("a.nan", float)
    with pytest.raises(GgufError, match=r"metadata a.list is a list, expected a int"):
        file.field("a.list", int)
    with pytest.raises(GgufError, match=r"metadata a.none is missing"):
        file.field("a.none", int)
    with pytest.raises(GgufError, match=r"metadata a.list has a str in it"):
        file.values("a.list", int)
    assert file.field("a.none", int, 3) == 3


def test_types_that_no_weight_can_have(tmp_path: Path) -> None:
    file = GgufFile(FileMaker().tensor("t", [4], kind=26, data=bytes(16)).write(tmp_path / "x.gguf"))
    with pytest.raises(GgufError, match=r"tensor t is of ggml type #26, .* q4_k"):
        _ = file.tensors["t"].dtype
