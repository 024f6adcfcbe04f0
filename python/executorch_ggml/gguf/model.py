"""A ``transformers`` module from a GGUF file alone."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ..frontends.aten.weights import VALUES_ELSEWHERE, check_values
from ..runtime.gguf_file import GgufError, GgufFile, GgufTensor, weight_type
from .architectures import Architecture, architecture_of
from .tokenizer import special_ids
from .weights import GgufWeights, values_of

_FILE = "executorch_ggml_gguf"  # attribute of modules that compute with tensors as their file has them
# Entries that change what a model computes in ways that no family here knows.
_CHANGES = (
    "attention.clamp_kqv",
    "attention.max_alibi_bias",
    "attention.scale",
    "embedding_scale",
    "logit_scale",
    "residual_scale",
    "router_logit_softcapping",
)
_LAYER = re.compile(r"blk\.(\d+)\.")


@dataclass(frozen=True)
class GgufModel:
    """A rebuilt model.

    ``module`` is the ``transformers`` causal LM. Unless it was loaded with ``dequantize=True``, only its norms and
    biases hold their values; the other parameters are memory that was never touched (and so takes none), for export
    with ``weights``, which has them as the file does. Such a module cannot be called.
    """

    file: GgufFile
    module: Any
    weights: GgufWeights


def load(
    path: str | os.PathLike[str] | GgufFile,
    *,
    dequantize: bool = False,
    external: bool = False,
) -> GgufModel:
    """Rebuild the module that a GGUF file holds, from its metadata and tensors.

    With ``dequantize`` the module holds all values, in f32, and runs eagerly. With ``external`` programs leave the
    weights in the file (see :class:`GgufWeights`).

    Raises GgufError where the file is damaged, its architecture is not known, or its tensors are not those that its
    metadata asks for.
    """
    file = path if isinstance(path, GgufFile) else GgufFile(path)
    architecture = architecture_of(file)
    _check_layers(file)
    _check_changes(file)
    config, skeleton = _skeleton(file, architecture)
    tensors = _match(file, architecture, skeleton)
    module = _module(config, architecture)
    architecture.adapt(module, file)
    setattr(module, _FILE, file)
    _fill(module, tensors, everything=dequantize)
    if not dequantize:
        setattr(module, VALUES_ELSEWHERE, file.path)
        module.register_forward_pre_hook(_refuse_call)
    if not dequantize or not architecture.is_plain:
        module.save_pretrained = functools.partial(_refuse_save, file)
    return GgufModel(file, module.eval(), GgufWeights(tensors, external=external, replaces=not dequantize))


def _refuse_call(module: Any, args: Any) -> None:
    """Values that are not there give no answers; where a module is traced, they are not asked for."""
    del args
    if not torch.compiler.is_compiling():
        check_values(module)


def _refuse_save(file: GgufFile, *args: Any, **options: Any) -> None:
    """A checkpoint would lack values, or hold them as this file does, and ``transformers`` compute something else."""
    del args, options
    raise ValueError(
        f"the module of {file.path} computes with tensors as the file has them, which no checkpoint can say: keep the "
        f"file, write another (executorch-ggml export-gguf), or export the module"
    )


def file_of(module: Any) -> GgufFile | None:
    """The file whose tensors are a module's parameters as they are, if :func:`load` made it."""
    return getattr(module, _FILE, None)


def _check_layers(file: GgufFile) -> None:
    """The number of layers is what the tensors say, before lists are made of that length."""
    said = file.field(f"{file.architecture}.block_count", int)
    there = {int(found[1]) for name in file.tensors if (found := _LAYER.match(name)) is not None}
    if there != set(range(len(there))) or said != len(there):
        raise file.error(
            f"metadata {file.architecture}.block_count is {said}, and there are tensors of {len(there)} layers"
        )


def _check_changes(file: GgufFile) -> None:
    """Nothing in the metadata asks for a computation that the module would not do."""
    keys = (f"{file.architecture}.{key}" for key in _CHANGES)
    changed = next((key for key in keys if file.field(key, float, 0.0) != 0.0), None)
    if changed is not None:
        raise file.error(f"metadata {changed} is {file.metadata[changed]}, which is not supported")
    if not file.field(causal := f"{file.architecture}.attention.causal", bool, True):
        raise file.error(f"metadata {causal} is false: a model that sees what comes after is no language model")


def _embedding(file: GgufFile) -> GgufTensor:
    tensor = file.tensors.get("token_embd.weight")
    if tensor is None or len(tensor.shape) != 2:
        raise file.error("tensor token_embd.weight is " + ("missing" if tensor is None else "no matrix"))
    return tensor


def _set_tokens(config: Any, file: GgufFile) -> None:
    """Tokens that begin and end texts are the file's tokenizer's, and not a config's defaults."""
    config.pad_token_id = None
    config.bos_token_id, ends = special_ids(file)
    config.eos_token_id = ends or None


def _skeleton(file: GgufFile, architecture: Architecture) -> tuple[Any, Any]:
    """The file's config, and its module without any memory."""
    try:
        config = architecture.read(file)
        config.vocab_size = _embedding(file).shape[0]
        config.tie_word_embeddings = "output.weight" not in file.tensors
        _set_tokens(config, file)
        with torch.device("meta"):
            return config, _module(config, architecture)
    except GgufError:
        raise
    except Exception as error:  # whatever transformers or torch have against these numbers
        raise file.error(f"its metadata makes no model of {architecture.name}: {error}") from error


def _module(config: Any, architecture: Architecture) -> Any:
    """The module with memory that nothing has written to, but for buffers, which follow from the config."""
    from transformers import AutoModelForCausalLM
    from transformers.initialization import no_init_weights

    with no_init_weights():
        module = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    module.tie_weights()
    architecture.reshape(module)
    return module.requires_grad_(False)


def _match(file: GgufFile, architecture: Architecture, skeleton: Any) -> dict[str, GgufTensor]:
    """The tensors of each parameter. All that the module has and all that the file has must match."""
    matched: dict[str, GgufTensor] = {}
    seen: dict[torch.Tensor, str] = {}
    for name, parameter in skeleton.named_parameters(remove_duplicate=False):
        if parameter in seen:  # a tied head, which exported programs may call by either name
            matched[name] = matched[seen[parameter]]
            continue
        seen[parameter] = name
        wanted = architecture.names.tensors(name)
        if len(wanted) != 1:
            raise file.error(f"{type(skeleton).__name__} has {name}, and {architecture.name} no tensor for it")
        if wanted[0] not in file.tensors:
            raise file.error(f"tensor {wanted[0]} is missing")
        matched[name] = file.tensors[wanted[0]]
        _check_shape(name, parameter, matched[name])
    used = {tensor.name for tensor in matched.values()} | set(architecture.extra_names)
    unused = sorted(set(file.tensors) - used)
    if unused:
        raise file.error(
            f"{len(unused)} tensors have no place in {type(skeleton).__name__}: {', '.join(unused[:4])}"
            + (" …" if len(unused) > 4 else "")
        )
    return matched


def _check_shape(name: str, parameter: torch.Tensor, tensor: GgufTensor) -> None:
    shape = tuple(parameter.shape)
    if shape not in (tensor.shape, (1, *tensor.shape)):  # the gate of a shared expert has lost its one row
        raise tensor.file.error(f"tensor {tensor.name} is {list(tensor.shape)}, expected {list(shape)} for {name}")
    assert weight_type(tensor.dtype)


def _fill(module: Any, tensors: dict[str, GgufTensor], *, everything: bool) -> None:
    """Write the values of norms and biases, or of all parameters, into the module."""
    for name, parameter in _parameters(module, tensors):
        if everything or parameter.dim() < 2:
            parameter.data.copy_(values_of(tensors[name]).reshape(parameter.shape))


def _parameters(module: Any, tensors: dict[str, GgufTensor]) -> Iterator[tuple[str, torch.Tensor]]:
    for name, parameter in module.named_parameters():
        assert name in tensors, f"{name}: an adaptation must keep the names of parameters"
        yield name, parameter
