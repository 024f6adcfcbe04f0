"""What the operating system tells about processes: the memory of one that no file backs, and the processors' time."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


POLL_SECONDS = 0.001


def _status_bytes(pid: int | str, key: str) -> int:
    """A number of the process's status; 0 where the system does not tell."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    found = re.search(rf"^{key}:\s+(\d+) kB", status, re.MULTILINE)
    return int(found.group(1)) * 1024 if found else 0


def resident_bytes() -> int:
    """Resident memory of this process (VmRSS), touched pages of mapped files included."""
    return _status_bytes("self", "VmRSS")


def peak_bytes() -> int:
    """The most memory that this process held (VmHWM) since it began or `reset_peak` was called."""
    return _status_bytes("self", "VmHWM")


def reset_peak() -> None:
    """Let `peak_bytes` begin anew at what the process holds now."""
    with suppress(OSError):  # other systems than Linux
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")


def anonymous_bytes(pid: int) -> int:
    """Resident memory of the process that no file backs, which a written-to page of a file is too; 0 if it just died.

    `Private_Dirty` will not do: it counts clean mappings of a file that the system has yet to write to its disk.
    """
    return _status_bytes(pid, "RssAnon")


def cpu_seconds(pid: int) -> float:
    """Processor time that the process has used so far with all its threads (0 where the system does not tell)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def busy_seconds() -> float:
    """Processor time that all processes together have used so far (0 where the system does not tell)."""
    try:
        fields = Path("/proc/stat").read_text(encoding="utf-8").splitlines()[0].split()[1:]
    except OSError:
        return 0.0
    user, nice, kernel, _idle, _waiting, interrupts, soft_interrupts, stolen = map(int, fields[:8])
    return (user + nice + kernel + interrupts + soft_interrupts + stolen) / os.sysconf("SC_CLK_TCK")


BUSY = """
import os
parent = os.getppid()
while os.getppid() == parent:  # one whose parent was killed would go on for ever
    for _ in range(100_000):
        pass
"""


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Meanwhile, as many processes use a core each."""
    processes = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
