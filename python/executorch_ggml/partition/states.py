"""Buffers that modules mutate: what they are called, and which of them methods share."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram

from ..lower.graph import buffer_of


class StateNames:
    """Names the states of a program's methods: one tensor has one name, and one name stands for one tensor.

    A state is called like the buffer it is. Where another tensor has that name already, the method's name is added.
    With ``by_name``, buffers of the same name are taken to be the same.
    """

    def __init__(self, methods: Mapping[str, Sequence[ExportedProgram]], *, by_name: bool = False) -> None:
        self._by_name = by_name
        self._names: dict[Any, str] = {}
        self._tensors: dict[str, torch.Tensor] = {}
        for method, partitions in methods.items():
            for program in partitions:
                for target in program.graph_signature.buffers_to_mutate.values():
                    self._declare(method, target, buffer_of(program, target))

    def of(self, program: ExportedProgram) -> dict[str, str]:
        """The names of a partition's buffers that are states: some method mutates them, if not this one."""
        found = {}
        for target in program.graph_signature.inputs_to_buffers.values():
            name = self._names.get(self._identity(target, buffer_of(program, target)))
            if name is not None:
                found[target] = name
        return found

    def _identity(self, target: str, tensor: torch.Tensor) -> Any:
        """What tells one buffer from another: where it lies in memory."""
        place = tensor.untyped_storage().data_ptr(), tensor.storage_offset()
        return target if self._by_name else (*place, tensor.shape, tensor.stride(), tensor.dtype)

    def _declare(self, method: str, target: str, tensor: torch.Tensor) -> None:
        identity = self._identity(target, tensor)
        if identity in self._names:
            return
        other = self._tensors.get(target)
        if other is not None and (other.shape, other.dtype) == (tensor.shape, tensor.dtype):
            warnings.warn(
                f"buffer {target} of method {method} is another tensor than in the methods before it, so they do not "
                f"share it; if they should, export one module, or pass GgmlPartitioner(states_by_name=True)",
                stacklevel=2,
            )
        name = target if other is None else f"{target}@{method}"
        self._names[identity] = name
        self._tensors[name] = tensor
