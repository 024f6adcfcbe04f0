"""Large constants of a program in a temporary file until the program is written: they are not in memory twice."""

from __future__ import annotations

import hashlib
import io
import tempfile
import threading
import weakref
from typing import Any

from executorch.exir._serialize._cord import CordBuffer, FileBackedData

LEAST = 1 << 18  # bytes that are worth a place in the file
_CHUNK = 8 << 20


class Spool:
    """A file without a name, which the system deletes when nothing refers to it any more, or the process ends.

    It is in the folder that ``TMPDIR`` names.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the program refers to it
        weakref.finalize(self, self._file.close)
        self._lock = threading.Lock()
        self._end = 0

    def add(self, data: memoryview, sha256: bytes) -> Spooled:
        """Write bytes at the end of the file."""
        with self._lock:
            self._file.seek(self._end)
            self._file.write(data)
            start, self._end = self._end, self._end + len(data)
        return Spooled(self, start, len(data), sha256)

    def read(self, start: int, size: int) -> bytes:
        """Bytes from a place on."""
        with self._lock:
            self._file.seek(start)
            return self._file.read(size)


class Spooled(FileBackedData):
    """A part of a :class:`Spool`, as ExecuTorch takes data that it is to copy from a file."""

    def __init__(self, spool: Spool, start: int, size: int, sha256: bytes) -> None:
        self._spool = spool
        self._start = start
        self._size = size
        self._sha256 = sha256

    def __deepcopy__(self, memo: dict[int, Any]) -> Spooled:
        return self  # what was written does not change

    def prefix(self, size: int) -> bytes:
        return self._spool.read(self._start, min(size, self._size))

    def sha256(self) -> bytes:
        return self._sha256

    def to_bytes(self) -> bytes:
        return self._spool.read(self._start, self._size)

    def write_to_file(self, outfile: io.BufferedIOBase) -> None:
        end = self._start + self._size
        outfile.writelines(
            self._spool.read(start, min(_CHUNK, end - start)) for start in range(self._start, end, _CHUNK)
        )

    def close(self) -> None:
        """Nothing: other data is in the file too."""


def bytes_of(buffer: CordBuffer) -> bytes:
    """The contents of an entry of ExecuTorch's data store."""
    return buffer if isinstance(buffer, bytes) else buffer.to_bytes()


def buffered(data: memoryview, spool: Spool) -> tuple[CordBuffer, str]:
    """Bytes as the data store takes them, in memory or in the file, and their SHA-256 in hexadecimal digits."""
    digest = hashlib.sha256(data)
    kept = bytes(data) if len(data) < LEAST else spool.add(data, digest.digest())
    return kept, digest.hexdigest()
