"""Where a rebuilt module's weights are: in the file, in the types that they have there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import torch

from ..frontends.aten.weights import StoredWeight
from ..ir.codec import dequantize
from ..runtime.gguf_file import GgufTensor


class GgufWeights:
    """The weights of a module that was rebuilt from a file, for ``executorch_ggml.export(..., weights=)``.

    Each parameter is stored in the program as the file has it, byte for byte; or, if ``external``, not at all: the
    program then names the file's id and the tensor, and takes it from the file when it is loaded
    (``executorch_ggml.load(program, gguf=path)``). ``replaces``: the module does not hold the values itself.
    """

    def __init__(self, tensors: Mapping[str, GgufTensor], *, external: bool = False, replaces: bool = True) -> None:
        self._tensors = dict(tensors)
        self.external = external
        self.replaces = replaces

    @property
    def files(self) -> dict[str, str]:
        """The names of the files by their ids: what a program that leaves its weights there says of them."""
        return {tensor.file.id: Path(tensor.file.path).name for tensor in self._tensors.values()}

    def find(self, name: str, parameter: torch.Tensor) -> StoredWeight | None:
        """How a parameter is stored; modules around the rebuilt one may have put names before its own."""
        tensor = self.tensor(name)
        if tensor is None:
            return None
        if math.prod(parameter.shape) != math.prod(tensor.shape):
            raise ValueError(f"{name} is {list(parameter.shape)}, and not what {tensor.file.path} has for it")
        key = tensor.key if self.external else None
        return StoredWeight(tensor.dtype, lambda: tensor.data, key=key, replaces=self.replaces)

    def tensor(self, name: str) -> GgufTensor | None:
        """The file's tensor for a parameter; None if it is none of the file's."""
        while name not in self._tensors:
            _, dot, name = name.partition(".")
            if not dot:
                return None
        return self._tensors[name]


def values_of(tensor: GgufTensor) -> torch.Tensor:
    """A tensor's values in f32."""
    if tensor.dtype.is_quantized:
        return dequantize(tensor.data, tensor.dtype, tensor.shape)
    return tensor.data.view(tensor.dtype.torch).reshape(tensor.shape).float()
