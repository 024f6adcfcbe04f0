"""Reads what a .pte file holds under a name, without loading the program."""

from __future__ import annotations

import mmap
import os
import struct
from typing import Any

# The extended header, after the flatbuffer's root and identifier: magic, length, the flatbuffer's size, where segments
# begin.
_HEADER = struct.Struct("<4sIQQ")
_HEADER_AT = 8
_SEGMENTS, _NAMED_DATA = 12, 18  # fields of the Program table


def mapped(path: str | os.PathLike[str]) -> mmap.mmap:
    """A file's bytes, not read yet. Raises ValueError for an empty one, which no program is."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise ValueError(f"{os.fspath(path)}: an empty file, and no program")
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def named_data(path: str | os.PathLike[str], key: str) -> bytes | None:
    """The bytes under a name, or None where the program has none. Raises ValueError for what is no program."""
    with mapped(path) as data:
        try:
            return _find(data, key)
        except (struct.error, IndexError, TypeError, AttributeError) as error:
            raise ValueError(f"{os.fspath(path)}: a damaged program: {error}") from error


def _find(data: mmap.mmap, key: str) -> bytes | None:
    from executorch.exir._serialize.generated.executorch_flatbuffer.DataSegment import DataSegment
    from executorch.exir._serialize.generated.executorch_flatbuffer.NamedData import NamedData
    from executorch.exir._serialize.generated.executorch_flatbuffer.Program import Program

    magic, _, _, base = _HEADER.unpack_from(data, _HEADER_AT)
    if magic != b"eh00":
        return None
    table = Program.GetRootAs(data, 0)._tab
    for entry in table_entries(table, _NAMED_DATA, NamedData):
        if entry.Key() == key.encode():
            segment = table_entries(table, _SEGMENTS, DataSegment)[entry.SegmentIndex()]
            start = base + segment.Offset()
            return data[start : start + segment.Size()]
    return None


def table_entries(table: Any, field: int, kind: Any) -> list[Any]:
    """The tables in a vector; ExecuTorch's generated accessors of vectors mix up classes and modules."""
    offset = table.Offset(field)
    found = [kind() for _ in range(table.VectorLen(offset) if offset else 0)]
    for index, entry in enumerate(found):
        entry.Init(table.Bytes, table.Indirect(table.Vector(offset) + 4 * index))
    return found
