"""``executorch-ggml quantize``: language models to GGUF files and programs, modules to programs, reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.gguf.models import SIZES
from tests.gguf.test_tokenizer import byte_level
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

import executorch_ggml
from executorch_ggml.cli import main
from executorch_ggml.gguf import GgufFile
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.llm import Generator, Tokenizer
from executorch_ggml.quant import Importance

MODEL = """
import torch
from torch import nn

def two():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 32)), (torch.randn(1, 256),)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint with a tied head in ``llama``, a text, a module, and inputs for it."""
    folder = tmp_path_factory.mktemp("quantize")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=byte_level("llama-bpe"), eos_token="<|end|>")
    tokenizer.save_pretrained(folder / "llama")
    torch.manual_seed(0)
    sizes = {
        **SIZES,
        "vocab_size": len(tokenizer),
        "hidden_size": 256,
        "intermediate_size": 256,
        "num_hidden_layers": 1,
    }
    config = LlamaConfig(**sizes, tie_word_embeddings=True, eos_token_id=tokenizer.eos_token_id, bos_token_id=None)
    LlamaForCausalLM(config).save_pretrained(folder / "llama")
    (folder / "text.txt").write_text("Hello world, the quick brown fox. " * 12)
    (folder / "two.py").write_text(MODEL)
    np.save(folder / "x.npy", np.random.default_rng(0).standard_normal((5, 256), np.float32))
    (folder / "batches").mkdir()
    for name in ("a.npy", "b.npy"):
        np.save(folder / "batches" / name, np.ones((2, 256), np.float32))
    return folder


def run(capsys: pytest.CaptureFixture[str], *line: str | Path) -> Any:
    """The JSON object that a command prints."""
    assert main([*map(str, line), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture(scope="module")
def mixed(folder: Path) -> Path:
    """The checkpoint as a GGUF file of a mixture, with the importance matrix and the configuration beside it."""
    file = folder / "mixed.gguf"
    line = ["quantize", folder / "llama", "-o", file, "--type", "q4_k_m", "--keep", "blk.0.attn_q.*=q8_0"]
    line += ["--keep", "*.o_proj.weight", "--calibrate", folder / "text.txt", "--context", "16"]
    line += ["--save-imatrix", folder / "imatrix.gguf", "--save-config", folder / "types.json"]
    assert main([*map(str, line)]) == 0
    return file


def test_a_mixture_with_exceptions(mixed: Path, folder: Path) -> None:
    tensors = GgufFile(mixed).tensors
    assert tensors["token_embd.weight"].dtype == DType.Q6_K  # the head, which is tied to it
    assert tensors["blk.0.attn_q.weight"].dtype == DType.Q8_0
    assert tensors["blk.0.ffn_up.weight"].dtype == DType.Q4_K
    assert tensors["blk.0.attn_output.weight"].dtype == DType.F32
    assert "output.weight" not in tensors
    matrices = Importance.load(folder / "imatrix.gguf").entries
    assert "blk.0.attn_q.weight" in matrices  # llama.cpp's names
    tokens = matrices["blk.0.attn_q.weight"].counts.item()
    assert tokens == len(Tokenizer.load(folder / "llama").encode((folder / "text.txt").read_text()))


def test_importance_matters_and_is_read_back(mixed: Path, folder: Path, tmp_path: Path) -> None:
    """A file quantized by the saved matrix and types is the one that was quantized while it was collected."""
    again, without = tmp_path / "again.gguf", tmp_path / "without.gguf"
    types = ["--type", str(folder / "types.json")]
    assert main(["quantize", str(folder / "llama"), "-o", str(again), *types]) == 0
    plain = json.loads((folder / "types.json").read_text())
    assert plain.pop("importance") == "imatrix.gguf"
    (tmp_path / "plain.json").write_text(json.dumps(plain))
    assert main(["quantize", str(folder / "llama"), "-o", str(without), "--type", str(tmp_path / "plain.json")]) == 0
    contents = [GgufFile(file).tensors["blk.0.ffn_up.weight"].data for file in (mixed, again, without)]
    assert torch.equal(contents[0], contents[1])
    assert not torch.equal(contents[0], contents[2])


def test_a_gguf_file_becomes_a_program(mixed: Path, folder: Path, tmp_path: Path) -> None:
    program = tmp_path / "m.pte"
    line = ["quantize", str(mixed), "-o", str(program), "--type", "q4_k_s", "--max-seq-len", "32"]
    assert main([*line, "--imatrix", str(folder / "imatrix.gguf")]) == 0
    weights = sum(tensor.data.numel() for tensor in GgufFile(mixed).tensors.values())
    assert program.stat().st_size < weights  # some in the file are q8_0 and f32
    assert len(Generator(program).generate("Hello world", max_new_tokens=3)) > 0


def test_a_report_says_size_and_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = run(
        capsys, *("quantize", f"{folder}/two.py:two", "--type", "q4_0", "--report", "--types", "q8_0,q4_0"),
        *("--calibrate", folder / "x.npy"),
    )  # fmt: skip
    names = [tensor["name"] for tensor in said["tensors"]]
    errors = [tensor["error"] for tensor in said["tensors"]]
    assert sorted(names) == ["0.weight", "2.weight"]
    assert errors == sorted(errors, reverse=True)
    assert said["weights_bytes"] == (256 * 64 + 64 * 32) // 32 * 18
    assert said["bits_per_weight"] == 4.5
    assert said["quality"]["positions"] == 5
    assert said["by_type"]["q4_0"]["errors"] == dict(zip(names, errors, strict=True))
    assert said["by_type"]["q8_0"]["errors"]["0.weight"] < errors[0] / 8
    assert said["by_type"]["q8_0"]["bytes"] == (256 * 64 + 64 * 32) // 32 * 34 + 4 * (64 + 32)
    assert main(["quantize", f"{folder}/two.py:two", "--report", "--types", "q8_0,q4_0"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["parameter", "shape", "q8_0", "q4_0"]
    assert lines[-1].startswith("MiB of all parameters")


def test_types_for_an_error_or_a_size(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, program = f"{folder}/two.py:two", tmp_path / "m.pte"
    line = ("quantize", model, "--types", "q4_0,q8_0,f16", "--report", "-o", program, "--check")
    said = run(capsys, *line, "--max-error", "0.01", "--calibrate", folder / "batches", "--dynamic", "batch=1:8")
    assert {tensor["type"] for tensor in said["tensors"]} == {"q8_0"}
    assert 0 < said["error"] < 0.05
    assert executorch_ggml.load(program)(torch.randn(8, 256)).shape == (8, 32)
    said = run(capsys, *line, "--target-size", "11K")
    assert said["weights_bytes"] + 4 * 96 <= 11 * 1024
    assert {tensor["type"] for tensor in said["tensors"]} == {"q4_0"}


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("two.py:two -o {tmp}/x.pte --type q9", 1, "no type or mixture is called 'q9'; there are"),
        ("two.py:two -o {tmp}/x.pte --type q4_k_m", 1, "q4_k_m is a mixture for language models"),
        ("two.py:two -o {tmp}/x.gguf --type q4_k", 2, "GGUF files are of language models"),
        ("two.py:two -o {tmp}/x.pt --type q4_k", 2, "expected a .gguf or a .pte file"),
        ("two.py:two -o {tmp}/x.pte --type q4_k --keep 5.weight=q8_0", 1, "no parameter is called '5.weight'"),
        ("two.py:two -o {tmp}/x.pte --type q4_k --keep 0.weight=q9", 1, "no weight type is called 'q9'"),
        ("two.py:two -o {tmp}/x.pte --type iq2_xxs --keep 2.weight", 1, "0.weight: iq2_xxs needs an importance matrix"),
        ("two.py:two -o {tmp}/x.pte", 2, "--type TYPE, --max-error X or --target-size SIZE"),
        ("two.py:two -o {tmp}/x.pte --type q8_0 --max-error 1", 2, "pass one"),
        ("two.py:two --type q8_0", 2, "there is nothing to do"),
        ("two.py:two --type q8_0 --report --dynamic batch=1:2", 2, "--dynamic is for programs: -o FILE.pte"),
        ("two.py:two -o {tmp}/x.pte --target-size 5X", 2, "'5X': expected a number of bytes"),
        ("two.py:two -o {tmp}/x.pte --target-size 1K", 1, "try smaller types too"),
        ("two.py:two -o {tmp}/x.pte --max-error 0", 1, "no type keeps to an error of 0"),
        ("two.py:two -o {tmp}/x.pte --type q8_0 --calibrate text.txt", 1, "Sequential reads no text alone"),
        ("two.py:two -o {tmp}/x.pte --type q8_0 --imatrix x.npy", 1, "x.npy"),
        ("two.py:two -o {tmp}/x.pte --type q8_0 --imatrix {imatrix}", 1, "was it collected from another one?"),
        ("two.py:two -o {tmp}/x.pte --type q8_0 --calibrate none.npy", 1, "none.npy: no such file"),
        ("llama -o {tmp}/x.gguf --type q8_0 --precision bf16", 2, "--precision is for programs"),
        ("llama -o {tmp}/x.gguf --type q8_0 --dynamic batch=1:2", 2, "--dynamic is not for language models"),
    ],
)
def test_errors_say_what_to_do(
    line: str,
    code: int,
    message: str,
    folder: Path,
    mixed: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    assert main(["quantize", *line.format(tmp=tmp_path, imatrix=folder / "imatrix.gguf").split()]) == code
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
