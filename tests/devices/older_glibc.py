"""Libraries that were built on glibc 2.38 or newer, for programs on an older one.

A compiler calls C23's variants of `strtol` and others where the C library has them, so that a library may need glibc
2.38 for nothing else. Copies that ask for that version weakly load on an older glibc, in a program that has the
functions itself (`c23.cpp`, linked with `-rdynamic`).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

C23 = (2, 38)
C23_SOURCE = Path(__file__).parent / "c23.cpp"

# Of 64-bit ELF files, in the byte order of x86-64 and aarch64 (elf.h).
_SECTION = struct.Struct("<IIQQQQIIQQ")  # name, type, flags, address, offset, size, link, info, alignment, entry size
_NEED = struct.Struct("<HHIII")  # version, count of versions, file, offset of the first version, offset of the next
_VERSION = struct.Struct("<IHHII")  # hash, flags, index, name, offset of the next
_SHT_GNU_VERNEED, _VER_FLG_WEAK = 0x6FFFFFFE, 2


def is_older() -> bool:
    """Whether this system's C library is a glibc without C23's functions."""
    name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    return name == "glibc" and tuple(map(int, version.split("."))) < C23


def copy_for_this_glibc(library: Path, folder: Path) -> None:
    """Write a copy of a library that asks for the version with C23's functions weakly."""
    data = bytearray(library.read_bytes())
    wanted = b"GLIBC_%d.%d\0" % C23
    for place, name in _needed_versions(data):
        if data.startswith(wanted, name):
            hashed, flags, *others = _VERSION.unpack_from(data, place)
            _VERSION.pack_into(data, place, hashed, flags | _VER_FLG_WEAK, *others)
    (folder / library.name).write_bytes(data)


def _needed_versions(data: bytes | bytearray) -> Iterator[tuple[int, int]]:
    """Where each version that a library needs is described, and where its name is."""
    (first,), (count,) = struct.unpack_from("<Q", data, 0x28), struct.unpack_from("<H", data, 0x3C)
    sections = [_SECTION.unpack_from(data, first + _SECTION.size * index) for index in range(count)]
    for section in sections:
        if section[1] != _SHT_GNU_VERNEED:
            continue
        names, need = sections[section[6]][4], section[4]
        for _ in range(section[7]):
            _, versions, _, place, following = _NEED.unpack_from(data, need)
            place += need
            for _ in range(versions):
                *_, name, step = _VERSION.unpack_from(data, place)
                yield place, names + name
                place += step
            need += following
