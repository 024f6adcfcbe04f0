"""What a profile says: times of a program's nodes, by node, op or module. Plain data; imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

By = Literal["node", "op", "module"]

UNKNOWN = "(unknown)"  # the module of a node that no ETRecord says it of


@dataclass(frozen=True)
class Source:
    """An ATen node that a node computes, and where the model's code calls it. "" and 0 where only an ETRecord knows."""

    name: str  # the node's in the Edge program: "aten_convolution_default"
    op: str = ""  # "aten.convolution.default"
    module: str = ""  # path in the model: "layer1.0.conv1"
    module_type: str = ""  # "Conv2d"
    file: str = ""
    line: int = 0
    code: str = ""


@dataclass(frozen=True)
class NodeProfile:
    """One node of a delegate's graph, or one call of a kernel of ExecuTorch's, over all measured calls of the method.

    A node that is made of several of ggml's has the time of all of them.
    """

    delegate: int | None  # index among the method's delegates; None: outside of them
    node: int  # number in the delegate's graph; outside: the number of the instruction
    name: str  # in the graph; outside: the operator's name
    op: str  # the IR's, of joined nodes that of the most work; outside: the operator's name
    kernel: str  # "ggml", "own" (a kernel of this runtime), a delegate's name (another backend's), "ExecuTorch"
    dtype: str  # of the output; "" outside
    shape: tuple[int, ...]  # of the output in the last call, outermost first
    device: str  # ggml's name of the device that computes it; "CPU" outside
    sources: tuple[Source, ...]  # the ATen nodes that it computes
    calls: int  # times that it ran
    median_ns: float  # of a call of the method
    total_ns: float  # of all measured calls
    multiply_adds: int = 0  # of a call, where the op table has a formula; else 0
    bytes: int = 0  # that a call reads and writes: inputs, weights, output
    joined: tuple[str, ...] = ()  # nodes before it that its kernel computes too: it has their time, sources and work
    joined_nodes: tuple[int, ...] = ()  # their numbers

    @property
    def module(self) -> str:
        """The module that most of its ATen nodes are called in; "" where that is unknown."""
        modules = [source.module for source in self.sources if source.module]
        return max(dict.fromkeys(modules), key=modules.count) if modules else ""

    @property
    def source_line(self) -> str:
        """The file and line of the first ATen node whose are known, "model.py:12"; else ""."""
        return next((f"{source.file}:{source.line}" for source in self.sources if source.file), "")


@dataclass(frozen=True)
class DelegateProfile:
    """One delegate: its nodes' times, and what it took beside them: copying inputs, starting threads."""

    index: int
    backend: str
    nodes: int  # that were measured
    median_ns: float  # of the delegate's call, by ExecuTorch's clock
    total_ns: float
    nodes_total_ns: float


@dataclass(frozen=True)
class Row:
    """Nodes that have an op, a module or a name in common."""

    key: str
    nodes: tuple[NodeProfile, ...]
    total_ns: float
    median_ns: float  # the sum of their medians
    share: float  # of the method's time
    cumulative: float

    @property
    def gflops(self) -> float | None:
        """Billions of operations a second, two for each multiply-add; None where the op table has no formula."""
        work = sum(node.multiply_adds for node in self.nodes)
        return 2 * work / self.median_ns if work and self.median_ns else None

    @property
    def gbytes(self) -> float | None:
        """Billions of bytes a second; None where no sizes are known."""
        moved = sum(node.bytes for node in self.nodes)
        return moved / self.median_ns if moved and self.median_ns else None


@dataclass(frozen=True)
class Profile:
    """Times of a method, of ``calls`` calls after some that were not measured."""

    program: str  # its path; "" for one in memory
    method: str
    calls: int
    median_ns: float  # of a call of the method, traced
    total_ns: float
    untraced_median_ns: float  # of a call without tracing, by the clock around it: with Python's part
    delegates: tuple[DelegateProfile, ...]
    nodes: tuple[NodeProfile, ...]  # in the order in which they ran
    threads: int = 0
    etdump: bytes = field(default=b"", repr=False)

    @property
    def outside_ns(self) -> float:
        """Time of ExecuTorch's kernels, of all calls."""
        return sum(node.total_ns for node in self.nodes if node.delegate is None)

    @property
    def unaccounted_ns(self) -> float:
        """Time of all calls that no node had: copies at delegates' borders, the interpreter, tracing."""
        return max(0.0, self.total_ns - sum(node.total_ns for node in self.nodes))

    def by(self, what: By) -> list[Row]:
        """Rows with the longest time first."""
        groups: dict[str, list[NodeProfile]] = {}
        for node in self.nodes:
            groups.setdefault(_KEYS[what](node), []).append(node)
        return _rows(groups, self.total_ns)

    def as_dict(self) -> dict[str, Any]:
        """What ``json.dumps`` takes, without the ETDump."""
        facts = asdict(self)
        del facts["etdump"]
        for shown, node in zip(facts["nodes"], self.nodes, strict=True):
            shown |= {"module": node.module, "source_line": node.source_line}
        return facts | {"outside_ns": self.outside_ns, "unaccounted_ns": self.unaccounted_ns}


def _node_key(node: NodeProfile) -> str:
    return f"{'-' if node.delegate is None else node.delegate}:{node.node} {node.name}"


_KEYS: dict[By, Callable[[NodeProfile], str]] = {
    "node": _node_key,
    "op": lambda node: node.op,
    "module": lambda node: node.module or UNKNOWN,
}


def _rows(groups: dict[str, list[NodeProfile]], total_ns: float) -> list[Row]:
    def total(nodes: Iterable[NodeProfile]) -> float:
        return sum(node.total_ns for node in nodes)

    rows, cumulative = [], 0.0
    for key, nodes in sorted(groups.items(), key=lambda item: -total(item[1])):
        share = total(nodes) / total_ns if total_ns else 0.0
        cumulative += share
        median = sum(node.median_ns for node in nodes)
        rows.append(Row(key, tuple(nodes), total(nodes), median, share, cumulative))
    return rows
