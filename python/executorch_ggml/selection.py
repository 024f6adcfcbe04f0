"""What a runtime needs for given programs, and building one with that alone (``executorch-ggml build-runtime``)."""

from __future__ import annotations

import enum
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .ir.codegen import kinds
from .ir.graph import Graph, Node, Value
from .ir.op import AttrSpec, Moves, Writes
from .ir.serialize import deserialize
from .ir.target import Target
from .pte import read_program

BACKEND = "GgmlBackend"
_MARKS = ("CMakeLists.txt", "native/runtime/session.cpp")
"""Files of a source tree of this package."""


@dataclass(frozen=True)
class Selection:
    """What programs use, by its names in the IR: :class:`~.ir.codegen.Selection` is how it is read again."""

    ops: tuple[str, ...]
    types: tuple[str, ...]
    kinds: dict[str, tuple[str, ...]]
    families: tuple[str, ...]
    states: bool
    ggml: bool
    batches: bool

    def to_json(self) -> str:
        """What CMake's EXECUTORCH_GGML_SELECTION names."""
        return json.dumps(asdict(self), indent=2) + "\n"


def selection_of(programs: Sequence[str | os.PathLike[str]]) -> Selection:
    """What .pte files need on the CPU.

    Raises ValueError for a program without a graph of ours, and for one whose weights are in a GGUF file.
    """
    graphs = [graph for path in programs for graph in _graphs(Path(path))]
    nodes = [node for graph in graphs for node in graph.nodes]
    return Selection(
        tuple(sorted({node.op for node in nodes})),
        tuple(sorted({value.dtype.name.lower() for graph in graphs for value in graph.values()})),
        _kinds(nodes),
        tuple(sorted({name for node in nodes for name in node.spec.families_of(node.inputs, node.attrs)})),
        states=any(graph.states for graph in graphs),
        ggml=any(map(_may_run_in_ggml, graphs)),
        batches=any(symbol.batch for graph in graphs for symbol in graph.symbols),
    )


def _kinds(nodes: Sequence[Node]) -> dict[str, tuple[str, ...]]:
    """The members of enums in the nodes' attributes."""
    members = [member for node in nodes for attr in node.spec.attrs for member in _members(attr, node.attrs[attr.name])]
    return {
        kind.__name__: tuple(sorted({member.name.lower() for member in members if isinstance(member, kind)}))
        for kind in kinds()
    }


def _members(attr: AttrSpec, value: Any) -> Iterator[enum.IntEnum]:
    """The members of enums in an attribute."""
    if attr.enum is not None:
        yield attr.enum(value)
    for field, part in attr.parts(value) if attr.struct is not None else ():
        yield from _members(field, part)


def _may_run_in_ggml(graph: Graph) -> bool:
    """Whether ggml may compute some of a graph on the CPU: a node, or the copy of an output."""
    return any(node.spec.may_run_in_ggml for node in graph.nodes) or any(
        is_copied(port.value) for port in graph.outputs
    )


def is_copied(output: Value) -> bool:
    """Whether no node computes an output where the caller wants it (``PreparedGraph::output_tensor``)."""
    producer = output.producer
    while producer is not None and producer.op == "reshape" and producer.inputs[0] is not None:
        producer = producer.inputs[0].producer
    return producer is None or producer.spec.moves is Moves.VIEW or producer.spec.writes is not Writes.NO


def _graphs(path: Path) -> list[Graph]:
    program, payload = read_program(path)
    delegates = [delegate for plan in program.execution_plan for delegate in plan.delegates]
    graphs = [deserialize(payload(delegate), Target.CPU) for delegate in delegates if delegate.id == BACKEND]
    if not graphs:
        raise ValueError(f"{path} has nothing that runs on {BACKEND}: `executorch-ggml export` makes such programs")
    if any(constant.key.startswith("gguf:") for graph in graphs for constant in graph.named_constants()):
        raise ValueError(
            f"{path} has its weights in a GGUF file, which a small runtime cannot read: export it with them"
        )
    return graphs


def source_tree(given: Path | None) -> Path:
    """Where the native sources are: the given folder, or the checkout that this package runs from.

    Raises ValueError where that is no source tree.
    """
    for folder in [given] if given else Path(__file__).resolve().parents:
        if all((folder / mark).exists() for mark in _MARKS):
            return folder
    raise ValueError(
        f"{given} is no source tree of executorch-ggml"
        if given
        else "the installed package has no C++ sources: give --source, a checkout or the unpacked sdist"
    )


def build_runtime(
    selection: Selection,
    output: Path,
    levels: Iterable[str] = (),
    source: Path | None = None,
    definitions: Iterable[str] = (),
) -> Path:
    """Build and install a static library with what is selected alone; its path.

    ``output`` gets ``lib``, ``include`` and what ``find_package(executorch_ggml)`` reads, and keeps the build beside
    them for the next time. Raises RuntimeError where CMake or the compiler fails, with the end of what it said.
    """
    build = output / "build"
    build.mkdir(parents=True, exist_ok=True)
    chosen = build / "selection.json"
    if not chosen.exists() or chosen.read_text() != selection.to_json():
        chosen.write_text(selection.to_json())
    configure = [
        *("cmake", "-G", "Ninja", "-S", str(source_tree(source)), "-B", str(build)),
        f"-DEXECUTORCH_GGML_SELECTION={chosen.resolve()}",
        f"-DEXECUTORCH_GGML_LEVELS={';'.join(levels)}",
        f"-DPython_EXECUTABLE={sys.executable}",
        f"-DCMAKE_INSTALL_PREFIX={output.resolve()}",
        *(f"-D{definition}" for definition in definitions),
    ]
    for command in (configure, ["cmake", "--build", str(build)], ["cmake", "--install", str(build)]):
        _run(command)
    found = sorted(output.glob("lib*/*executorch_ggml_runtime.*"))
    if not found:
        raise RuntimeError(f"no library was installed into {output}")
    return found[0]


def _run(command: list[str]) -> None:
    tools = {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])}
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=tools)
    except FileNotFoundError as error:
        raise RuntimeError(f"{command[0]} is not installed: pip install cmake ninja") from error
    if done.returncode != 0:
        raise RuntimeError(
            "\n".join([f"{' '.join(command[:2])} failed:", *(done.stdout + done.stderr).splitlines()[-20:]])
        )
