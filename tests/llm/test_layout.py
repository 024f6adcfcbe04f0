"""Programs whose quantized matrices are stored as the CPU reads them: the same logits, to the last bit."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from tests.gguf.models import make
from tests.llm import models
from tests.test_isa import ISAS
from torch import Tensor, nn
from torch.nn import functional
from transformers import Qwen3Config, Qwen3ForCausalLM

import executorch_ggml
from executorch_ggml import llm
from executorch_ggml.cli import main
from executorch_ggml.gguf import export_gguf
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.quant import GgmlQuantConfig
from executorch_ggml.runtime import cpu

WEIGHTS = GgmlQuantConfig("q6_k", {"*self_attn.?_proj.weight": "q4_0", "*mlp.*_proj.weight": "q4_k"})
COUNTS = {"q6_k": 1, "q4_0": 2, "q4_k": 2}
"""Matrices of each type. The embedding is the head's too; queries, keys and values are one, gate and up another."""


class Tied(nn.Module):
    """Tokens at positions to logits, by one matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(101, 256)
        self.angle = nn.Parameter(torch.randn(256))

    def forward(self, tokens: Tensor, position: Tensor) -> Tensor:
        at = position + torch.arange(tokens.shape[1])
        return functional.linear(self.embedding(tokens) + torch.sin(at[:, None] * self.angle), self.embedding.weight)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model with matrices of each type, and an embedding in each, in both layouts."""
    folder = tmp_path_factory.mktemp("layouts")
    sizes = {**models.SIZES, "hidden_size": 256, "intermediate_size": 512, "head_dim": 64}
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(Qwen3Config(**sizes, tie_word_embeddings=True)).eval()
    exports = {"model": partial(llm.export, model, max_seq_len=64, weights=WEIGHTS)}
    inputs = torch.zeros(1, 9, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)
    shapes = ({1: torch.export.Dim("tokens", max=64)}, None)
    for dtype in COUNTS:
        exports[dtype] = partial(
            executorch_ggml.export, Tied(), inputs, dynamic_shapes=shapes, weights=GgmlQuantConfig(dtype)
        )
    for name, export in exports.items():
        export().save(str(folder / f"{name}.plain.pte"))
        export(layout="cpu").save(str(folder / f"{name}.cpu.pte"))
    return folder


@pytest.mark.parametrize("isa", ISAS)
def test_logits(isa: str, folder: Path) -> None:
    used = cpu()
    if ISAS.index(isa) > max(ISAS.index(used.kernels), ISAS.index(used.library_isa)):
        pytest.skip(f"this machine has up to {used.kernels}, and its ggml up to {used.library_isa}")
    result = subprocess.run(
        [sys.executable, "-m", "tests.llm.layouts", str(folder)],
        env={**os.environ, "EXECUTORCH_GGML_CPU": isa},
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr


def test_all_matrices_are_stored_so(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is in the file twice."""
    plain, packed = folder / "model.plain.pte", folder / "model.cpu.pte"
    assert main(["inspect", str(packed)]) == 0
    lines = {line for line in capsys.readouterr().out.splitlines() if "constant @" in line}  # of each method
    matrices = {dtype: [line for line in lines if f": {dtype}[" in line] for dtype in COUNTS}
    assert {dtype: len(found) for dtype, found in matrices.items()} == COUNTS
    assert all(line.endswith("stored as PANELS") for found in matrices.values() for line in found)
    assert packed.stat().st_size < 1.1 * plain.stat().st_size  # the last panel of 101 rows is filled up


def test_weights_in_a_file_of_their_own(tmp_path: Path) -> None:
    layer = nn.Linear(256, 48)
    x = (torch.randn(3, 256),)
    results = []
    for layout in (None, "cpu"):
        partitioner = executorch_ggml.GgmlPartitioner(
            weights=GgmlQuantConfig.of("q4_k"), layout=layout, weights_file="weights"
        )
        edge = to_edge_transform_and_lower(torch.export.export(layer, x), partitioner=[partitioner])
        program = edge.to_executorch()
        program.save(str(tmp_path / "model.pte"))
        program.write_tensor_data_to_file(str(tmp_path))
        results.append(executorch_ggml.load(tmp_path / "model.pte", data_path=tmp_path / "weights.ptd")(*x))
    assert torch.equal(*results)


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gguf = tmp_path / "model.gguf"
    export_gguf(make("llama-3-tied"), gguf, types=DType.Q4_0)
    export = ["export", str(gguf), "-o", str(tmp_path / "model.pte"), "--max-seq-len", "32"]
    assert main([*export, "--layout", "cpu"]) == 0
    assert main(["inspect", str(tmp_path / "model.pte")]) == 0
    assert "stored as PANELS" in capsys.readouterr().out
    assert main([*export, "--layout", "cpu", "--external-weights"]) == 1
    assert "--layout cpu is for weights in the program" in capsys.readouterr().err


def test_what_cannot_be_packed_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="layout 'cpu': no matrix of the program is stored in a type that has panels"):
        llm.export(models.make("qwen2").eval(), max_seq_len=16, layout="cpu")
    with pytest.raises(ValueError, match="layout 'cpu': no matrix"):
        executorch_ggml.export(nn.ReLU(), (torch.randn(3),), layout="cpu")
    with pytest.raises(ValueError, match="layout 'gpu', expected one of cpu"):
        executorch_ggml.GgmlPartitioner(layout="gpu")
    export_gguf(make("llama-3-tied"), tmp_path / "x.gguf", types=DType.Q4_0)
    outside = executorch_ggml.gguf.load(tmp_path / "x.gguf", external=True)
    with pytest.raises(ValueError, match=r"layout 'cpu': .* stays in its GGUF file, in ggml's own layout"):
        llm.export(outside.module, max_seq_len=16, weights=outside.weights, layout="cpu")
