"""The models that are shown on every device, each as a program of ours and as a GGUF file for a program of ggml's."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from examples.demo_support import sentences
from tests import zoo
from torch import Tensor, nn
from torch.export import Dim
from torch.nn.utils.fusion import fuse_conv_bn_eval

import executorch_ggml

if TYPE_CHECKING:
    Arrays = Mapping[str, np.ndarray[Any, Any]]

TOKENS = 128
CACHE_STEP = 64  # positions that the key-value cache grows by
HIDDEN = -np.inf


@dataclass(frozen=True)
class Files:
    """A model on disk: what a program of ours and one of ggml's need, and the answer that eager gives."""

    name: str
    pte: Path
    args: Path
    gguf: Path
    inputs: Path
    expected: np.ndarray[Any, Any]


@dataclass(frozen=True)
class Described:
    """A model in both forms."""

    model: zoo.Model
    args: tuple[Tensor, ...]
    write: Callable[[Path], None]
    inputs: Arrays


def write(name: str, folder: Path, *, small: bool = False) -> Files:
    """Write a model's files into a folder."""
    made = MODELS[name](small)
    with torch.inference_mode():
        expected = made.model.module(*made.args)
    files = Files(
        name,
        folder / f"{name}.pte",
        folder / f"{name}.args",
        folder / f"{name}.gguf",
        folder / f"{name}.inputs.gguf",
        expected.numpy(),
    )
    program = executorch_ggml.export(made.model.module, made.model.args, dynamic_shapes=made.model.dynamic_shapes)
    program.save(str(files.pte))
    torch.save(made.args, files.args)
    made.write(files.gguf)
    _write_gguf(files.inputs, "inputs", {}, made.inputs)
    return files


def _write_gguf(path: Path, architecture: str, metadata: Mapping[str, float], tensors: Arrays) -> None:
    import gguf

    writer = gguf.GGUFWriter(os.fspath(path), architecture)
    for key, value in metadata.items():
        add = writer.add_uint32 if isinstance(value, int) else writer.add_float32
        add(f"{architecture}.{key}", value)
    for name, array in tensors.items():
        writer.add_tensor(name, np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# ---------------------------------------------------------------------------------------------------------------- llama


def llama(small: bool) -> Described:
    """A Llama's prompt. The ggml program reads all but its last token into a cache, then the last as a step."""
    from executorch_ggml.gguf import export_gguf
    from executorch_ggml.ir.dtypes import DType

    model = zoo.llama(small)
    count = 12 if small else TOKENS
    (args,) = zoo.resized(model, tokens=count)
    tokens = args[0].numpy()
    context = -(-count // CACHE_STEP) * CACHE_STEP
    positions = np.arange(count)
    mask = np.where(np.arange(context) <= positions[:, None], 0.0, HIDDEN).astype(np.float32)

    def write(path: Path) -> None:
        decoder: Any = model.module.get_submodule("decoder")
        export_gguf(decoder, path, types=DType.F32, metadata={"tokenizer.ggml.model": "no_vocab"})

    inputs: dict[str, np.ndarray[Any, Any]] = {
        "prompt.tokens": tokens[:-1].astype(np.int32),
        "prompt.positions": positions[:-1].astype(np.int32),
        "prompt.rows": positions[:-1].astype(np.int64),
        "prompt.mask": mask[:-1],
        "step.tokens": tokens[-1:].astype(np.int32),
        "step.positions": positions[-1:].astype(np.int32),
        "step.rows": positions[-1:].astype(np.int64),
        "step.mask": mask[-1:],
    }
    return Described(model, (args,), write, inputs)


# -------------------------------------------------------------------------------------------------------------- encoder


def encoder(small: bool) -> Described:
    """The sentence encoder of the demo on its sentences; a small one has random weights."""
    if small or not sentences.is_installed():
        drawn = zoo.bert(small)
        module = sentences.SentenceEncoder(drawn.module.get_submodule("bert")).eval()
        model = zoo.Model(module, drawn.args, drawn.dynamic_shapes)
    else:
        args = sentences.tokenize()
        dims = {0: Dim("batch", min=1, max=32), 1: Dim("tokens", min=2, max=256)}
        model = zoo.Model(sentences.load_encoder(), args, (dims, dims))
    ids, mask = (array.numpy() for array in model.args)
    batch, count = ids.shape
    shares = (mask / mask.sum(1, keepdims=True)).astype(np.float32)
    hidden = np.broadcast_to(np.where(mask[:, None, None, :] != 0, 0.0, HIDDEN), (batch, 1, count, count))
    inputs: dict[str, np.ndarray[Any, Any]] = {
        "tokens": ids.reshape(-1).astype(np.int32),
        "positions": np.tile(np.arange(count, dtype=np.int32), batch),
        "types": np.zeros(batch * count, np.int32),
        "mask": hidden.astype(np.float32),
        "shares": shares[:, None, :],
    }
    return Described(model, model.args, lambda path: _write_bert(model.module.get_submodule("bert"), path), inputs)


_BERT = {
    "embeddings.word_embeddings": "token_embd",
    "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types",
    "embeddings.LayerNorm": "token_embd_norm",
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}


def _write_bert(bert: Any, path: Path) -> None:
    """With llama.cpp's names."""
    tensors = {}
    for name, parameter in bert.named_parameters():
        module, _, kind = name.rpartition(".")
        prefix = ""
        if module.startswith("encoder.layer."):
            _, _, number, module = module.split(".", 3)
            prefix = f"blk.{number}."
        tensors[f"{prefix}{_BERT[module]}.{kind}"] = parameter.detach().float().numpy()
    config = bert.config
    metadata = {
        "block_count": config.num_hidden_layers,
        "embedding_length": config.hidden_size,
        "attention.head_count": config.num_attention_heads,
        "attention.layer_norm_epsilon": float(config.layer_norm_eps),
    }
    _write_gguf(path, "bert", metadata, tensors)


# --------------------------------------------------------------------------------------------------------------- resnet


def resnet(small: bool) -> Described:
    """The ResNet-18 of torchvision on an image; in the file its batch norms are part of the convolutions."""
    model = zoo.resnet18(small)
    args = zoo.resized(model, batch=1)
    return Described(model, args, lambda path: _write_resnet(model.module, path), {"pixels": args[0].numpy()})


def _write_resnet(module: Any, path: Path) -> None:
    layers: dict[str, nn.Module] = {"conv1": fuse_conv_bn_eval(module.conv1, module.bn1), "fc": module.fc}
    for stage in range(1, 5):
        for number, block in enumerate(getattr(module, f"layer{stage}")):
            name = f"layer{stage}.{number}"
            layers[f"{name}.conv1"] = fuse_conv_bn_eval(block.conv1, block.bn1)
            layers[f"{name}.conv2"] = fuse_conv_bn_eval(block.conv2, block.bn2)
            if block.downsample is not None:
                layers[f"{name}.downsample"] = fuse_conv_bn_eval(*block.downsample)
    tensors = {
        f"{name}.{kind}": parameter.detach().numpy()
        for name, layer in layers.items()
        for kind, parameter in layer.named_parameters()
    }
    _write_gguf(path, "resnet", {}, tensors)


MODELS: dict[str, Callable[[bool], Described]] = {"llama": llama, "encoder": encoder, "resnet18": resnet}
