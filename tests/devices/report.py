"""What models do on ggml's devices: splits, nodes on the device, bytes that cross in a call, and errors against eager.

    python -m tests.devices.report                            on the stand-ins for CUDA and Vulkan
    python -m tests.devices.report --model vit --device cpu   one model on one device; both may be repeated
    python -m tests.devices.report --device Vulkan0           after `make vulkan`
    python -m tests.devices.report --device 'RPC[127.0.0.1:50052]' --json

Each model runs in a process of its own: what ends it (ggml's assertions do) is a row too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from executorch.exir import ExecutorchProgramManager
from tests import quick_decompositions, zoo
from tests.devices import standin_device
from tests.llm import models
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen3Config,
    Qwen3ForCausalLM,
    WhisperConfig,
    WhisperForConditionalGeneration,
)

import executorch_ggml
from executorch_ggml import llm
from executorch_ggml.ir.codec import dequantize, quantize
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.partition.placement import placement
from executorch_ggml.quant import GgmlQuantConfig
from executorch_ggml.runtime import Placement, load, set_device
from executorch_ggml.runtime.session import PROLOGUE

ROOT = Path(__file__).resolve().parents[2]
VULKAN = Path(sys.prefix) / "ggml-vulkan" / "libggml-vulkan.so"
DEFAULT_DEVICES = ("standin:cuda", "standin:vulkan")
SECONDS = 300


@dataclass
class Row:
    """One method of a model on one device. ``error`` is relative to the largest number of eager's answer."""

    model: str
    method: str
    device: str
    splits: int = 0
    on_device: int = 0
    in_prologue: int = 0
    nodes: int = 0
    bytes_to_device: int = 0
    bytes_from_device: int = 0
    error: float | None = None
    failure: str = ""
    on_cpu: dict[str, int] = field(default_factory=dict)
    """How many nodes the CPU computes that are no prologue, by op and reason."""


@dataclass
class Subject:
    """A program, and what compares its answers on a device with eager's: by method, the largest relative error."""

    program: ExecutorchProgramManager
    errors: Callable[[Path], Mapping[str, float]]


def relative_error(actual: Any, expected: Any) -> float:
    """The largest difference over the largest magnitude; infinite where the shapes or what is finite differ."""
    worst = 0.0
    pairs = zip(_as_tuple(actual), _as_tuple(expected), strict=True)
    for a, e in ((torch.as_tensor(a), torch.as_tensor(e)) for a, e in pairs):
        if a.shape != e.shape or not torch.isfinite(a.float()).all():
            return float("inf")
        scale = float(e.float().abs().max()) or 1.0
        worst = max(worst, float((a.float() - e.float()).abs().max()) / scale)
    return worst


def _as_tuple(outputs: Any) -> tuple[Any, ...]:
    return tuple(outputs) if isinstance(outputs, (tuple, list)) else (outputs,)


# ------------------------------------------------------------------------------------------------------------ models


def _of_zoo(name: str) -> Subject:
    model = zoo.load(name, small=True)
    program = executorch_ggml.export(model.module, model.args, dynamic_shapes=model.dynamic_shapes)
    with torch.no_grad():
        expected = model.module(*model.args)
    return Subject(program, lambda path: {"forward": relative_error(load(path)(*model.args), expected)})


HEADS: dict[str, Any] = {  # 64 numbers a head, which every device's attention takes
    "vocab_size": 256,
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "max_position_embeddings": 512,
}
PROMPT = [5, 17, 3, 99, 42, 7, 250]
NEXT = [11, 200, 31]


def _llama() -> PreTrainedModel:
    return LlamaForCausalLM(LlamaConfig(**HEADS))


def _qwen3() -> PreTrainedModel:
    return Qwen3ForCausalLM(Qwen3Config(**HEADS))


def _language_model(make: Callable[[], PreTrainedModel], cache_type: Any, weights: DType | None) -> Subject:
    """Its prompt, then one token after the other, then all of it again; eager has the weights as they are rounded."""
    torch.manual_seed(0)
    model = make().eval()
    config = None if weights is None else GgmlQuantConfig(weights.name.lower())
    program = llm.export(model, max_seq_len=512, chunk=64, cache_type=cache_type, weights=config)
    if weights is not None:
        for layer in (
            module for module in model.modules() if isinstance(module, (torch.nn.Linear, torch.nn.Embedding))
        ):
            layer.weight.data = dequantize(quantize(layer.weight, weights), weights, layer.weight.shape)
    return Subject(program, lambda path: {"forward": _worst_of_turns(llm.Generator(path), model)})


def _encoder_decoder(make: Callable[[], PreTrainedModel], source_shape: Sequence[int]) -> Subject:
    """The same behind what the encoder gives: for features, or for tokens where the shape has one dim."""
    torch.manual_seed(0)
    model = make().eval()
    lengths: dict[str, Any] = {} if len(source_shape) > 1 else {"max_source_len": source_shape[0] + 9}
    program = llm.export(model, max_seq_len=64, chunk=16, cache_type="f16", **lengths)
    source = torch.randn(1, *source_shape) if not lengths else torch.randint(3, 100, (1, *source_shape))
    return Subject(program, lambda path: {"forward": _worst_of_turns(llm.Generator(path), model, source)})


def _worst_of_turns(generator: llm.Generator, model: PreTrainedModel, source: torch.Tensor | None = None) -> float:
    prompt, following = ([token % model.config.vocab_size for token in tokens] for tokens in (PROMPT, NEXT))

    def logits(tokens: Sequence[int]) -> torch.Tensor:
        ids = torch.tensor([tokens])
        inputs = {"input_ids": ids} if source is None else {model.main_input_name: source, "decoder_input_ids": ids}
        with torch.no_grad():
            result: torch.Tensor = model(**inputs).logits[0, -1]
        return result

    worst = 0.0
    for _ in range(2):
        if source is not None:
            generator.encode(source[0].numpy())
        worst = max(worst, relative_error(generator.feed(prompt), logits(prompt)))
        for count in range(1, len(following) + 1):
            expected = logits(prompt + following[:count])
            worst = max(worst, relative_error(generator.feed(following[count - 1 : count]), expected))
        generator.reset()
    return worst


def _whisper() -> PreTrainedModel:
    config = WhisperConfig(
        vocab_size=256,
        num_mel_bins=80,
        d_model=128,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=256,
        decoder_ffn_dim=256,
        max_source_positions=50,
        max_target_positions=64,
        decoder_start_token_id=3,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    return WhisperForConditionalGeneration(config)


SOURCES: dict[str, Sequence[int]] = {"whisper": (8, 60)}
"""What encoders of families read where it is no tokens."""

ZOO = ("bert", "llama", "vit", "resnet18", "mobilenet_v2", "unet", "lstm", "gru")
"""Those of benchmarks.models."""

MODELS: dict[str, Callable[[], Subject]] = {
    **{name: partial(_of_zoo, name) for name in ZOO},
    "llama_f32": lambda: _language_model(_llama, "f32", None),
    "llama_f16": lambda: _language_model(_llama, "f16", None),
    "llama_q8_0": lambda: _language_model(_llama, "q8_0", None),
    "qwen3_q4_k": lambda: _language_model(_qwen3, "f16", DType.Q4_K),
    "whisper": lambda: _encoder_decoder(_whisper, (80, 100)),
    **{f"family_{name}": partial(_language_model, partial(models.make, name), "f16", None) for name in models.FAMILIES},
    **{
        f"family_{name}": partial(_encoder_decoder, partial(models.make, name), SOURCES.get(name, (17,)))
        for name in models.ENCODER_DECODERS
    },
}


# ---------------------------------------------------------------------------------------------------------- measuring


def rows(model: str, subject: Subject, device: str, path: Path) -> list[Row]:
    """A row for each method of a saved program; "prefill" and "decode" of language models are names of "forward"."""
    methods = sorted(set(subject.program.methods) - {"prefill"})
    set_device(device)
    try:
        errors = subject.errors(path)
        failure = ""
    except (RuntimeError, ValueError) as error:
        errors, failure = {}, str(error).splitlines()[0]
    finally:
        set_device("")
    measured = []
    for method in methods:
        row = Row(model, method, device, error=errors.get(method), failure=failure)
        try:
            program = subject.program.exported_program(method)
            _place(row, placement(program, device, smallest=method == "decode"))
        except RuntimeError as error:
            row.failure = row.failure or str(error).splitlines()[0]
        measured.append(row)
    return measured


def _place(row: Row, placed: Placement) -> None:
    row.splits, row.on_device, row.nodes = placed.splits, placed.on_device, len(placed.nodes)
    row.in_prologue = placed.in_prologue
    row.bytes_to_device, row.bytes_from_device = placed.bytes_to_device, placed.bytes_from_device
    for node in placed.nodes:
        if node.reason not in ("", PROLOGUE):
            what = f"{node.op}: {node.reason}"
            row.on_cpu[what] = row.on_cpu.get(what, 0) + 1


def work(model: str, devices: Sequence[str]) -> None:
    """Print a line of JSON for each row as it is known."""
    quick_decompositions.install()
    subject = MODELS[model]()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.pte"
        subject.program.save(str(path))
        for device in devices:
            print(json.dumps({"begins": device}), flush=True)
            for row in rows(model, subject, device, path):
                print(json.dumps(asdict(row)), flush=True)


def measure(model: str, devices: Sequence[str]) -> list[Row]:
    """The rows of a model, from processes that begin again behind a device that ends them."""
    measured: list[Row] = []
    left = list(devices)
    while left:
        code, said, lines = _worker(model, left)
        measured += [Row(**line) for line in lines if "begins" not in line]
        if code == 0:
            break
        begun = [line["begins"] for line in lines if "begins" in line]
        failed = begun[-1] if begun else left[0]
        reason = ([line for line in said if "GGML_ASSERT" in line] or said)[-1].strip()
        measured.append(Row(model, "", failed, failure=f"ended with {code}: {reason}"))
        left = left[left.index(failed) + 1 :] if begun else []
    return measured


def _worker(model: str, devices: Sequence[str]) -> tuple[int, list[str], list[dict[str, Any]]]:
    """A process that measures: how it ended, what it said on stderr, and its lines of JSON."""
    command = [sys.executable, "-m", "tests.devices.report", "--worker", "--model", model]
    command += [word for device in devices for word in ("--device", device)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environment(devices)
    ) as process:
        try:
            out, errors = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            out, errors = process.communicate()
            errors += f"\nkilled after {SECONDS} seconds"
    said = [line for line in errors.splitlines() if line.strip() and "Warning" not in line]
    return process.returncode, said or ["nothing said"], [json.loads(x) for x in out.splitlines() if x.startswith("{")]


def environment(devices: Sequence[str]) -> dict[str, str]:
    """The variables that bring the devices' libraries."""
    added: dict[str, str] = {}
    if any(device.startswith("standin:") for device in devices):
        library = standin_device.library()
        if library is None:
            raise SystemExit("the stand-in device is not built: run `make setup`")
        added["GGML_BACKEND_PATH"] = str(library)
    elif any(device.startswith("Vulkan") for device in devices):
        if not VULKAN.exists():
            raise SystemExit("ggml-vulkan is not built: run `make vulkan`")
        added = {"GGML_BACKEND_PATH": str(VULKAN), "GGML_VK_VISIBLE_DEVICES": "0"}
    return {**os.environ, "OMP_NUM_THREADS": "1", "GGML_NO_BACKTRACE": "1", **added}


def table(measured: Sequence[Row]) -> str:
    """The rows for people."""
    head = ("model", "method", "device", "splits", "on device", "before it", "to device", "from device", "error")
    cells = [head]
    for row in measured:
        if row.failure and not row.nodes:
            cells.append((row.model, row.method, row.device, "", "", "", "", "", row.failure[:110]))
            continue
        error = (
            row.failure[:110] if row.error is None and row.failure else "" if row.error is None else f"{row.error:.1e}"
        )
        counts = (
            str(row.splits),
            f"{row.on_device}/{row.nodes}",
            str(row.in_prologue),
            f"{row.bytes_to_device:,}",
            f"{row.bytes_from_device:,}",
        )
        cells.append((row.model, row.method, row.device, *counts, error))
    widths = [max(len(line[i]) for line in cells) for i in range(len(head) - 1)]
    return "\n".join("  ".join([*(c.ljust(w) for c, w in zip(line, widths, strict=False)), line[-1]]) for line in cells)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", action="append", choices=MODELS, help="a model; repeatable (all)")
    parser.add_argument("--device", action="append", help=f"a device; repeatable ({', '.join(DEFAULT_DEVICES)})")
    parser.add_argument("--json", action="store_true", help="print rows as JSON, with the reasons of nodes on the CPU")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    models: Sequence[str] = options.model or tuple(MODELS)
    devices: Sequence[str] = options.device or DEFAULT_DEVICES
    if options.worker:
        for model in models:
            work(model, devices)
        return 0
    measured = [row for model in models for row in measure(model, devices)]
    print(json.dumps([asdict(row) for row in measured], indent=1) if options.json else table(measured))
    return 0


if __name__ == "__main__":
    sys.exit(main())
