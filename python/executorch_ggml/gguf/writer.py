"""A ``transformers`` module as a GGUF file that llama.cpp runs."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..frontends.aten.weights import check_values
from ..ir.codec import quantize
from ..ir.dtypes import DType
from ..progress import counted
from ..quant import GgmlQuantConfig, Importance
from ..quant.config import encoded
from ..quant.types import fitting
from ..runtime.gguf_file import weight_type
from .architectures import Architecture, architecture_for
from .mixtures import is_router, mixture
from .model import file_of
from .tokenizer import tokenizer_metadata
from .weights import values_of

# Of llama.cpp's names for what most weights are, those that are a single type's (gguf.LlamaFileType).
_FILE_TYPES = {
    DType.F32: "ALL_F32",
    DType.Q2_K: "MOSTLY_Q2_K",
    DType.Q3_K: "MOSTLY_Q3_K_M",
    DType.Q4_K: "MOSTLY_Q4_K_M",
    DType.Q5_K: "MOSTLY_Q5_K_M",
}

_OF_ONE_FILE = ("general.architecture", "general.alignment")  # written anew

TypeOf = Callable[[str, torch.Tensor], DType]


def export_gguf(
    module: Any,
    path: str | os.PathLike[str],
    *,
    types: DType | str | TypeOf | GgmlQuantConfig = DType.F16,
    tokenizer: Any = None,
    name: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    importance: Importance | None = None,
    data: Callable[[TensorPlan, DType], torch.Tensor] | None = None,
) -> None:
    """Write a causal LM of ``transformers`` with its tokenizer as GGUF.

    ``types`` is the type of the matrices or its name (or of one of llama.cpp's mixtures: ``"q4_k_m"``), a
    :class:`~executorch_ggml.quant.GgmlQuantConfig`, or a function of a parameter's name and shape (a tensor without
    memory). Vectors (norms, biases) are always f32, as llama.cpp wants
    them; matrices whose rows are no multiple of the type's blocks are of the type that llama.cpp takes instead.
    ``tokenizer`` is a ``tokenizers.Tokenizer`` or a fast one of ``transformers``. ``metadata`` is added to what the
    module's config says. ``importance`` is for the types that need it. ``data`` gives the bytes of tensors where they
    are not to be the module's own.

    Raises ValueError for a model that GGUF has no place for, or whose computation it cannot describe, and for values
    that a type cannot hold. Nothing is left at ``path`` then.
    """
    check_values(module)
    architecture = architecture_for(module.config)
    described = _description(module, architecture)
    if tokenizer is not None:
        described |= tokenizer_metadata(tokenizer)
        _check_tokens(described["tokenizer.ggml.tokens"], module)
    if isinstance(types, GgmlQuantConfig):
        types.check(module)
    choose = _chooser(types, module.config)
    if importance is None:
        importance = types.importance if isinstance(types, GgmlQuantConfig) else Importance()
    tensors = list(_tensors(module, architecture))
    chosen = {each.name: _type_of(each, choose) for each in tensors}
    described |= {"general.quantization_version": 2, "general.file_type": _file_type(chosen.values())}
    described["general.name"] = _name(name, described.get("general.name", architecture.name), described)

    def own_data(tensor: TensorPlan, dtype: DType) -> torch.Tensor:
        return encoded(tensor.parameter, tensor.values(), dtype, importance)

    _write(path, architecture.name, described | dict(metadata or {}), tensors, chosen, data or own_data)


def _description(module: Any, architecture: Architecture) -> dict[str, Any]:
    """The metadata of a module's config, or of the file that it was loaded from."""
    file = file_of(module)
    if file is not None:
        return {key: value for key, value in file.metadata.items() if key not in _OF_ONE_FILE}
    described = {f"{architecture.name}.{key}": value for key, value in architecture.write(module.config).items()}
    return described | {f"{architecture.name}.vocab_size": module.config.vocab_size}


def _check_tokens(tokens: Sequence[str], module: Any) -> None:
    size = module.config.vocab_size
    if len(tokens) > size:
        raise ValueError(
            f"the tokenizer has {len(tokens)} tokens, the last of them {tokens[-1]!r}, but the model's vocabulary has "
            f"{size}: pass the tokenizer that the model was trained with, or enlarge the model's embeddings"
        )


# llama.cpp (llama-vocab.cpp) takes a model with one of these in its name to have Phi 3's tokenizer: it strips spaces
# after special tokens, looks these tokens up, and does not load a file that lacks one of them.
_PHI3_NAMES = ("phi-3", "phi3")
_PHI3_TOKENS = ("</s>", "<unk>", "<s>", "<|endoftext|>")


def _name(name: str | None, default: str, metadata: Mapping[str, Any]) -> str:
    """The name that is asked for, or the default, unless llama.cpp would not load the file by that."""
    missing = _missing_phi3_tokens(metadata)
    if not missing or not any(part in (name or default).lower() for part in _PHI3_NAMES):
        return name or default
    if name is None:
        return "model"
    raise ValueError(
        f"name {name!r}: llama.cpp expects Phi 3's tokenizer in a model of this name, and the tokenizer has no "
        f"{', '.join(missing)}; pass another name"
    )


def _missing_phi3_tokens(metadata: Mapping[str, Any]) -> list[str]:
    if "tokenizer.ggml.tokens" not in metadata:
        return []
    tokens = set(metadata["tokenizer.ggml.tokens"])
    return [token for token in _PHI3_TOKENS if token not in tokens]


@dataclass(frozen=True)
class TensorPlan:
    """A tensor to be written: its name in the file, the parameter that it is (a part) of, and its values."""

    name: str
    parameter: str
    shape: tuple[int, ...]
    values: Callable[[], torch.Tensor]


def _tensors(module: Any, architecture: Architecture) -> Iterator[TensorPlan]:
    """All tensors of a module; a tied head is none."""
    file = file_of(module)
    for name, parameter in module.named_parameters():
        names = architecture.names.tensors(name)
        if not names:
            raise ValueError(f"{name}: a GGUF file of {architecture.name} has no tensor for it")

        def values(name: str = name, parameter: torch.Tensor = parameter) -> torch.Tensor:
            value = parameter.detach().float()
            return value if file is not None else architecture.stored(name, value, module.config)

        shape = tuple(parameter.shape)
        if len(names) == 1:
            yield TensorPlan(names[0], name, _stored_shape(names[0], shape), values)
            continue
        half = (shape[0], shape[1] // 2, *shape[2:])
        for index, part in enumerate(names):
            yield TensorPlan(part, name, half, functools.partial(_half, values, index))
    for name, tensor in _extra(module, architecture).items():
        yield TensorPlan(name, name, tuple(tensor.shape), tensor.clone)


def _half(values: Callable[[], torch.Tensor], index: int) -> torch.Tensor:
    return values().chunk(2, dim=1)[index]


def _extra(module: Any, architecture: Architecture) -> dict[str, torch.Tensor]:
    """Tensors that are no parameters."""
    file = file_of(module)
    if file is None:
        return architecture.extra(module)
    return {name: values_of(file.tensors[name]) for name in architecture.extra_names if name in file.tensors}


def _stored_shape(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape[1:] if "ffn_gate_inp_shexp" in name else shape


def _chooser(types: DType | str | TypeOf | GgmlQuantConfig, config: Any) -> TypeOf:
    if isinstance(types, str):
        return mixture(types, config)
    if isinstance(types, GgmlQuantConfig):
        return lambda parameter, value: types.choice(parameter, value.shape).dtype or DType.F32
    return types if callable(types) else lambda parameter, value: types


def _type_of(tensor: TensorPlan, choose: TypeOf) -> DType:
    """Vectors and routers, whose error would choose other experts, are f32."""
    if len(tensor.shape) < 2 or is_router(tensor.name):
        return DType.F32
    dtype = choose(tensor.parameter, torch.empty(tensor.shape, device="meta"))
    if not weight_type(dtype):
        raise ValueError(f"{tensor.parameter}: {dtype.name.lower()} is no type for weights")
    return fitting(dtype, tensor.shape[-1])


def _file_type(types: Iterable[DType]) -> int:
    import gguf

    found = list(types)
    most = max(dict.fromkeys(found), key=lambda dtype: (dtype is not DType.F32, found.count(dtype)))
    name = _FILE_TYPES.get(most, f"MOSTLY_{most.name}")
    return int(getattr(gguf.LlamaFileType, name, gguf.LlamaFileType.GUESSED))


def _write(
    path: str | os.PathLike[str],
    architecture: str,
    metadata: Mapping[str, Any],
    tensors: list[TensorPlan],
    types: Mapping[str, DType],
    data: Callable[[TensorPlan, DType], torch.Tensor],
) -> None:
    """Write tensor by tensor, so that only one of them is in memory."""
    import numpy as np

    import gguf

    unfinished = f"{os.fspath(path)}.part"
    writer = gguf.GGUFWriter(unfinished, architecture)
    for key, value in metadata.items():
        _add(writer, key, value)
    for tensor in tensors:
        dtype = types[tensor.name]
        shape = (*tensor.shape[:-1], dtype.nbytes(tensor.shape[-1]))
        number = gguf.GGMLQuantizationType(dtype.ggml_type)
        size = int(np.prod(shape))
        writer.add_tensor_info(tensor.name, shape, np.dtype(np.uint8), size, raw_dtype=number)
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for tensor in counted("quantizing and writing", tensors, lambda tensor: math.prod(tensor.shape)):
            writer.write_tensor_data(data(tensor, types[tensor.name]).numpy())
        writer.close()
        os.replace(unfinished, path)
    finally:
        writer.close()
        Path(unfinished).unlink(missing_ok=True)


def stored_bytes(values: torch.Tensor, dtype: DType) -> torch.Tensor:
    """Values as ggml stores them: uint8, one dim."""
    return quantize(values, dtype)


def _add(writer: Any, key: str, value: Any) -> None:
    """An entry of the metadata: integers are 32 bits wide, and floats too, as llama.cpp reads them."""
    from gguf import GGUFValueType

    kinds = {
        bool: GGUFValueType.BOOL,
        int: GGUFValueType.UINT32,
        float: GGUFValueType.FLOAT32,
        str: GGUFValueType.STRING,
    }
    if isinstance(value, list):
        if not value:
            return
        kind = GGUFValueType.INT32 if type(value[0]) is int else kinds[type(value[0])]
        writer.add_key_value(key, value, GGUFValueType.ARRAY, sub_type=kind)
    else:
        writer.add_key_value(key, value, kinds[type(value)])
