"""Where a rebuilt module's weights are: in the file, in the types that they have there."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from ..ir.dtypes import DType
from ..lower.weights import StoredWeight
from ..quant.codec import dequantize
from .file import GgufTensor


class GgufWeights:
    """The weights of a module that was rebuilt from a file, for ``executorch_ggml.export(..., weights=)``.

    Each parameter is stored in the program as the file has it, byte for byte; or, if ``external``, not at all: the
    program then names the file's id and the tensor, and takes it from the file when it is loaded
    (``executorch_ggml.load(program, gguf=path)``). Parameters that two tensors make up are in the program either way.
    """

    def __init__(self, tensors: Mapping[str, tuple[GgufTensor, ...]], *, external: bool = False) -> None:
        self._tensors = dict(tensors)
        self.external = external

    def find(self, name: str, parameter: torch.Tensor) -> StoredWeight | None:
        """How a parameter is stored; modules around the rebuilt one may have put names before its own."""
        tensors = self.tensors(name)
        if not tensors:
            return None
        if math.prod(parameter.shape) != sum(math.prod(tensor.shape) for tensor in tensors):
            raise ValueError(f"{name} is {list(parameter.shape)}, and not what {tensors[0].file.path} has for it")
        if len(tensors) == 1:
            only = tensors[0]
            key = only.key if self.external else None
            return StoredWeight(only.dtype, lambda: only.data, key=key, replaces=True)
        if len({tensor.dtype for tensor in tensors}) == 1:
            return StoredWeight(tensors[0].dtype, lambda: joined_rows(tensors), replaces=True)
        return StoredWeight(DType.F32, lambda: in_f32(tensors).reshape(-1).view(torch.uint8), replaces=True)

    def tensors(self, name: str) -> tuple[GgufTensor, ...]:
        """The file's tensors of a parameter; () if it is none of the file's."""
        while name not in self._tensors:
            _, dot, name = name.partition(".")
            if not dot:
                return ()
        return self._tensors[name]


def joined_rows(tensors: tuple[GgufTensor, ...]) -> torch.Tensor:
    """The bytes of tensors of one type, joined expert by expert: all of the first's rows, then the second's."""
    experts = tensors[0].shape[0]
    return torch.cat([tensor.data.reshape(experts, -1) for tensor in tensors], dim=1).reshape(-1)


def in_f32(tensors: tuple[GgufTensor, ...]) -> torch.Tensor:
    """The values of a parameter: those of its tensor, or of two joined expert by expert."""
    values = [values_of(tensor) for tensor in tensors]
    return values[0] if len(values) == 1 else torch.cat(values, dim=1)


def values_of(tensor: GgufTensor) -> torch.Tensor:
    """A tensor's values in f32."""
    if tensor.dtype.is_quantized:
        return dequantize(tensor.data, tensor.dtype, tensor.shape)
    return tensor.data.view(tensor.dtype.torch).reshape(tensor.shape).float()
