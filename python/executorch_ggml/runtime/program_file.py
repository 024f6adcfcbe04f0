"""Reads parts of a .pte file by its flatbuffer's tables, without loading the program.

ExecuTorch's own readers are in a package whose import takes most of the time of a short command.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from flatbuffers import encode, packer
from flatbuffers.number_types import Int8Flags, Int32Flags, Uint8Flags, Uint32Flags, Uint64Flags
from flatbuffers.table import Table

# The extended header, after the flatbuffer's root and identifier: magic, length, the flatbuffer's size, where segments
# begin.
_HEADER = struct.Struct("<4sIQQ")
_HEADER_AT = 8

# Fields of the tables in ExecuTorch's schema/program.fbs, as offsets into their vtables.
_PROGRAM_PLANS, _PROGRAM_SEGMENTS, _PROGRAM_NAMED_DATA = 6, 12, 18
_SEGMENT_OFFSET, _SEGMENT_SIZE = 4, 6
_NAMED_DATA_KEY, _NAMED_DATA_SEGMENT = 4, 6
_PLAN_NAME, _PLAN_VALUES, _PLAN_INPUTS = 4, 8, 10
_VALUE_TYPE, _VALUE = 4, 6
_TENSOR_DTYPE, _TENSOR_SIZES, _TENSOR_DYNAMISM = 4, 8, 20

_IS_TENSOR = 5  # of the union KernelTypes
_STATIC = 0  # of TensorShapeDynamism

# ExecuTorch's ScalarType: c10's numbers.
DTYPES = {
    **dict(enumerate((torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64))),
    **dict(enumerate((torch.float16, torch.float32, torch.float64), 5)),
    **dict(enumerate((torch.complex32, torch.complex64, torch.complex128, torch.bool), 8)),
    **dict(enumerate((torch.qint8, torch.quint8, torch.qint32, torch.bfloat16, torch.quint4x2), 12)),
    **dict(enumerate((torch.float8_e5m2, torch.float8_e4m3fn), 23)),
    **dict(enumerate((torch.uint16, torch.uint32), 27)),
}


@dataclass(frozen=True)
class Port:
    """An input or output tensor of a method: its dtype, its sizes' upper bounds, and whether the sizes are dynamic."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    dynamic: bool

    def __str__(self) -> str:
        sizes = ", ".join(map(str, self.shape))
        return f"{str(self.dtype).removeprefix('torch.')}[{sizes}]{' or smaller' if self.dynamic else ''}"


def named_data(path: str | os.PathLike[str], key: str) -> bytes | None:
    """The program's named data under ``key``, or None if there is none. Raises ValueError if the file is no program."""
    with _opened(path) as data:
        magic, _, _, base = _HEADER.unpack_from(data, _HEADER_AT)
        if magic != b"eh00":
            return None
        program = _root(data)
        for entry in _tables(program, _PROGRAM_NAMED_DATA):
            if _text(entry, _NAMED_DATA_KEY) == key:
                segment = _table(program, _PROGRAM_SEGMENTS, entry.GetSlot(_NAMED_DATA_SEGMENT, 0, Uint32Flags))
                begin = base + segment.GetSlot(_SEGMENT_OFFSET, 0, Uint64Flags)
                end = begin + segment.GetSlot(_SEGMENT_SIZE, 0, Uint64Flags)
                if end > len(data):
                    raise IndexError("its data goes on after the file's end")
                return data[begin:end]
    return None


def input_ports(path: str | os.PathLike[str], method: str) -> list[Port | None]:
    """The inputs of a method; None for those that are no tensors.

    Raises ValueError where there is no such method, or the file is no program.
    """
    with _opened(path) as data:
        plans = {_text(plan, _PLAN_NAME): plan for plan in _tables(_root(data), _PROGRAM_PLANS)}
        if method in plans:
            plan = plans[method]
            return [_port(_table(plan, _PLAN_VALUES, index)) for index in _numbers(plan, _PLAN_INPUTS)]
    raise ValueError(f"{os.fspath(path)} has no method {method!r}, but {', '.join(sorted(plans))}")


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[mmap.mmap]:
    """A file's bytes, of which those are read that are looked at. What is wrong with them is a ValueError."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise ValueError(f"{os.fspath(path)}: an empty file, and no program")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                yield data
            except (struct.error, LookupError, TypeError, UnicodeDecodeError) as error:
                raise ValueError(f"{os.fspath(path)}: a damaged program: {error}") from error


def _port(value: Any) -> Port | None:
    if value.GetSlot(_VALUE_TYPE, 0, Uint8Flags) != _IS_TENSOR:
        return None
    tensor = Table(value.Bytes, value.Indirect(value.Pos + value.Offset(_VALUE)))
    dtype = DTYPES[tensor.GetSlot(_TENSOR_DTYPE, 0, Int8Flags)]
    dynamic = tensor.GetSlot(_TENSOR_DYNAMISM, _STATIC, Int8Flags) != _STATIC
    return Port(dtype, tuple(_numbers(tensor, _TENSOR_SIZES)), dynamic)


def _root(data: mmap.mmap) -> Any:
    return Table(data, encode.Get(packer.uoffset, data, 0))


def _tables(table: Any, field: int) -> Iterator[Any]:
    """Iterate over the tables of a vector, lazily: a damaged file may claim more than fit into memory as a list."""
    return (Table(table.Bytes, table.Indirect(at)) for at in _elements(table, field))


def _table(table: Any, field: int, index: int) -> Any:
    """One table of a vector."""
    return Table(table.Bytes, table.Indirect(_elements(table, field)[index]))


def _numbers(table: Any, field: int) -> list[int]:
    """The int32 in a vector."""
    return [table.Get(Int32Flags, at) for at in _elements(table, field)]


def _elements(table: Any, field: int) -> range:
    """Where the elements of a vector begin, which take four bytes: numbers, or offsets of tables."""
    offset = table.Offset(field)
    if offset == 0:
        return range(0)
    first = table.Vector(offset)
    end = first + 4 * table.VectorLen(offset)
    if end > len(table.Bytes):
        raise IndexError(f"a vector of {table.VectorLen(offset)} elements goes on after the file's end")
    return range(first, end, 4)


def _text(table: Any, field: int) -> str:
    offset = table.Offset(field)
    return "" if offset == 0 else table.String(table.Pos + offset).decode()
