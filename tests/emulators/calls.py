"""Calls of exported programs as files, for `run_pte` on another machine. Imports no torch."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
LIST = "programs.json"


class Call(NamedTuple):
    """The files of the inputs with their shapes, and of the output that eager PyTorch gives."""

    name: str
    program: str
    inputs: list[str]
    shapes: list[list[int]]
    expected: str
    tolerance: float


def export(folder: Path, names: Sequence[str] = ()) -> None:
    """Export programs, or all, in a process of its own: torch's memory is free again before anything is emulated."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "tests.emulators.programs", str(folder), *names], cwd=ROOT, check=True)


def write_list(folder: Path, calls: list[Call]) -> None:
    """Write the list of a folder's calls."""
    (folder / LIST).write_text(json.dumps([call._asdict() for call in calls], indent=1))


def read_list(folder: Path) -> list[Call]:
    """The list of a folder's calls."""
    return [Call(**call) for call in json.loads((folder / LIST).read_text())]


def arguments(folder: Path, call: Call) -> list[str]:
    """What `run_pte` takes for a call: one timed run, since speed in an emulator says nothing."""
    options = [str(folder / call.program), "--tolerance", str(call.tolerance), "--iterations", "1", "--warmup", "0"]
    for file, shape in zip(call.inputs, call.shapes, strict=True):
        options += ["--input", str(folder / file), "--shape", ",".join(map(str, shape))]
    return [*options, "--expect", str(folder / call.expected)]
