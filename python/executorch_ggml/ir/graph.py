"""The IR in memory: plain dataclasses, written by the builder, read by everything else."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .dims import is_one, product, same
from .dtypes import DType
from .op import Dim, Dims, OpSpec
from .panels import pack_panels, panels_bytes
from .storage import PLAIN, Storage, StorageLayout, pack, stored_count
from .target import Target

if TYPE_CHECKING:
    import sympy
    import torch


class IRError(ValueError):
    """The IR does not allow this; the message names the op or value, what it got and what it expected."""


@dataclass(eq=False)
class Value:
    """A tensor: element type, dims in ggml order, strides in elements."""

    dtype: DType
    ne: Dims
    strides: Dims
    producer: Node | None = None

    def __repr__(self) -> str:
        return f"{self.dtype.name.lower()}[{', '.join(str(n) for n in self.ne)}]"

    @cached_property
    def is_contiguous(self) -> bool:
        """Whether the elements are dense and in order, whatever the symbols' values."""
        expected: Dim = 1
        for n, stride in zip(self.ne, self.strides, strict=True):
            if is_one(n):
                continue
            if not same(stride, expected):
                return False
            expected = product([expected, n])
        return True

    @property
    def has_dense_rows(self) -> bool:
        """Whether neighbours along ``ne[0]`` are adjacent in memory."""
        return is_one(self.strides[0])

    @property
    def count(self) -> Dim:
        """Number of elements."""
        return product(self.ne)


def dense_strides(ne: Dims) -> Dims:
    """Strides of a dense tensor."""
    return 1, ne[0], product(ne[:2]), product(ne[:3])


@dataclass(frozen=True)
class TracedForm:
    """How the elements of a value become a tensor of the traced program.

    In their order they have the dims ``ne``; dim ``i`` goes to ``axes[i]``; the result has the ``shape`` (outermost
    first).
    """

    ne: Dims
    axes: tuple[int, int, int, int]
    shape: tuple[Dim, ...]


@dataclass(eq=False)
class Traced:
    """A value that is, in some form, what a node of the traced program gives."""

    value: Value
    form: TracedForm


@dataclass(eq=False)
class Node:
    """One call of a builder. A ``host`` node is computed on the CPU, before all that a device computes.

    ``traced`` is the form in which its output is what the node of the traced program gives that it is named after.
    """

    spec: OpSpec
    inputs: tuple[Value | None, ...]
    attrs: dict[str, Any]
    output: Value
    name: str
    host: bool = False
    traced: TracedForm | None = None

    @property
    def op(self) -> str:
        """The op's name."""
        return self.spec.name


@dataclass(eq=False)
class Port:
    """A tensor at the boundary. ``shape`` is the caller's, outermost first; an i64 one of no dims may be an int."""

    name: str
    value: Value
    shape: tuple[Dim, ...]


@dataclass(eq=False)
class Constant:
    """Data outside the graph. ``data`` gives it in ``ne`` order, when it is asked for and not before.

    Of a quantized type it gives the bytes (uint8, one dim). What is ``outside`` the program is found by its key alone.
    ``storage`` says how the elements lie in the program; ``kept_in`` is the half type that a weight is rounded to once
    all that passes fold into it is there.
    """

    key: str
    value: Value
    data: Callable[[], torch.Tensor] | None = None
    outside: bool = False
    storage: StorageLayout = PLAIN
    kept_in: DType | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The dims, outermost first."""
        n0, n1, n2, n3 = (int(n) for n in self.value.ne)
        return n3, n2, n1, n0

    @property
    def stored_bytes(self) -> int:
        """How many bytes it takes in a program."""
        dtype = self.value.dtype
        if self.storage == PLAIN:
            return dtype.nbytes(math.prod(self.shape))
        if self.storage.kind == Storage.PANELS:
            return panels_bytes(dtype, self.shape)
        return dtype.nbytes(stored_count(self.shape, self.storage, dtype.itemsize))

    def stored(self) -> torch.Tensor:
        """The contents as they lie in a program."""
        assert self.data is not None, f"constant {self.key} carries no data"
        if self.storage == PLAIN:
            return self.data().contiguous()
        if self.storage.kind == Storage.PANELS:
            return pack_panels(self.data().reshape(-1), self.value.dtype, self.shape)
        return pack(self.data().to(self.value.dtype.torch).reshape(self.shape), self.storage).contiguous()


@dataclass(eq=False)
class State:
    """A tensor that outlives a run; ``init`` is the constant with its first contents, or None for zeros."""

    key: str
    value: Value
    init: Constant | None = None


@dataclass(frozen=True)
class Symbol:
    """Where a symbol is read: ``shape[dim]`` of an input is ``scale * symbol + offset``; dim -1: a scalar's value.

    A ``batch``'s counts samples which the graph computes apart, in equal parts of inputs' and outputs' first dims.
    """

    symbol: sympy.Symbol
    input: int
    dim: int
    scale: int = 1
    offset: int = 0
    min: int = 0
    max: int = 2**31 - 1
    batch: bool = False


@dataclass
class Graph:
    """A program for the native runtime.

    ``traced`` has what nodes of the traced program give, by their names, where it is still computed.
    """

    symbols: list[Symbol] = field(default_factory=list)
    inputs: list[Port] = field(default_factory=list)
    outputs: list[Port] = field(default_factory=list)
    constants: list[Constant] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    target: Target = Target.CPU
    traced: dict[str, Traced] = field(default_factory=dict)

    def values(self) -> list[Value]:
        """Every value once, leaves first."""
        leaves = [entry.value for group in (self.inputs, self.constants, self.states) for entry in group]
        return leaves + [node.output for node in self.nodes]

    def named_constants(self) -> list[Constant]:
        """The constants and the first contents of states."""
        return self.constants + [state.init for state in self.states if state.init is not None]
