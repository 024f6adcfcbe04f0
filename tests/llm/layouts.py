"""Runs programs whose quantized matrices are stored plainly and as the CPU reads them: what test_layout.py starts.

`python -m tests.llm.layouts FOLDER` compares them on the instruction set that EXECUTORCH_GGML_CPU names. It imports
neither `transformers` nor ExecuTorch, which would take most of its time.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

import executorch_ggml


def logits(path: Path) -> list[torch.Tensor]:
    """A program's logits of a text and of one token after it."""
    module = executorch_ggml.load(path)
    text = torch.randint(3, 101, (1, 20), generator=torch.Generator().manual_seed(0))
    return [module(text, torch.tensor([0])), module(text[:, :1], torch.tensor([20]))]


def check(folder: Path) -> None:
    """Raise where the layout changes a number."""
    for path in folder.glob("*.plain.pte"):
        name = path.name.removesuffix(".plain.pte")
        for plain, packed in zip(logits(path), logits(folder / f"{name}.cpu.pte"), strict=True):
            assert torch.equal(plain, packed), f"{name}: off by {(plain - packed).abs().max()}"
            assert plain.isfinite().all()


if __name__ == "__main__":
    check(Path(sys.argv[1]))
