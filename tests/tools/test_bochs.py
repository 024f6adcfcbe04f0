"""What emulated machines print, and the files that programs there need."""

import os
import shutil
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.emulators.x86 import Command

from tools import bochs

COMMAND = Command("cpu_test", ["/tests/cpu_test"], "kernels of amx")


@pytest.mark.parametrize(
    ("output", "passed"),
    [
        ("=== cpu_test\nkernels of amx, 0 failures\n=== 0\n=== other\n=== 1\n", True),
        ("=== cpu_test\nkernels of amx, 1 failures\n=== 1\n=== other\n=== 0\n", False),
        ("=== cpu_test\nkernels of avx512bf16, 0 failures\n=== 0\n", False),
        ("=== cpu_test\nAMX is not used for int8: it raises SIGILL\nkernels of amx, 0 failures\n=== 0\n", False),
        ("=== cpu_test\nkernels of amx", False),
        ("=== other\nkernels of amx\n=== 0\n", False),
        ("", False),
    ],
)
def test_a_command_passes_where_its_own_lines_say_so(output: str, passed: bool) -> None:
    assert COMMAND.passed(output) is passed


def test_a_script_says_where_a_command_begins_and_how_it_ends() -> None:
    command = Command("a", ["/bin/a b", "c"])
    assert command.shell() == "echo '=== a'\n'/bin/a b' c\necho \"=== $?\"\n"


@pytest.mark.skipif(shutil.which("ldd") is None, reason="no ldd here")
def test_libraries_are_found_at_the_paths_of_the_loader() -> None:
    found = bochs.libraries([Path(sys.executable)])
    assert any(Path(path).name.startswith("libc.so") for path in found)
    assert all(path == os.path.normpath(path) and file.exists() for path, file in found.items())


@contextmanager
def sent(*texts: str, closes: bool = True) -> Iterator[socket.socket]:
    """A line at whose other end these are sent one after another."""
    here, there = socket.socketpair()

    def send() -> None:
        for text in texts:
            there.sendall(text.encode())
            time.sleep(0.05)
        if closes:
            there.shutdown(socket.SHUT_WR)

    sender = threading.Thread(target=send)
    with here, there:
        sender.start()
        yield here
        sender.join()


def test_a_line_is_read_until_it_is_closed() -> None:
    with sent("the comm", "ands start\r\na", "b") as line:
        assert bochs.read_line(line, 10.0) == "the commands start\nab"


def test_nothing_more_is_read_of_a_linux_that_crashed() -> None:
    with sent("Kernel pan", "ic - not syncing", closes=False) as line:
        assert bochs.read_line(line, 10.0) == "Kernel panic - not syncing"


def test_a_line_is_left_when_the_time_is_up() -> None:
    with sent("the commands start\n", closes=False) as line:
        assert bochs.read_line(line, 0.2) == "the commands start\n"
