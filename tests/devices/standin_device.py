"""The stand-in device (tests/devices/standin) from Python: its library, and its counters."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

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


@functools.cache
def load() -> ctypes.CDLL | None:
    """Load it into ggml, whose devices standin:cuda, standin:vulkan and standin:rpc are from then on."""
    path = library()
    if path is None:
        return None
    _session.load_backend(str(path), "standin")
    return ctypes.CDLL(str(path))


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
