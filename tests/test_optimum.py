"""``optimum-executorch`` exports a language model with the recipe ``ggml``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import executorch_ggml

pytest.importorskip("optimum.exporters.executorch", reason="pip install optimum-executorch==1.1.0 torch==2.13.0")


def test_command(tmp_path: Path) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    model = LlamaForCausalLM(LlamaConfig(**sizes, vocab_size=100, max_position_embeddings=64)).eval()
    model.save_pretrained(tmp_path / "checkpoint")
    command = ["-m", "executorch_ggml.optimum", "export", "executorch", "--task", "text-generation", "--recipe", "ggml"]
    files = ["--model", str(tmp_path / "checkpoint"), "--output_dir", str(tmp_path), "--max_seq_len", "64"]
    subprocess.run([sys.executable, *command, *files], check=True)
    program = executorch_ggml.load(tmp_path / "model.pte")
    tokens = torch.tensor([[1, 5, 7, 9, 3]])
    with torch.no_grad():
        expected = model(tokens).logits
    torch.testing.assert_close(program(tokens[:, :4], torch.arange(4)), expected[:, :4], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(program(tokens[:, 4:], torch.tensor([4])), expected[:, 4:], rtol=1e-4, atol=1e-5)
