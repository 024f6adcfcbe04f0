"""Write a small program for run_pte, with an input and the output that PyTorch computes for it.

    python examples/cpp/export_model.py build/model
    build/examples/run_pte build/model.pte --input build/model.input.bin --expect build/model.output.bin

run_pte then says how far its result is from PyTorch's.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
from torch import nn

import executorch_ggml


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description="Write NAME.pte, NAME.input.bin and NAME.output.bin.")
    parser.add_argument("name", type=Path, help="path of the files, without an ending")
    name: Path = parser.parse_args().name

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.1)).eval()
    x = torch.randn(2, 4)
    with torch.no_grad():
        expected = model(x)

    name.parent.mkdir(parents=True, exist_ok=True)
    name.with_suffix(".pte").write_bytes(executorch_ggml.export(model, (x,)).buffer)
    name.with_suffix(".input.bin").write_bytes(x.numpy().tobytes())
    name.with_suffix(".output.bin").write_bytes(expected.numpy().tobytes())
    print(f"wrote {name.with_suffix('.pte')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
