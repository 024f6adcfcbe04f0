"""Models as programs with what eager PyTorch gives, to run them in another process: one for each instruction set.

`python -m tests.isa_models FOLDER` runs those of a folder and prints the largest difference of each as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from tests import quick_decompositions, zoo
from torch import nn

import executorch_ggml

if TYPE_CHECKING:  # what runs programs does without ExecuTorch, whose import takes longer than they
    from executorch.exir import ExecutorchProgramManager

# A difference as a part of the largest magnitude. Products with quantized weights round activations to 8 bits, those in
# bf16 both operands.
TOLERANCE = dict.fromkeys(zoo.MODELS, 0.0001) | dict.fromkeys(("mlp_q8_0", "mlp_q4_k", "layers_bf16"), 0.02)


class Exported(NamedTuple):
    """A program, the module that computes the expected outputs, and the inputs of its calls."""

    program: ExecutorchProgramManager
    module: nn.Module
    calls: tuple[tuple[torch.Tensor, ...], ...]


def _of_zoo(name: str) -> Exported:
    model = zoo.load(name, small=True)
    program = executorch_ggml.export(model.module, model.args, dynamic_shapes=model.dynamic_shapes)
    return Exported(program, model.module, (model.args, zoo.resized(model, batch=1, tokens=9)))


def _mlp(quantize: str) -> Exported:
    from executorch_ggml.quant import dequantized

    torch.manual_seed(0)
    mlp = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 256)).eval()
    inputs = (torch.randn(9, 256),)
    rows = torch.export.Dim("rows", max=64)
    program = executorch_ggml.export(mlp, inputs, dynamic_shapes=({0: rows},), quantize=quantize)
    return Exported(program, dequantized(mlp, quantize), (inputs, (torch.randn(1, 256),)))


class _SqueezeExcitation(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.factors = nn.Conv2d(channels, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.factors(x.mean((2, 3), keepdim=True)).sigmoid() * x


def _layers_bf16() -> Exported:
    torch.manual_seed(0)
    layers = nn.Sequential(
        nn.Conv2d(6, 32, 3, padding=1), nn.SiLU(), nn.Conv2d(32, 64, 3, stride=2), nn.ReLU(),
        _SqueezeExcitation(64), nn.Conv2d(64, 48, 1), nn.Flatten(), nn.Linear(48 * 64, 50), nn.GELU(),
        nn.Linear(50, 20), nn.LayerNorm(20), nn.Linear(20, 9),
    ).eval()  # fmt: skip
    inputs = (torch.randn(5, 6, 17, 17),)
    return Exported(executorch_ggml.export(layers, inputs, precision="bf16", report_error=False), layers, (inputs,))


PROGRAMS: dict[str, Callable[[], Exported]] = {
    **{name: partial(_of_zoo, name) for name in zoo.MODELS},
    "mlp_q8_0": partial(_mlp, "q8_0"),
    "mlp_q4_k": partial(_mlp, "q4_k"),
    "layers_bf16": _layers_bf16,
}


def save(folder: Path) -> None:
    """Write every model: its program, and its inputs with eager's outputs. Two processes export."""
    with ProcessPoolExecutor(2, get_context("spawn"), initializer=_begin) as pool:
        list(pool.map(partial(_save, folder), PROGRAMS))


def _begin() -> None:
    quick_decompositions.install()
    torch.set_num_threads(1)


def _save(folder: Path, name: str) -> None:
    program, module, calls = PROGRAMS[name]()
    program.save(str(folder / f"{name}.pte"))
    with torch.no_grad():
        torch.save([(inputs, module(*inputs)) for inputs in calls], folder / f"{name}.pt")


def differences(folder: Path) -> dict[str, float]:
    """Run every program of a folder: its largest difference from eager, as a part of the largest magnitude."""
    worst = {}
    for name in TOLERANCE:
        module = executorch_ggml.load(folder / f"{name}.pte")
        calls = torch.load(folder / f"{name}.pt")
        worst[name] = max(
            float((module(*inputs) - expected).abs().max() / expected.abs().max()) for inputs, expected in calls
        )
    return worst


if __name__ == "__main__":
    print(json.dumps(differences(Path(sys.argv[1]))))
