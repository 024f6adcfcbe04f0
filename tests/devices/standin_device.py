"""The stand-in device (tests/devices/standin) from Python: its library, and its counters."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

from executorch_ggml import _session

ROOT = Path(__file__).resolve().parents[2]


class Counters(ctypes.Structure):
    """What crossed since the counters were reset: see standin.h."""

    bytes_set: int
    bytes_got: int
    bytes_copied: int
    graphs: int
    nodes: int
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("bytes_set", "bytes_got", "bytes_copied", "graphs", "nodes"))


def library() -> Path | None:
    """Where `make setup` has built it."""
    return next(iter(ROOT.glob("build/*/standin/libggml-standin.so")), None)


def require() -> None:
    """Skip the test where it is not built: it is a part of developers' builds, not of the package."""
    if library() is None:
        pytest.skip("the stand-in device is not built: make setup")


@functools.cache
def load() -> ctypes.CDLL | None:
    """Load it into ggml, whose devices standin:cuda, standin:vulkan and standin:rpc are from then on."""
    path = library()
    if path is None:
        return None
    _session.load_backend(str(path), "standin")
    loaded = ctypes.CDLL(str(path))
    loaded.standin_set_memory.argtypes = [ctypes.c_char_p, ctypes.c_uint64]
    loaded.standin_used_memory.argtypes = [ctypes.c_char_p]
    loaded.standin_used_memory.restype = ctypes.c_uint64
    return loaded


def reset() -> None:
    """Count from zero."""
    loaded = load()
    assert loaded is not None
    loaded.standin_reset_counters()


def counters() -> Counters:
    """The counts so far."""
    loaded = load()
    assert loaded is not None
    read = Counters()
    loaded.standin_read_counters(ctypes.byref(read))
    return read


@contextlib.contextmanager
def memory(**devices: int) -> Iterator[None]:
    """Free bytes of devices for a while (``cuda`` is standin:cuda); 0: the device does not tell."""
    loaded = load()
    assert loaded is not None
    names = {f"standin:{name}".encode(): free for name, free in devices.items()}
    for name, free in names.items():
        loaded.standin_set_memory(name, free and free + loaded.standin_used_memory(name))
    try:
        yield
    finally:
        for name in names:
            loaded.standin_set_memory(name, 16 << 30)
