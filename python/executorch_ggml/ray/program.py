"""Where an actor finds its program: a path on its node, or bytes that are written there once."""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from filelock import FileLock

from ..runtime import set_num_threads

PathOrBytes: TypeAlias = str | os.PathLike[str] | bytes


@dataclass(frozen=True)
class StoredProgram:
    """A program in Ray's object store, and the name of its file on each node."""

    reference: Any
    digest: str


Program: TypeAlias = PathOrBytes | StoredProgram


def shared(program: PathOrBytes) -> Program:
    """Put a program's bytes into the object store once; a path stays a path."""
    if not isinstance(program, bytes):
        return os.fspath(program)
    import ray

    return StoredProgram(ray.put(program), _digest(program))


def path_of(program: Program) -> Path:
    """The program's file on this node, which all actors of the node map and so share in memory."""
    if isinstance(program, StoredProgram):
        return _written(program.digest, program)
    if isinstance(program, bytes):
        return _written(_digest(program), program)
    path = Path(program)
    if not path.is_file():
        raise FileNotFoundError(
            f"{path}: no such program on node {os.uname().nodename}; copy it there, or pass its bytes"
        )
    return path


def use_threads(count: int) -> None:
    """Have this process compute on some threads, and the libraries beside ours too."""
    import torch

    set_num_threads(count)
    torch.set_num_threads(count)
    os.environ["RAYON_NUM_THREADS"] = str(count)  # of tokenizers, which read it at their first batch


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _written(digest: str, program: bytes | StoredProgram) -> Path:
    """The file of some bytes, written by the first actor of the node that asks."""
    folder = Path(tempfile.gettempdir()) / f"executorch-ggml-programs-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to another user; set TMPDIR to a folder of your own")
    path = folder / f"{digest}.pte"
    with FileLock(f"{path}.lock"):
        if not path.exists():
            partial = path.with_suffix(".partial")
            partial.write_bytes(_bytes(program))
            partial.replace(path)
    return path


def _bytes(program: bytes | StoredProgram) -> bytes:
    if isinstance(program, bytes):
        return program
    import ray

    data: bytes = ray.get(program.reference)
    return data
