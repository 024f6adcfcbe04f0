"""Models of real shapes with random weights, as GGUF files that this project and llama.cpp both run.

Speed does not depend on what weights are, so each matrix takes its rows from one pool of values, quantized once a type.
"""

from __future__ import annotations

import functools
import math
import zlib
from pathlib import Path
from typing import Any

import torch

from executorch_ggml.gguf import load
from executorch_ggml.gguf.architectures import architecture_for
from executorch_ggml.gguf.mixtures import mixture
from executorch_ggml.gguf.writer import TensorPlan, export_gguf, stored_bytes
from executorch_ggml.ir.dtypes import DType

POOL_ROWS = 1024
DEVIATION = 0.02


def qwen3_06b() -> Any:
    """Qwen3-0.6B's config."""
    from transformers import Qwen3Config

    return Qwen3Config(
        vocab_size=151936,
        hidden_size=1024,
        intermediate_size=3072,
        num_hidden_layers=28,
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=128,
        max_position_embeddings=40960,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 1000000.0},
    )


def llama32_1b() -> Any:
    """Llama-3.2-1B's config."""
    from transformers import LlamaConfig

    return LlamaConfig(
        vocab_size=128256,
        hidden_size=2048,
        intermediate_size=8192,
        num_hidden_layers=16,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=64,
        max_position_embeddings=131072,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        rope_parameters={
            "rope_type": "llama3",
            "rope_theta": 500000.0,
            "factor": 32.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
    )


def tiny() -> Any:
    """A config of nothing real, whose rows are whole blocks of every type."""
    from transformers import Qwen3Config

    return Qwen3Config(
        vocab_size=1024,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
    )


SHAPES = {"qwen3-0.6b": (qwen3_06b, "qwen2"), "llama-3.2-1b": (llama32_1b, "llama-bpe")}
TINY = {"tiny": (tiny, "qwen2")}


def random_gguf(shape: str, quantization: str, folder: Path) -> Path:
    """A model of :data:`SHAPES` or :data:`TINY` in a type or mixture of llama.cpp's: its file, written once."""
    path = folder / f"{shape}-{quantization}.gguf"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".part")
        write(shape, quantization, unfinished)
        unfinished.rename(path)
    return path


def write(shape: str, quantization: str, path: Path) -> None:
    """Write the model."""
    make, split = (SHAPES | TINY)[shape]
    config = make()
    export_gguf(
        empty_module(config),
        path,
        types=mixture(quantization, config),
        name=f"{shape} with random weights",
        metadata=tokenizer(config.vocab_size, split),
        data=random_data,
    )


def empty_module(config: Any) -> Any:
    """The config's module, whose memory is never touched."""
    from transformers import AutoModelForCausalLM
    from transformers.initialization import no_init_weights

    with no_init_weights():
        module = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    module.tie_weights()
    return module


def checkpoint_of(path: Path) -> Any:
    """The module of ``transformers`` with the values of a file that :func:`random_gguf` wrote, in f32."""
    make, _ = (SHAPES | TINY)[path.stem.rpartition("-")[0]]
    config = make()
    module = empty_module(config)
    values = load(path, dequantize=True).module.state_dict()
    for name, parameter in module.named_parameters():
        rows = torch.arange(len(parameter)).reshape(-1, *[1] * (parameter.dim() - 1))
        order = architecture_for(config).stored(name, rows, config).flatten()  # Llama's queries and keys are permuted
        parameter.data[order] = values[name]
    return module


@functools.lru_cache(maxsize=16)
def _pool(dtype: DType, width: int) -> torch.Tensor:
    values = torch.randn(POOL_ROWS, width, generator=torch.Generator().manual_seed(width)) * DEVIATION
    return stored_bytes(values, dtype).reshape(POOL_ROWS, -1)


def random_data(tensor: TensorPlan, dtype: DType) -> torch.Tensor:
    """Ones for vectors; rows of the pool for a matrix, in an order of its own: equal ones would be stored once."""
    if len(tensor.shape) < 2:
        return stored_bytes(torch.ones(tensor.shape), dtype)
    rows = math.prod(tensor.shape[:-1])
    generator = torch.Generator().manual_seed(zlib.crc32(tensor.name.encode()))
    return _pool(dtype, tensor.shape[-1])[torch.randint(POOL_ROWS, (rows,), generator=generator)].reshape(-1)


def tokenizer(size: int, split: str) -> dict[str, Any]:
    """Byte-level BPE with merges of two letters; the rest of the vocabulary is never made from a text."""
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    alphabet = list(bytes_to_unicode().values())
    letters = [*"abcdefghijklmnopqrstuvwxyz", bytes_to_unicode()[ord(" ")]]
    pairs = [(a, b) for a in letters for b in letters[:26]]
    tokens = [*alphabet, *(a + b for a, b in pairs), "<|end|>", "<|begin|>"]
    kinds = [1] * (len(tokens) - 2) + [3, 3]
    tokens += [f"[unused{index}]" for index in range(size - len(tokens))]
    kinds += [1] * (size - len(kinds))
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": split,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.merges": [f"{a} {b}" for a, b in pairs],
        "tokenizer.ggml.eos_token_id": tokens.index("<|end|>"),
        "tokenizer.ggml.bos_token_id": tokens.index("<|begin|>"),
        "tokenizer.ggml.add_bos_token": False,
    }
