"""Runs a program with ExecuTorch's tracing, and reads the times of its nodes from the ETDump."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from executorch.devtools.etdump.serialize import deserialize_from_etdump_flatcc

from ..ir.formulas import seen
from ..ir.graph import Graph, Node
from ..ir.serialize import deserialize, targets_of
from ..progress import counted
from ..pte import plan_of
from ..runtime import get_num_threads, load
from ..runtime._library import close_gguf, open_gguf
from .records import DelegateProfile, NodeProfile, Profile, Source
from .sources import Sources, no_sources, sources_of

BACKEND = "GgmlBackend"
EXECUTE = "Execute"  # the name of ETDump's block for one call of a method
Span = Mapping[int, float]  # nanoseconds by number of the call


def profile(
    program: str | Path,
    inputs: Sequence[Any],
    *,
    method: str = "forward",
    calls: int = 20,
    warmup: int = 5,
    data_path: str | Path | None = None,
    gguf: Sequence[str | Path] = (),
    etrecord: str | Path | None = None,
) -> Profile:
    """Run a method of a .pte file, and say how long each of its nodes takes.

    ``warmup`` calls are made first and not measured. ``data_path`` and ``gguf`` are the files with the program's
    weights, where these are apart (:func:`executorch_ggml.load`). ``etrecord`` is the file that ExecuTorch wrote when
    the program was exported (``generate_etrecord=True``); with it nodes tell modules and source lines. The device and
    the threads are those of :func:`executorch_ggml.set_device` and :func:`executorch_ggml.set_num_threads`. On a device
    nodes are computed one by one, which takes longer than the whole graph.
    """
    if calls < 1 or warmup < 0:
        raise ValueError(f"calls is {calls} and warmup {warmup}; expected at least one call to measure")
    path = Path(program)
    plan, payloads = plan_of(path, method)
    sources = no_sources if etrecord is None else sources_of(Path(etrecord), method)
    with _opened(gguf):
        untraced = _untraced(path, data_path, method, inputs, calls, warmup)
        etdump = _traced(path, data_path, method, inputs, calls + warmup)
    blocks = [run for run in deserialize_from_etdump_flatcc(etdump).run_data if run.name == EXECUTE][warmup:]
    events = _Events([block.events for block in blocks])
    delegates = [_Delegate.of(index, delegate, payloads) for index, delegate in enumerate(plan.delegates)]
    nodes, called = _profiles(plan, delegates, events, sources)
    whole = [events.method.get(call, 0.0) for call in range(len(blocks))]
    return Profile(
        program=str(path),
        method=method,
        calls=len(blocks),
        median_ns=statistics.median(whole),
        total_ns=sum(whole),
        untraced_median_ns=untraced,
        delegates=tuple(called),
        nodes=tuple(nodes),
        threads=get_num_threads(),
        etdump=etdump,
    )


@contextmanager
def _opened(files: Sequence[str | Path]) -> Iterator[None]:
    """Have GGUF files open, where the delegate finds a program's weights."""
    with ExitStack() as stack:
        for file in files:
            stack.callback(close_gguf, open_gguf(os.fspath(file)))
        yield


def _untraced(
    path: Path, data_path: str | Path | None, method: str, inputs: Sequence[Any], calls: int, warmup: int
) -> float:
    """The median time of a call that nobody traces."""
    module = load(path, data_path=data_path)
    times = []
    for _ in counted("timing calls", range(warmup + calls)):
        begin = time.perf_counter_ns()
        module.run(method, inputs)
        times.append(time.perf_counter_ns() - begin)
    return float(statistics.median(times[warmup:]))


def _traced(path: Path, data_path: str | Path | None, method: str, inputs: Sequence[Any], calls: int) -> bytes:
    module = load(path, data_path=data_path, etdump=True)
    for _ in counted("tracing calls", range(calls)):
        module.run(method, inputs)
    return module.etdump()[0]


class _Events:
    """The events of all measured calls, by what they are of; several of one thing in a call are added."""

    def __init__(self, calls: Sequence[Sequence[Any]]) -> None:
        self.method: dict[int, float] = {}
        self.delegates: defaultdict[int, dict[int, float]] = defaultdict(dict)  # by instruction
        self.operators: defaultdict[int, dict[int, float]] = defaultdict(dict)
        self.nodes: defaultdict[tuple[int, int], dict[int, float]] = defaultdict(dict)  # by instruction and id
        self.metadata: dict[tuple[int, int], dict[str, Any]] = {}
        for call, events in enumerate(calls):
            for event in events:
                if event.profile_event is not None:
                    self._add(call, event.profile_event)

    def _add(self, call: int, event: Any) -> None:
        taken = float(event.end_time - event.start_time)
        instruction, number = event.instruction_id, event.delegate_debug_id_int
        if number is not None and number >= 0:
            _add(self.nodes[instruction, number], call, taken)
            self.metadata[instruction, number] = json.loads(bytes(event.delegate_debug_metadata or b"{}"))
        elif event.name == "DELEGATE_CALL":
            _add(self.delegates[instruction], call, taken)
        elif event.name == "OPERATOR_CALL":
            _add(self.operators[instruction], call, taken)
        elif event.name == "Method::execute":
            _add(self.method, call, taken)


def _add(times: dict[int, float], call: int, taken: float) -> None:
    times[call] = times.get(call, 0.0) + taken


@dataclass(frozen=True)
class _Delegate:
    """A delegate's nodes by the numbers that its events have; none of other backends."""

    index: int
    backend: str
    nodes: tuple[Node, ...]

    @classmethod
    def of(cls, index: int, delegate: Any, payloads: Callable[[Any], bytes]) -> _Delegate:
        if delegate.id != BACKEND:
            return cls(index, delegate.id, ())
        payload = payloads(delegate)
        graphs: list[Graph] = [deserialize(payload, target) for target in targets_of(payload)]
        return cls(index, delegate.id, tuple(node for graph in graphs for node in graph.nodes))


def _profiles(
    plan: Any, delegates: Sequence[_Delegate], events: _Events, sources: Sources
) -> tuple[list[NodeProfile], list[DelegateProfile]]:
    """Nodes in the order of the instructions that run them, and the delegates that were called."""
    nodes: list[NodeProfile] = []
    called: list[DelegateProfile] = []
    for number, instruction in enumerate(plan.chains[0].instructions):
        kind = type(instruction.instr_args).__name__
        if kind == "KernelCall" and number in events.operators:
            operator = plan.operators[instruction.instr_args.op_index]
            nodes.append(_outside(number, operator, events.operators[number], sources))
        elif kind == "DelegateCall" and number in events.delegates:
            delegate = delegates[instruction.instr_args.delegate_index]
            own = _inside(number, delegate, events, sources)
            nodes += own
            called.append(_delegate(delegate, own, events.delegates[number]))
    return nodes, called


def _inside(instruction: int, delegate: _Delegate, events: _Events, sources: Sources) -> list[NodeProfile]:
    found = []
    for (of_instruction, number), times in events.nodes.items():
        if of_instruction != instruction or number >= len(delegate.nodes):
            continue
        node, metadata = delegate.nodes[number], events.metadata[of_instruction, number]
        joined = [at for at in metadata.get("joined", ()) if at < len(delegate.nodes)]
        nodes = [delegate.nodes[at] for at in (*joined, number)]
        found.append(
            NodeProfile(
                delegate=delegate.index,
                node=number,
                name=node.name,
                op=max(nodes, key=_work).op,
                kernel=metadata.get("kernel", delegate.backend),
                dtype=node.output.dtype.name.lower(),
                shape=tuple(metadata.get("shape", ())),
                device=metadata.get("device", ""),
                sources=tuple(
                    dict.fromkeys(  # several nodes may be of one ATen node
                        source
                        for at in (*joined, number)
                        for source in sources(instruction, at) or (Source(delegate.nodes[at].name),)
                    )
                ),
                calls=len(times),
                median_ns=statistics.median(times.values()),
                total_ns=sum(times.values()),
                multiply_adds=sum(map(_multiply_adds, nodes)),
                bytes=_bytes(nodes),
                joined=tuple(each.name for each in nodes[:-1]),
                joined_nodes=tuple(joined),
            )
        )
    return found


def _outside(instruction: int, operator: Any, times: Span, sources: Sources) -> NodeProfile:
    name = f"{operator.name}.{operator.overload}" if operator.overload else operator.name
    return NodeProfile(
        delegate=None,
        node=instruction,
        name=name,
        op=name,
        kernel="ExecuTorch",
        dtype="",
        shape=(),
        device="CPU",
        sources=sources(instruction, None),
        calls=len(times),
        median_ns=statistics.median(times.values()),
        total_ns=sum(times.values()),
    )


def _delegate(delegate: _Delegate, nodes: Sequence[NodeProfile], times: Span) -> DelegateProfile:
    return DelegateProfile(
        index=delegate.index,
        backend=delegate.backend,
        nodes=len(nodes),
        median_ns=statistics.median(times.values()),
        total_ns=sum(times.values()),
        nodes_total_ns=sum(node.total_ns for node in nodes),
    )


def _values(node: Node) -> list[Any]:
    return [*(value for value in node.inputs if value is not None), node.output]


def _is_static(node: Node) -> bool:
    return all(isinstance(n, int) for value in _values(node) for n in value.ne)


def _multiply_adds(node: Node) -> int:
    """By the op table's formula; 0 where it has none, or sizes are symbolic."""
    if node.spec.work is None or not _is_static(node):
        return 0
    operands = node.spec.operands([value and seen(value) for value in node.inputs], node.attrs)
    return int(node.spec.work(operands | {"result": seen(node.output)}))


def _work(node: Node) -> tuple[bool, int]:
    """Orders nodes by their work. Where sizes are symbolic, ops with a formula of it are the products."""
    return node.spec.work is not None, _multiply_adds(node)


def _bytes(nodes: Sequence[Node]) -> int:
    """Of nodes that one kernel computes; what it hands on between them stays in it."""
    if not all(map(_is_static, nodes)):
        return 0
    handed_on = {node.output for node in nodes[:-1]}
    moved = [value for node in nodes for value in _values(node) if value not in handed_on]
    return sum(value.dtype.nbytes(int(value.count)) for value in moved)
