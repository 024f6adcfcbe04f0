"""Asks for more memory than there is, in every way: what test_out_of_memory.py starts as a process of its own.

python -m tests.runtime.exhaust_memory

Prints for each case the exception that it ended in. The process has room for a little more than it holds when a case
begins, and what each case asks for is much more.
"""

from __future__ import annotations

import ctypes
import faulthandler
import re
import resource
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

from executorch_ggml import _session
from executorch_ggml.gguf import GgufFile
from executorch_ggml.ir.builder import Builder
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.ir.serialize import serialize
from executorch_ggml.runtime import Session

ROOM = 24 << 20
MUCH = 128 << 20


@contextmanager
def little_room(room: int = ROOM) -> Iterator[None]:
    """Let the process have so many bytes more than it has."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    held = re.search(r"^VmSize:\s+(\d+) kB", status, re.MULTILINE)
    assert held is not None
    resource.setrlimit(resource.RLIMIT_AS, (int(held[1]) * 1024 + room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def state() -> None:
    """A cache of many positions."""
    _with_state(None)


def first_value() -> None:
    """A state that does not begin as zeros: what it begins as is remembered."""
    contents = torch.zeros(MUCH // 4)
    with little_room():
        _with_state(contents)


def _with_state(contents: torch.Tensor | None) -> None:
    build = Builder()
    kept = build.state("keys", DType.F32, (MUCH // 4, 1, 1, 1), None if contents is None else lambda: contents)
    build.output("y", build.emit("neg", build.view(kept, (0, 0, 0, 0), (1, 1, 1, 1))), (1,))
    constants = {} if contents is None else {"keys": contents}
    program = serialize(build.finish())
    if contents is not None:
        Session(program, constants)
    with little_room():
        Session(program, constants)


def values() -> None:
    """Intermediate values."""
    build = Builder()
    x = build.input("x", DType.F32, (1,), (1, 1, 1, 1))
    wide = build.broadcast(x, (MUCH // 4, 1, 1, 1))
    build.output("y", build.emit("sum_rows", build.emit("sqr", wide)), (1,))
    _run(build, {}, np.ones(1, np.float32))


def output() -> None:
    """An output, which is memory of its own."""
    build = Builder()
    x = build.input("x", DType.F32, (1,), (1, 1, 1, 1))
    build.output("y", build.broadcast(x, (MUCH // 4, 1, 1, 1)), (MUCH // 4,))
    _run(build, {}, np.ones(1, np.float32))


def kernels() -> None:
    """What ggml's kernels need beside the values: here the other operand in int8, for a type that ggml multiplies."""
    build = Builder()
    rows = MUCH // 4096 // 4
    x = build.input("x", DType.F32, (rows, 4096), (4096, rows, 1, 1))
    weight = build.constant("weight", DType.IQ4_NL, (4096, 2, 1, 1))
    build.output("y", build.emit("mul_mat", weight, x), (rows, 2))
    data = torch.zeros(DType.IQ4_NL.nbytes(2 * 4096), dtype=torch.uint8)
    _run(build, {"weight": data}, np.ones((rows, 4096), np.float32))


def _run(build: Builder, constants: dict[str, torch.Tensor], x: np.ndarray) -> None:
    session = Session(serialize(build.finish()), constants)
    with little_room():
        session.run(x)


def packed_weights() -> None:
    """A quantized matrix in the layout that its kernels want."""
    build = Builder()
    rows = MUCH // (4096 // 32 * 18) // 8 * 8  # the layout has groups of eight
    x = build.input("x", DType.F32, (1, 4096), (4096, 1, 1, 1))
    weight = build.constant("weight", DType.Q4_0, (4096, rows, 1, 1))
    build.output("y", build.emit("mul_mat", weight, x), (1, rows))
    program, data = serialize(build.finish()), np.zeros(rows * (4096 // 32 * 18), np.uint8)
    with little_room():
        Session(program, {"weight": data})


def threads() -> None:
    """More threads than there is place for their stacks."""
    build = Builder()
    x = build.input("x", DType.F32, (1,), (1, 1, 1, 1))
    build.output("y", build.emit("neg", x), (1,))
    program = serialize(build.finish())
    Session(program, threads=1)
    with little_room():
        Session(program, threads=64)


def gguf() -> None:
    """A file that is larger than what can be mapped."""
    name = b"weight"
    header = struct.pack("<4sIQQ", b"GGUF", 3, 1, 0)
    header += struct.pack(f"<Q{len(name)}sIQIQ", len(name), name, 1, MUCH // 4, 0, 0)
    with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
        file.write(header.ljust(-(-len(header) // 32) * 32, b"\0"))
        file.truncate(file.tell() + MUCH)
        file.flush()
        GgufFile(file.name)
        with little_room():
            GgufFile(file.name)


def quantizer() -> None:
    """The tables of a type that has large ones."""
    rows, into = torch.ones(1, 256), torch.empty(66, dtype=torch.uint8)
    libc = ctypes.CDLL(None)
    libc.malloc.argtypes, libc.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    libc.free.argtypes = [ctypes.c_void_p]
    held = []
    try:
        with little_room(2 << 20):
            while taken := libc.malloc(8 << 20):  # what the heap has left
                held.append(taken)
            _session.quantize(DType.IQ2_XXS.ggml_type, rows.numpy(), into.numpy(), np.ones(256, np.float32))
    finally:
        for taken in held:
            libc.free(taken)


CASES: tuple[Callable[[], None], ...] = (
    state,
    first_value,
    values,
    output,
    kernels,
    packed_weights,
    threads,
    gguf,
    quantizer,
)


def main() -> None:
    faulthandler.enable()
    for case in CASES:
        try:
            case()
        except Exception as error:  # noqa: BLE001, RUF100 - each is looked at
            print(f"{case.__name__}: {type(error).__name__}: {error}", flush=True)
        else:
            print(f"{case.__name__}: nothing", flush=True)


if __name__ == "__main__":
    main()
