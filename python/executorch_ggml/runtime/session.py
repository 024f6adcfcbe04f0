"""IR programs run without ExecuTorch: on numpy arrays, torch tensors, or whatever speaks DLPack."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from .. import _session


class Device(NamedTuple):
    """One of ggml's devices. ``kind`` is cpu, gpu, igpu or accel."""

    name: str
    description: str
    kind: str


PROLOGUE = "it depends on integer inputs alone"  # why the CPU computes a node before the device begins


class NodePlacement(NamedTuple):
    """A node of a program: its name, its op in the IR, and ggml's name of the device that computes it.

    ``reason`` is why it is the CPU and none of the program's devices; "" where it is one of these.
    """

    node: str
    op: str
    device: str
    reason: str = ""


class DeviceUse(NamedTuple):
    """What one of a program's devices has, by ggml's name of it.

    ``leaf_bytes`` are weights and states in its memory; each of the ``splits`` is a run of nodes on it. ``bytes_to``
    are inputs and what other devices computed, ``bytes_from`` outputs and what others read; both are 0 where the CPU
    shares the device's memory.
    """

    device: str
    splits: int
    leaf_bytes: int
    bytes_to: int
    bytes_from: int


@dataclass(frozen=True)
class Placement:
    """Where a program's nodes are computed, and what crosses between memories in each call.

    ``devices`` are the program's, in the order of its nodes; ``nodes`` leaves views out. Each of the ``splits`` is a
    run of nodes on one device.
    """

    devices: tuple[DeviceUse, ...]
    nodes: tuple[NodePlacement, ...]
    splits: int

    @property
    def device(self) -> str:
        """The names of the program's devices, with commas between."""
        return ",".join(use.device for use in self.devices)

    @property
    def bytes_to_device(self) -> int:
        """Of all devices."""
        return sum(use.bytes_to for use in self.devices)

    @property
    def bytes_from_device(self) -> int:
        """Of all devices."""
        return sum(use.bytes_from for use in self.devices)

    @property
    def on_device(self) -> int:
        """How many nodes the program's devices compute."""
        return sum(not placed.reason for placed in self.nodes)

    @property
    def in_prologue(self) -> int:
        """How many nodes the CPU computes before the device begins: index arithmetic."""
        return sum(placed.reason == PROLOGUE for placed in self.nodes)

    @property
    def bytes_per_call(self) -> int:
        """What crosses in both directions."""
        return self.bytes_to_device + self.bytes_from_device

    def __str__(self) -> str:
        plural = "" if self.splits == 1 else "s"
        several = len(self.devices) > 1
        who, them = ("devices {} compute", "them") if several else ("device {} computes", "it")
        computed = f"{who.format(self.device)} {self.on_device} of ggml's {len(self.nodes)} nodes"
        moved = f"a call moves {self.bytes_to_device:,} bytes to {them} and {self.bytes_from_device:,} back"
        lines = [f"{computed}, in {self.splits} split{plural}; {moved}"]
        lines += [f"  [{use.device}] {self._described(use)}" for use in self.devices if several]
        if self.in_prologue:
            lines.append(f"  [before it on the CPU x{self.in_prologue}] index arithmetic: {PROLOGUE}")
        left = Counter((p.device, p.op, p.reason) for p in self.nodes if p.reason not in ("", PROLOGUE))
        lines += [f"  [left to {device} x{n}] {op}: {reason}" for (device, op, reason), n in left.most_common()]
        return "\n".join(lines)

    def _described(self, use: DeviceUse) -> str:
        nodes = sum(placed.device == use.device and not placed.reason for placed in self.nodes)
        moved = f"a call moves {use.bytes_to:,} bytes to it and {use.bytes_from:,} back"
        return f"{nodes} nodes in {use.splits}, {use.leaf_bytes:,} bytes of weights and states; {moved}"


class MemoryBlock(NamedTuple):
    """A block of the working memory, needed from one step to another.

    It holds the result of the program's node ``node``; -1: a copy.
    """

    node: int
    offset: int
    size: int
    first: int
    last: int


class MemoryUse(NamedTuple):
    """Where a run's intermediate values lie on the CPU.

    A step is a node of ggml's; ``steps`` has the number of the program's node that each is a part of, -1 for copies.
    """

    bytes: int
    steps: list[int]
    blocks: list[MemoryBlock]


class Cpu(NamedTuple):
    """What programs run on where they run on the CPU. Instruction sets have the names of EXECUTORCH_GGML_CPU.

    ``kernels`` is the instruction set of this runtime's own kernels, ``library`` the path of ggml's CPU library and
    ``library_isa`` the instruction set that it was compiled for.
    """

    kernels: str
    library: str
    library_isa: str


def cpu() -> Cpu:
    """The kernels and the library of ggml's that the CPU uses.

    Raises RuntimeError where ggml has no CPU library here that is right and that EXECUTORCH_GGML_CPU allows.
    """
    return Cpu(*_session.cpu())


def list_devices() -> list[Device]:
    """The devices that ggml has here; each name is good for ``Session(device=...)``."""
    return [Device(*entry) for entry in _session.devices()]


def add_rpc_server(endpoint: str) -> list[Device]:
    """Connect to a server of ggml-rpc at ``host:port``: its devices, which :func:`list_devices` has from then on.

    Raises RuntimeError where there is none, it does not answer, or speaks another version of the protocol.
    """
    names = _session.add_rpc_server(endpoint)
    return [device for device in list_devices() if device.name in names]


DeviceNames: TypeAlias = str | Sequence[str] | Mapping[str, float]
"""A device by its name, or several: names, or each with the share of weights and states that it gets.

As a string ``"CUDA0=3,CUDA1=1"``; without shares they are by free memory.
"""


def device_list(device: DeviceNames) -> str:
    """The form that the native runtime reads, which checks it."""
    if isinstance(device, str):
        return device
    if not device:
        raise ValueError("no device in the list; name one")
    if isinstance(device, Mapping):
        return ",".join(f"{name}={float(share)!r}" for name, share in device.items())
    return ",".join(device)


def paths(path_or_paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    """One path or several, as a list."""
    several = [path_or_paths] if isinstance(path_or_paths, (str, os.PathLike)) else path_or_paths
    return [os.fspath(path) for path in several]


def _op_name(number: int) -> str:
    from ..ir.ops import OPS

    spec = OPS.by_number(number)
    return f"op #{number}" if spec is None else spec.name


class States:
    """States by name, for sessions to share: those of ``Session(..., states=)`` that have the same name are one.

    The first session to name a state makes it, with its first contents. A later one that declares it of another type
    or shape raises RuntimeError.
    """

    def __init__(self) -> None:
        self._states = _session.States()

    def reset(self) -> None:
        """Put all of them back to their first contents."""
        self._states.reset()


def _in_precision(
    program: bytes, constants: Mapping[str, Any], precision: str, device: DeviceNames
) -> tuple[bytes, Mapping[str, Any]]:
    if device_list(device) != "cpu":
        raise ValueError(f"Session: precision={precision!r} on {device}: export the program with it for other devices")
    from .precision import in_precision  # with torch

    return in_precision(program, constants, precision)


class Session:
    """A program made ready: IR bytes (``executorch_ggml.ir.serialize``) and its constants by key.

    Constants are used in place where they are aligned to 32 bytes, and copied once where not. Runs release the GIL;
    runs of one session from several threads take turns. Raises RuntimeError with the reason where a program or an
    input is not right.

    Ctrl-C ends a run in the main thread between two nodes that the CPU computes. On the CPU states are written at the
    run's end, all or none, except for the rows that ``update_state`` writes in place.

    A program may use ``max_memory`` bytes for its intermediate values, outputs and states (without it: the machine's
    memory), and ``max_work`` multiply-adds a run (without it: hours of work); one that asks for more is refused. Set
    both where programs come from others.

    Constants that were left in a GGUF file at export are taken from ``gguf``, the path of that file (or of several).

    ``device`` may be several (see :data:`DeviceNames`): each has one run of the program's nodes, with the weights and
    states that these read.

    The program's states are the session's own, or shared with the other sessions that are given the same ``states``.

    ``precision`` ("bf16", "f16" or "int8-dynamic", see :class:`executorch_ggml.GgmlPartitioner`) is for programs on the
    CPU whose layers were exported in float32: their weights among ``constants`` are converted here, into memory of the
    session's own. Raises ValueError where no layer is left for it, as in a program that was exported with one, and for
    other devices, for which the program is exported with it.

    ``winograd`` says whether the CPU may compute 3x3 convolutions by Winograd's algorithm, which takes up to a quarter
    of the multiplications, and memory for four times the weights of these layers; errors are then relative to the
    largest of 6x6 pixels, some 2e-6 of it. In int8 nothing is rounded. None: by ``EXECUTORCH_GGML_WINOGRAD`` (0 or 1),
    or True.
    """

    def __init__(
        self,
        program: bytes,
        constants: Mapping[str, Any] | None = None,
        *,
        device: DeviceNames = "cpu",
        threads: int = 0,
        max_memory: int | None = None,
        max_work: int | None = None,
        states: States | None = None,
        gguf: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
        precision: str | None = None,
        winograd: bool | None = None,
    ) -> None:
        for name, value in (("max_memory", max_memory), ("max_work", max_work)):
            if value is not None and value < 1:
                raise ValueError(f"Session: {name}={value}, expected 1 or more")
        if precision is not None:
            program, constants = _in_precision(program, constants or {}, precision, device)
        self._session = _session.Session(
            program,
            dict(constants or {}),
            device_list(device),
            threads,
            max_memory or 0,
            max_work or 0,
            None if states is None else states._states,
            paths(gguf),
            winograd,
        )

    def run(self, *inputs: Any) -> list[Any]:
        """The outputs as numpy arrays, for C-contiguous CPU arrays of the exported dtypes (bfloat16 by DLPack)."""
        return list(self._session.run(list(inputs)))

    def __call__(self, *inputs: Any) -> list[Any]:
        """The same as :meth:`run`."""
        return self.run(*inputs)

    def placement(self, *inputs: Any) -> Placement:
        """Where each node is computed for inputs of these types and sizes; nothing is run."""
        devices, nodes, splits = self._session.placement(list(inputs))
        placed = tuple(NodePlacement(node, _op_name(op), name, reason) for node, op, name, reason in nodes)
        return Placement(tuple(DeviceUse(*use) for use in devices), placed, splits)

    def memory_use(self, *inputs: Any) -> MemoryUse:
        """Where intermediate values lie on the CPU, for inputs of these types and sizes; nothing is run.

        They are those of a run of the whole batch, also where runs are divided.
        """
        size, steps, blocks = self._session.memory_use(list(inputs))
        return MemoryUse(size, steps, [MemoryBlock(*block) for block in blocks])

    def reset(self) -> None:
        """Put the program's states back to their first contents (with ``states``: for all that share them)."""
        self._session.reset()

    @property
    def input_names(self) -> Sequence[str]:
        """Names of the inputs, in order."""
        return list(self._session.input_names)

    @property
    def output_names(self) -> Sequence[str]:
        """Names of the outputs, in order."""
        return list(self._session.output_names)

    @property
    def prepared_count(self) -> int:
        """How many sets of input sizes are kept ready: at most eight, and as many of the parts of batches."""
        return int(self._session.prepared_count)
