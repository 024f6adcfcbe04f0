"""What the page shows and ``inspect --to json`` prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class Kind(str, Enum):
    """Who computes a node."""

    GGML = "ggml"
    OUTSIDE = "outside"  # ExecuTorch's kernels
    OTHER = "other"  # another backend's delegate, as one node
    INPUT = "input"
    OUTPUT = "output"


@dataclass
class Node:
    """A call, or an input or output of the method. ``part`` is the delegate's name, "" outside.

    ``name`` is the ATen node's that it comes from. ``microseconds`` is the time of a run, ``error`` the largest
    difference from eager over eager's largest magnitude; both None where not measured. ``joined_to`` is the node whose
    kernel computes this one too, and whose time is both's.
    """

    id: str
    kind: Kind
    op: str
    name: str
    part: str = ""
    module: str = ""
    module_type: str = ""
    source: str = ""
    result: str = ""  # type and shape
    attributes: str = ""
    result_bytes: int = 0
    weights: list[str] = field(default_factory=list)
    weight_bytes: int = 0
    boundary_bytes: int = 0  # of an outside node: what it reads from delegates and they from it
    reason: str = ""  # why it stayed outside
    microseconds: float | None = None
    joined_to: str = ""
    error: float | None = None


@dataclass(frozen=True)
class Edge:
    """A node's result, read by another node."""

    source: str
    target: str
    value: str  # type and shape


@dataclass(frozen=True)
class Weight:
    """A constant of the program."""

    key: str
    part: str
    module: str
    dtype: str
    shape: tuple[int, ...]
    storage: str
    bytes: int


@dataclass(frozen=True)
class Block:
    """A value in an arena: needed from step ``first`` to step ``last``."""

    node: str
    label: str
    offset: int
    size: int
    first: int
    last: int


@dataclass(frozen=True)
class Arena:
    """Memory that is planned ahead. ``steps`` names what runs at each step."""

    name: str
    sizes: str  # the input sizes that it is planned for
    bytes: int
    steps: tuple[str, ...]
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Measured:
    """What runs of a method were seen to take and to give, by the ids of nodes.

    ``microseconds`` is the time of a whole run. Errors are over eager's largest magnitude in that result. ``joined``
    has the nodes that another's kernel computes, with that node.
    """

    times: Mapping[str, float] = field(default_factory=dict)
    microseconds: float | None = None
    errors: Mapping[str, float] = field(default_factory=dict)
    joined: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Refusal:
    """Why nodes of an op stayed outside, and what they cost a run."""

    op: str
    reason: str
    nodes: tuple[str, ...]  # those that are found among the method's calls
    count: int
    boundary_bytes: int
    microseconds: float | None


@dataclass
class Method:
    """A method of the program."""

    name: str
    inputs: list[str]
    nodes: list[Node]
    edges: list[Edge]
    weights: list[Weight]
    arenas: list[Arena]
    refusals: list[Refusal]
    microseconds: float | None = None  # of a run; nodes' times may add up to less

    @property
    def calls(self) -> list[Node]:
        """The nodes that compute something."""
        return [node for node in self.nodes if node.kind not in (Kind.INPUT, Kind.OUTPUT)]


@dataclass
class Report:
    """A program. ``notes`` say where its facts come from and what is missing."""

    program: str
    bytes: int
    version: str
    methods: list[Method]
    notes: list[str]
