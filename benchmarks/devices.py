"""Real models on every device, twice: as programs of ours, and in a ggml program that knows nothing of us.

A Llama, a sentence encoder and a ResNet-18, each as a ``.pte`` file whose delegate is told its device, and as a GGUF
file in ``examples/ggml/models.cpp``, which builds its graphs with ggml's API and runs them by ggml's scheduler. Every
program starts twice, each time in a new process, with a cache that is empty at first. An answer that is not the CPU's,
a node that a device gives back, and a second start that compiles anything are errors.

Run it with `make devices`, or `python -m benchmarks.devices`. With `--dry` it does not write to RESULTS.md.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import libggml
import numpy as np

from benchmarks import results
from benchmarks.device_models import MODELS, Files, write
from executorch_ggml.devices import library

ROOT = Path(__file__).resolve().parents[1]
GGML = Path(libggml.__file__).parent
SOURCE = ROOT / "examples" / "ggml" / "models.cpp"

CPU = "CPU"
DEVICES = {
    CPU: "libggml",
    "mlx": "mlx",
    "compiled:openvino": "openvino",
    "compiled:onnxruntime": "onnxruntime",
}  # and the package that each needs
PTE, GGUF = ".pte", "ggml program"
ROUTES = (PTE, GGUF)
TOLERANCE = 1e-5  # f32 sums of up to some 5,000 products, in another order on each device; a wrong node is far off
SECONDS = 2.0


class ShownWrongError(RuntimeError):
    """A device did not do what it should."""


@dataclass
class Start:
    """A process from its start to its end."""

    answer: np.ndarray[Any, Any]
    seconds: float
    """Until the first answer."""
    ms: float | None
    """The median of the runs that followed."""
    nodes: dict[str, int]
    """How many nodes ggml's scheduler has given to each device; none where it had no choice."""
    graphs: dict[str, int]
    """How many graphs they are."""
    hits: int
    misses: int
    log: str = field(repr=False)


def compile_program(folder: Path) -> Path | None:
    """The ggml program, or None where there is no C++ compiler."""
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        return None
    made = folder / "models"
    libraries = [f"-L{GGML / 'lib'}", "-lggml", "-lggml-base", f"-Wl,-rpath,{GGML / 'lib'}"]
    command: list[str | Path] = [compiler, "-std=c++17", "-O2", f"-I{GGML / 'include'}", SOURCE, "-o", made, *libraries]
    subprocess.run(command, check=True)
    return made


def start(route: str, files: Files, device: str, cache: Path, program: Path | None, seconds: float = 0.0) -> Start:
    """Run a model on a device in a new process, and for so many seconds more.

    Raises ShownWrongError where the process fails, or a part of the work was left to the CPU after all.
    """
    with tempfile.TemporaryDirectory() as name:
        output, log = Path(name) / "output", Path(name) / "log"
        command = _command(route, files, device, output, program, seconds)
        with log.open("w") as errors:
            begin = time.perf_counter()
            answered, ms = None, None
            with subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT, env=_environment(device, cache)
            ) as process:
                assert process.stdout is not None
                for line in process.stdout:
                    if line == "answered\n":
                        answered = time.perf_counter() - begin
                    elif line.startswith("ms "):
                        ms = float(line.removeprefix("ms "))
        code = process.returncode
        text = log.read_text(errors="replace")
        if code != 0 or answered is None:
            raise ShownWrongError(f"{files.name}, {route}, {device}: ended with {code}:\n{text[-2000:]}")
        if found := _GIVEN_BACK.search(text):
            raise ShownWrongError(f"{files.name}, {route}, {device}: {found[0]}:\n{text[-4000:]}")
        answer = np.fromfile(output, np.float32).reshape(files.expected.shape)
    nodes, graphs = _placement(text)
    return Start(answer, answered, ms, nodes, graphs, len(_HIT.findall(text)), len(_MISS.findall(text)), text)


_GIVEN_BACK = re.compile(r"[^\n]*(failed|on the CPU|Traceback)[^\n]*")
_HIT, _MISS = (re.compile(rf"^executorch-ggml: compiled: \w+: {what},", re.MULTILINE) for what in ("hit", "miss"))


def _command(
    route: str, files: Files, device: str, output: Path, program: Path | None, seconds: float
) -> Sequence[str | Path]:
    if route == PTE:
        module = [sys.executable, "-m", "benchmarks.device_program"]
        return [*module, files.pte, files.args, output, device, str(seconds)]
    assert program is not None
    return [program, GGML / "lib", files.gguf, files.inputs, output, device, str(seconds)]


def _environment(device: str, cache: Path) -> dict[str, str]:
    """GGML_SCHED_DEBUG lets ggml say where each node goes."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("EXECUTORCH_GGML", "GGML"))}
    made = {**kept, "EXECUTORCH_GGML_CACHE": str(cache), "GGML_SCHED_DEBUG": "2", "GGML_LOG_LEVEL": "info"}
    if device != CPU:
        made["EXECUTORCH_GGML_PYTHON"] = sys.prefix
        made["EXECUTORCH_GGML_DEVICES"] = device
        made["GGML_BACKEND_PATH"] = str(library())
    return made


def _placement(log: str) -> tuple[dict[str, int], dict[str, int]]:
    """Nodes and graphs by device, as ggml's scheduler tells."""
    nodes: dict[str, int] = {}
    graphs: dict[str, int] = {}
    device = ""
    for line in log.splitlines():
        if split := re.match(r"## SPLIT #\d+: (\S+) #", line):
            device = split[1]
            graphs[device] = graphs.get(device, 0) + 1
        elif line.startswith("node #"):
            nodes[device] = nodes.get(device, 0) + 1
    return nodes, graphs


def error(answer: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> float:
    """The largest difference, relative to the largest magnitude."""
    return float(np.abs(answer - expected).max() / np.abs(expected).max())


@dataclass(frozen=True)
class Shown:
    """A model by a route on a device."""

    model: str
    route: str
    device: str
    error: float
    first: Start
    second: Start

    def cells(self) -> list[str]:
        """A row of the table."""
        name = f"{self.model}, {self.route}, {self.device.lower()}"
        ms = "-" if self.second.ms is None else f"{self.second.ms:.3g}"
        seconds = [f"{each.seconds:.1f}" for each in (self.first, self.second)]
        if self.device == CPU:
            return [name, "-", "-", "-", *seconds, "-", ms]
        nodes, graphs = self.first.nodes, self.first.graphs
        placed = f"{nodes.get(self.device, 0)} of {sum(nodes.values())}"
        compiles = self.device.startswith("compiled:")
        cached = f"{self.second.hits} of {self.second.hits + self.second.misses}" if compiles else "-"
        return [name, f"{self.error:.0e}", placed, str(graphs.get(self.device, 0)), *seconds, cached, ms]


HEADER = ["model, route, device", "error", "nodes", "graphs", "first start s", "second start s", "cached", "ms a run"]


def show(
    files: Files, route: str, device: str, cpu: np.ndarray[Any, Any] | None, program: Path | None, seconds: float
) -> Shown:
    """Start a model twice on a device, with an empty cache at first. Raises ShownWrongError."""
    with tempfile.TemporaryDirectory() as name:
        cache = Path(name)
        cache.chmod(0o700)
        first = start(route, files, device, cache, program)
        second = start(route, files, device, cache, program, seconds)
    shown = Shown(files.name, route, device, 0.0 if cpu is None else error(first.answer, cpu), first, second)
    what = f"{files.name}, {route}, {device}"
    against = files.expected if cpu is None else cpu
    for number, each in enumerate((first, second), start=1):
        if not (apart := error(each.answer, against)) <= TOLERANCE:
            raise ShownWrongError(f"{what}: start {number} is wrong by {apart:.1e} of the largest magnitude")
        if device != CPU and not each.nodes.get(device):
            raise ShownWrongError(f"{what}: start {number} had no node on the device")
    if device.startswith("compiled:") and (first.misses == 0 or second.misses or second.hits == 0):
        raise ShownWrongError(f"{what}: {first.misses} misses, then {second.misses} with {second.hits} hits")
    return shown


def missing(device: str) -> bool:
    """Whether a device's package is not installed."""
    return importlib.util.find_spec(DEVICES[device]) is None


def measure(models: Iterable[str], devices: Sequence[str], seconds: float) -> list[Shown]:
    """Everything, printed as it comes; the CPU is the first of the devices."""
    made: list[Shown] = []
    with tempfile.TemporaryDirectory(prefix="devices-") as name:
        folder = Path(name)
        program = compile_program(folder)
        routes = ROUTES if program is not None else (PTE,)
        for model in models:
            files = write(model, folder)
            for route in routes:
                cpu = None
                for device in devices:
                    made.append(show(files, route, device, cpu, program, seconds))
                    cpu = made[-1].first.answer if device == CPU else cpu
                    print(" | ".join(made[-1].cells()), flush=True)
    return made


def body(shown: Sequence[Shown], absent: Sequence[str]) -> str:
    """The section's text."""
    left = f"\n\nNot installed: {', '.join(absent)}." if absent else ""
    return f"""{_EXPLAINED}

{results.markdown_table(HEADER, [each.cells() for each in shown])}{left}"""


_EXPLAINED = f"""[docs/devices.md](../docs/devices.md) says what runs here. "Error" is the largest difference from
the same program on ggml's CPU, relative to the largest magnitude, {TOLERANCE:.0e} at most. "Nodes" are
those that ggml's scheduler gave to the device, of all, and "graphs" the pieces that they are in: the rest is the CPU's,
and nothing was given back. A start is a new process from its beginning, imports and all, to its first answer; "cached"
says how many graphs the second one found compiled."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--devices", nargs="+", choices=list(DEVICES), default=list(DEVICES))
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long each program is timed")
    parser.add_argument("--dry", action="store_true", help="print, and do not write to RESULTS.md")
    options = parser.parse_args()
    absent = [device for device in options.devices if missing(device)]
    devices = [CPU, *(device for device in options.devices if device not in (CPU, *absent))]
    shown = measure(options.models, devices, options.seconds)
    text = body(shown, absent)
    print(text)
    if not options.dry:
        results.write_section("devices", "Devices", text)


if __name__ == "__main__":
    main()
