"""Damages programs thousands of times and loads and runs them: what test_bad_input.py starts as a process of its own.

python -m tests.runtime.damage_programs sessions|pte PROGRAM.pte

Under the old checksum each must be refused. "sealed" damage comes under the right checksum: then a result is as good as
an exception, and only a crash, a hang or an exception of another kind is wrong.
"""

from __future__ import annotations

import faulthandler
import random
import resource
import struct
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tests.native.corpus_program import Program
from tests.native.make_corpus import programs

import executorch_ggml
from executorch_ggml.ir.graph import Graph
from executorch_ggml.ir.serialize import serialize
from executorch_ggml.partition.backend import constant_data
from executorch_ggml.runtime import Session

WAYS = ("flip", "flip-sealed", "truncate", "truncate-sealed")
TIMES = 3000  # in each way
HEADER = struct.Struct("<4sIQ")
ADDRESS_SPACE = 6 << 30  # what the imports map, and some: the programs' own bound is far below it
MAX_MEMORY = 32 << 20
MAX_WORK = 1 << 24


def flipped(data: bytes, rng: random.Random) -> bytes:
    """The data with one to three bits flipped."""
    made = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        made[rng.randrange(len(made))] ^= 1 << rng.randrange(8)
    return bytes(made)


def truncated(data: bytes, rng: random.Random) -> bytes:
    """The data without its end."""
    return data[: rng.randrange(len(data))]


def damaged(way: str, ir: bytes, rng: random.Random) -> bytes:
    """One damaged form of a program."""
    damage = flipped if way.startswith("flip") else truncated
    if not way.endswith("-sealed"):
        return damage(ir, rng)
    body = damage(ir[HEADER.size :], rng)
    return HEADER.pack(b"EGGM", zlib.crc32(body), len(body)) + body


def constants_of(graph: Graph) -> dict[str, np.ndarray[Any, Any]]:
    """The graph's constants as bytes."""
    return {c.key: constant_data(c).numpy() for c in graph.named_constants()}


Ready = list[tuple[Program, bytes, dict[str, Any]]]


def ready_programs() -> Ready:
    """The corpus with each program's bytes and constants."""
    ready = []
    for program in programs().values():
        graph = program.build.finish()
        ready.append((program, serialize(graph), constants_of(graph)))
    return ready


def damage_sessions(way: str, ready: Ready) -> str:
    """Damaged IR through sessions. Returns what happened."""
    rng = random.Random(way)
    keeper = _session(ready[0][1], ready[0][2])  # holds the threads that all sessions share
    counts = {"refused": 0, "failed": 0, "ran": 0}
    for i in range(TIMES):
        program, ir, constants = ready[i % len(ready)]
        outcome = _try_ir(damaged(way, ir, rng), constants, program)
        if outcome != "refused" and not way.endswith("-sealed"):
            raise AssertionError(f"{way} {i}: {outcome}, though its checksum is wrong")
        counts[outcome] += 1
    for program, ir, constants in ready:
        _session(ir, constants).run(*program.inputs)
    del keeper
    return ", ".join(f"{count} {outcome}" for outcome, count in counts.items())


def _session(ir: bytes, constants: dict[str, Any]) -> Session:
    return Session(ir, constants, threads=2, max_memory=MAX_MEMORY, max_work=MAX_WORK)


def _try_ir(ir: bytes, constants: dict[str, Any], program: Program) -> str:
    try:
        session = _session(ir, constants)
    except RuntimeError as error:
        return _explained(error, "refused")
    try:
        session.run(*program.inputs)
    except RuntimeError as error:
        return _explained(error, "failed")
    return "ran"


def _explained(error: Exception, outcome: str, what: str = " ") -> str:
    if what not in str(error):
        raise AssertionError(f"a message that names nothing: {error}")
    return outcome


def damage_pte(path: Path) -> str:
    """Damaged IR, under the right checksum, inside a .pte. Returns what happened."""
    rng = random.Random("pte")
    data = path.read_bytes()
    start = data.index(b"EGGM")
    size = HEADER.unpack_from(data, start)[2]
    ir = data[start : start + HEADER.size + size]
    args = (torch.tensor([1, 2, 9]), torch.linspace(-1, 1, 24).reshape(3, 8))
    expected = executorch_ggml.load(path)(*args)
    keeper = executorch_ggml.load(path)
    keeper(*args)
    counts = {"failed": 0, "ran": 0}
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "damaged.pte"
        for i in range(TIMES // 3):
            bad = damaged("flip-sealed" if i % 2 else "flip", ir, rng)
            copy.write_bytes(data[:start] + bad + data[start + len(ir) :])
            try:
                executorch_ggml.load(copy)(*args)
                counts["ran"] += 1
            except RuntimeError as error:
                counts[_explained(error, "failed", str(copy))] += 1
    torch.testing.assert_close(keeper(*args), expected)
    return ", ".join(f"{count} {outcome}" for outcome, count in counts.items())


def main() -> None:
    """Command line."""
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    what, pte = sys.argv[1:]
    if what == "pte":
        print(f"pte: {damage_pte(Path(pte))}")
        return
    ready = ready_programs()
    for way in WAYS:
        print(f"{way}: {damage_sessions(way, ready)}", flush=True)  # the first that is missing is where it crashed


if __name__ == "__main__":
    main()
