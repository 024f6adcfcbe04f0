"""Programs exported here with what eager PyTorch computes, as files that `run_pte` takes on any machine.

`python -m tests.emulators.programs FOLDER [NAME]...` writes those of the given names, or all.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from benchmarks.int8 import calibration, quantized
from tests import isa_models, zoo
from tests.emulators.calls import Call, write_list
from tests.isa_models import Exported
from torch import nn

import executorch_ggml
from executorch_ggml import llm
from executorch_ggml.quant import GgmlQuantConfig, dequantized

# One step of the int8 output scale, where a sum lies between two integers; 8-bit activations for q4_k.
TOLERANCE = {**isa_models.TOLERANCE, "mlp": 1e-5, "mobilenet_v2_int8": 0.01, "llama_q4_k": 0.02}


class Decoder(nn.Module):
    """A causal language model as its program's method is: tokens and the first one's position, to the last logits."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor, _position: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.model(tokens).logits[:, -1]
        return logits


def int8_image_model() -> Exported:
    """MobileNetV2 in int8 by PT2E."""
    model = zoo.load("mobilenet_v2", small=True)
    module = quantized(model.module, calibration(model.args))
    program = executorch_ggml.export(module, model.args)
    return Exported(program, module, (model.args,))


def language_model() -> Exported:
    """A Llama of two layers with weights in q4_k and a key-value cache."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=320, max_position_embeddings=128,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    weights = GgmlQuantConfig.of("q4_k")
    program = llm.export(model, max_seq_len=64, weights=weights)
    tokens = torch.randint(0, config.vocab_size, (1, 12))
    position = torch.zeros(1, dtype=torch.int64)
    calls = ((tokens, position), (tokens[:, :1], position))
    return Exported(program, Decoder(dequantized(model, weights)), calls)


def perceptron() -> Exported:
    """What a runtime for given programs is small with."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10)).eval()
    inputs = (torch.randn(4, 16),)
    return Exported(executorch_ggml.export(model, inputs), model, (inputs,))


PROGRAMS = {
    **isa_models.PROGRAMS,
    "mlp": perceptron,
    "mobilenet_v2_int8": int8_image_model,
    "llama_q4_k": language_model,
}


def write(folder: Path, name: str, tensor: torch.Tensor) -> str:
    """Write a tensor's bytes; the file's name."""
    (folder / name).write_bytes(tensor.contiguous().numpy().tobytes())
    return name


def save(folder: Path, names: Sequence[str]) -> None:
    """Write programs, inputs and expected outputs, and the list of calls."""
    calls = []
    for name in names:
        program, module, all_inputs = PROGRAMS[name]()
        program.save(str(folder / f"{name}.pte"))
        for number, inputs in enumerate(all_inputs):
            with torch.no_grad():
                expected = module(*inputs)
            label = f"{name}.{number}"
            files = [write(folder, f"{label}.input{i}.bin", tensor) for i, tensor in enumerate(inputs)]
            shapes = [list(tensor.shape) for tensor in inputs]
            output = write(folder, f"{label}.output.bin", expected)
            calls.append(Call(label, f"{name}.pte", files, shapes, output, TOLERANCE[name]))
    write_list(folder, calls)


if __name__ == "__main__":
    save(Path(sys.argv[1]), sys.argv[2:] or list(PROGRAMS))
