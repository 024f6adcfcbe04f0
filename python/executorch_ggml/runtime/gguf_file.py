"""A GGUF file: its metadata and its tensors, where they are mapped."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, overload

import torch

from .. import _session
from ..ir.dtypes import DType

_REQUIRED = object()
T = TypeVar("T", int, float, str, bool)
Metadata = Mapping[str, Any]

# What weights can be stored in; a file may hold others, but no model is made of them.
_FLOATS = (DType.F32, DType.F16, DType.BF16)


class GgufError(ValueError):
    """What is wrong with a GGUF file."""


@dataclass(frozen=True)
class GgufTensor:
    """A tensor of a file: ``shape`` is torch's, the innermost dim last."""

    file: GgufFile
    name: str
    ggml_type: int
    shape: tuple[int, ...]

    @property
    def dtype(self) -> DType:
        """Its type in the IR; GgufError where no weight of a model can be of it."""
        dtype = DType.from_ggml(self.ggml_type)
        if dtype is None or not (dtype.is_quantized or dtype in _FLOATS):
            raise self.file.error(
                f"tensor {self.name} is of ggml type #{self.ggml_type}, which no weight can have here; quantize the "
                f"model in one of {', '.join(name_of(known) for known in DType if weight_type(known))}"
            )
        return dtype

    @property
    def data(self) -> torch.Tensor:
        """Its bytes (uint8, one dim), where the file is mapped: read only."""
        return self.file.native.data(self.name)

    @property
    def key(self) -> str:
        """What a program that leaves the tensor in its file calls it."""
        return f"gguf:{self.file.id}/{self.name}"


def weight_type(dtype: DType) -> bool:
    """Whether weights can be stored in a type."""
    return dtype.is_quantized or dtype in _FLOATS


def name_of(dtype: DType) -> str:
    """A type as users write it."""
    return dtype.name.lower()


class GgufFile:
    """A file that is open for reading: mapped, not read, and checked against its length before anything is believed.

    Raises GgufError, naming the file and what is wrong in it, where it is no GGUF file, or cut off, or damaged.
    ``id`` tells files apart: a digest of the metadata, the table of tensors, the file's length and the first bytes of
    each tensor.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        if not os.path.exists(self.path):
            raise FileNotFoundError(f"{self.path}: no such GGUF file")
        try:
            self.native = _session.GgufFile(self.path)
        except ValueError as error:
            raise GgufError(str(error)) from None
        self.id: str = self.native.id
        if (parts := self.field("split.count", int, 1)) > 1:
            raise self.error(f"one part of {parts}; merge them with llama.cpp's gguf-split")

    @functools.cached_property
    def metadata(self) -> Metadata:
        """All entries: numbers, strings, truth values, and lists of them."""
        return self.native.metadata()

    @functools.cached_property
    def tensors(self) -> Mapping[str, GgufTensor]:
        """All tensors by name."""
        table = self.native.tensors()
        return {name: GgufTensor(self, name, number, tuple(reversed(ne))) for name, number, ne in table}

    @property
    def architecture(self) -> str:
        """What kind of model it is, in llama.cpp's words: ``general.architecture``."""
        return self.field("general.architecture", str)

    def error(self, message: str) -> GgufError:
        """What is wrong, with the file's name."""
        return GgufError(f"{self.path}: {message}")

    @overload
    def field(self, key: str, kind: type[T]) -> T: ...
    @overload
    def field(self, key: str, kind: type[T], default: T) -> T: ...
    @overload
    def field(self, key: str, kind: type[T], default: None) -> T | None: ...
    def field(self, key: str, kind: type[T], default: Any = _REQUIRED) -> T | None:
        """An entry of the metadata, which must be of the kind; without a default it must be there."""
        if key not in self.metadata:
            if default is _REQUIRED:
                raise self.error(f"metadata {key} is missing")
            return default  # type: ignore[no-any-return] # as the overloads say
        value = self.metadata[key]
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            raise self.error(f"metadata {key} is a {type(value).__name__}, expected a {kind.__name__}")
        if isinstance(value, float) and not math.isfinite(value):
            raise self.error(f"metadata {key} is {value}")
        return value

    def values(self, key: str, kind: type[T]) -> list[T]:
        """A list of the metadata, all of whose elements must be of the kind."""
        found = self.metadata.get(key)
        if not isinstance(found, list):
            raise self.error(f"metadata {key} is " + ("missing" if found is None else "not a list"))
        wrong = next((value for value in found if type(value) is not kind), None)
        if wrong is not None:
            raise self.error(f"metadata {key} has a {type(wrong).__name__} in it, expected a {kind.__name__} each")
        return found
