"""A checkpoint is read tensor by tensor while the program is written: it is not in memory as a whole."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

MIB = 2**20

EXPORT = """
import re, sys, threading
from pathlib import Path
from executorch_ggml.cli import main
from executorch_ggml.cli.checkpoints import pretrained
from executorch_ggml.llm import export

def anonymous():
    return int(re.search(r"Anonymous:\\s+(\\d+) kB", Path("/proc/self/smaps_rollup").read_text())[1]) * 1024

def watch(sizes, done):
    while not done.wait(0.01):
        sizes.append(anonymous())

small, large, output = sys.argv[1:]
export(pretrained(Path(small), dtype="auto"), max_seq_len=16).save(output)  # imports what exporting needs
before = anonymous()
sizes, done = [before], threading.Event()
watcher = threading.Thread(target=watch, args=(sizes, done))
watcher.start()
try:
    export(pretrained(Path(large), dtype="auto"), max_seq_len=16).save(output)
finally:
    done.set()
    watcher.join()
print("grew by", max(sizes) - before)
"""

MALLOC_THRESHOLDS = {"MALLOC_MMAP_THRESHOLD_": str(MIB), "MALLOC_TRIM_THRESHOLD_": str(MIB)}
"""Fixed thresholds for glibc's malloc: by default they grow, up to 64 MiB, and freed memory stays in the heap."""


def checkpoint(path: Path, hidden: int, dtype: torch.dtype) -> Path:
    """Random weights, which are nearly all in matrices of layers."""
    config = LlamaConfig(
        hidden_size=hidden, intermediate_size=4 * hidden, num_hidden_layers=2, num_attention_heads=4, vocab_size=512
    )
    LlamaForCausalLM(config).to(dtype).save_pretrained(path, max_shard_size="50MB")
    return path


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="memory is counted as Linux tells it")
@pytest.mark.parametrize("dtype", [torch.bfloat16, pytest.param(torch.float32, marks=pytest.mark.slow)])
def test_weights_are_not_copied_in_memory(dtype: torch.dtype, tmp_path: Path) -> None:
    small = checkpoint(tmp_path / "small", 64, dtype)
    large = checkpoint(tmp_path / "large", 1280 if dtype == torch.bfloat16 else 1024, dtype)
    size = sum(file.stat().st_size for file in large.glob("*.safetensors"))
    assert size > 100 * MIB
    command = [sys.executable, "-c", EXPORT, str(small), str(large), str(tmp_path / "model.pte")]
    run = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | MALLOC_THRESHOLDS)
    assert (tmp_path / "model.pte").stat().st_size > 0.95 * size
    grew = int(run.stdout.split("grew by")[1])
    assert grew < size / 2, f"{grew / MIB:.0f} MiB for a checkpoint of {size / MIB:.0f} MiB"
