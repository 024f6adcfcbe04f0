"""Servers of ggml-rpc for tests, in processes of this package."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import libggml
import pytest

SECONDS = 30


def has_rpc() -> bool:
    """Whether the installed ggml has RPC, which the prebuilt one has not."""
    return any(Path(libggml.__file__).parent.glob("lib*/libggml-rpc.so"))


needs_rpc = pytest.mark.skipif(not has_rpc(), reason="this ggml has no RPC")


def free_port() -> int:
    """A port that nothing listens at."""
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])


class Server:
    """A running ``executorch-ggml rpc-server`` of one thread."""

    def __init__(self) -> None:
        self.endpoint = f"127.0.0.1:{free_port()}"
        command = [sys.executable, "-m", "executorch_ggml", "rpc-server", "--threads", "1"]
        self.process = subprocess.Popen(
            [*command, "--port", self.endpoint.rpartition(":")[2]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._wait()

    @property
    def device(self) -> str:
        """The name of its device."""
        return f"RPC[{self.endpoint}]"

    def _wait(self) -> None:
        host, _, port = self.endpoint.rpartition(":")
        until = time.monotonic() + SECONDS
        while True:
            with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
                return
            assert self.process.poll() is None, "the server ended"
            assert time.monotonic() < until, "the server does not start"
            time.sleep(0.05)

    def end(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def server() -> Iterator[Server]:
    """A server for a while."""
    running = Server()
    try:
        yield running
    finally:
        running.end()
