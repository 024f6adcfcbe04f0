"""ggml graphs as the bridge hands them over: one row of numbers a tensor (``native/devices/graph_words.h``)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ir.dtypes import DType

INPUT, CONSTANT, NODE, VIEW = range(4)  # what a tensor is: leaves, then nodes, of which views compute nothing
WORDS = 35
_SOURCES = 10


class UnsupportedError(Exception):
    """A ggml node that the IR cannot express; the message says why."""


@dataclass
class Tensor:
    """A tensor of a ggml graph. ``strides`` are in bytes; ``root`` is the tensor whose memory it shows."""

    index: int
    role: int
    op: str
    type: int
    dtype: DType | None
    live: bool
    ne: tuple[int, int, int, int]
    strides: tuple[int, int, int, int]
    root: int
    offset: int
    params: bytes
    sources: tuple[int, ...]
    place: tuple[int, int, int]  # of a constant: its buffer, the buffer's version, and where it is in there

    def i32(self, at: int) -> int:
        """A parameter."""
        number: int = struct.unpack_from("<i", self.params, 4 * at)[0]
        return number

    def f32(self, at: int) -> float:
        """A parameter."""
        number: float = struct.unpack_from("<f", self.params, 4 * at)[0]
        return number

    @property
    def count(self) -> int:
        """Number of elements."""
        return self.ne[0] * self.ne[1] * self.ne[2] * self.ne[3]

    @property
    def is_dense(self) -> bool:
        """Whether the elements are dense and in order."""
        if self.dtype is None:
            return False
        expected = self.dtype.nbytes(self.dtype.block)
        for dim, (size, stride) in enumerate(zip(self.ne, self.strides, strict=True)):
            if size != 1 and stride != expected:
                return False
            expected *= size // self.dtype.block if dim == 0 else size
        return True

    def steps(self) -> tuple[int, ...]:
        """Strides in elements."""
        assert self.dtype is not None
        if any(stride % self.dtype.itemsize for stride in self.strides):
            raise UnsupportedError(f"strides of {self.strides} bytes in {self.dtype.name.lower()}")
        return tuple(stride // self.dtype.itemsize for stride in self.strides)


def read(words: np.ndarray[Any, Any], op_name: Callable[[int], str]) -> list[Tensor]:
    """The tensors of a graph, leaves before what reads them."""
    return [_tensor(index, row, op_name) for index, row in enumerate(words.reshape(-1, WORDS).tolist())]


def _tensor(index: int, row: Sequence[int], op_name: Callable[[int], str]) -> Tensor:
    role, op, type_, live = row[:4]
    sources = row[22 : 22 + _SOURCES]
    return Tensor(
        index=index,
        role=role,
        op=op_name(op) if role >= NODE else "",
        type=type_,
        dtype=DType.from_ggml(type_),
        live=bool(live),
        ne=(row[4], row[5], row[6], row[7]),
        strides=(row[8], row[9], row[10], row[11]),
        root=row[12],
        offset=row[13],
        params=struct.pack("<8q", *row[14:22]),
        sources=tuple(sources),
        place=(row[32], row[33], row[34]),
    )
