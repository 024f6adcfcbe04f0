"""What constants alone decide, computed when the program is written.

Given::

    constant @a: f32[64, 1, 1, 1]
    %0 = exp(@a)
    %1 = reshape(%0, ne=(1, 64, 1, 1))      # views cost nothing at run time and stay
    %2 = mul(%x, %1)

Result::

    constant @folded.exp: f32[64, 1, 1, 1]
    %0 = reshape(@folded.exp, ne=(1, 64, 1, 1))
    %1 = mul(%x, %0)

The op table's references compute it, in the types of the run. A result much larger than its sources, such as a weight
that is repeated, is left to the run; so is what depends on constants outside of the program.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from ..ir._lazy import torch
from ..ir.builder import needed_nodes
from ..ir.dims import free_symbols
from ..ir.dtypes import DType
from ..ir.graph import Constant, Graph, Node, Port, Value
from ..ir.interpreter import Interpreter
from ..ir.op import Moves, Writes
from ..ir.storage import PLAIN
from ..ir.verify import attribute_sizes
from .rewrite import Rewriter

MAX_GROWTH = 64 * 1024  # bytes by which a result may be larger than its sources: small tables are welcome


def run(graph: Graph) -> Graph:
    """The graph with what constants decide as constants."""
    folding = _Folding(graph)
    ops = {value.producer.op for value in folding.results if value.producer is not None}
    return Rewriter(graph).run(dict.fromkeys(ops, folding.rule)) if ops else graph


@dataclass(frozen=True)
class _Decided:
    """A value that constants decide: which ones, and a name that is the same for the same computation alone."""

    sources: frozenset[Constant]
    name: str


class _Folding:
    """Which values of a graph to compute ahead of time."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._decided = {
            constant.value: _Decided(frozenset({constant}), constant.key)
            for constant in graph.constants
            if constant.data is not None and not constant.outside and constant.storage == PLAIN
        }
        self.results: set[Value] = set()
        for node in graph.nodes:
            if _is_static(node) and all(value in self._decided for value in node.inputs if value is not None):
                self._decided[node.output] = self._by(node)
        for node in graph.nodes:
            if node.output not in self._decided:
                self._need(node)
        for port in graph.outputs:  # a program returns what a node computes
            if port.value in self._decided and port.value.producer is not None:
                self._need(port.value.producer)

    def rule(self, rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
        """A constant in the place of a node that is folded."""
        del inputs
        if node.output not in self.results:
            return None
        name = f"folded.{node.op}~{self._decided[node.output].name}"
        value = rewriter.builder.constant(name, node.output.dtype, node.output.ne, self._contents(node.output))
        half = self._kept_in(node)
        if half is not None:
            rewriter.builder.keep_in(value, half)
        return value

    def _by(self, node: Node) -> _Decided:
        inputs = [None if value is None else self._decided[value] for value in node.inputs]
        sources = frozenset[Constant]().union(*(known.sources for known in inputs if known is not None))
        text = repr((node.op, node.attrs, [None if known is None else known.name for known in inputs]))
        return _Decided(sources, hashlib.sha256(text.encode()).hexdigest()[:16])

    def _need(self, reader: Node) -> None:
        """Fold what a node reads, so far as it pays; of the rest what that reads."""
        for value in reader.inputs:
            if value is None or value not in self._decided or value.producer is None or value in self.results:
                continue
            if self._pays(value.producer):
                self.results.add(value)
            else:
                self._need(value.producer)

    def _pays(self, node: Node) -> bool:
        """Whether a node is better a constant: no view, no number repeated, and of no more bytes than its sources."""
        if node.spec.moves is Moves.VIEW or _is_checked(node) or all(value is None for value in node.inputs):
            return False
        if node.op == "dequantize":  # layers read floats
            return True
        read = sum(source.stored_bytes for source in self._decided[node.output].sources)
        return node.output.dtype.nbytes(int(node.output.count)) <= read + MAX_GROWTH

    def _contents(self, value: Value) -> Callable[[], torch.Tensor]:
        port = Port("folded", value, tuple(reversed(value.ne)))
        part = Graph(outputs=[port], nodes=[node for node in self._graph.nodes if node.output in self._decided])
        part.nodes = needed_nodes(part)[0]
        part.constants = [each for each in self._graph.constants if each in self._decided[value].sources]
        return lambda: Interpreter(part).run()[0]

    def _kept_in(self, node: Node) -> DType | None:
        """The half type of a constant whose elements a node moves."""
        value: Value | None = node.output
        while value is not None and value.producer is not None and value.producer.spec.moves is not Moves.NO:
            value = value.producer.inputs[0]
        return next((source.kept_in for source in self._decided[node.output].sources if source.value is value), None)


def _is_static(node: Node) -> bool:
    """Whether a call has fixed sizes, none of them 0, and writes nothing."""
    values = [node.output, *(value for value in node.inputs if value is not None)]
    sizes = [size for value in values for size in value.ne]
    return node.spec.writes is Writes.NO and 0 not in sizes and not free_symbols([*sizes, *attribute_sizes(node)])


def _is_checked(node: Node) -> bool:
    """Whether a node gives numbers that are known to be below a bound: its reader must see that."""
    if node.spec.bound is None and node.spec.moves is not Moves.NO:
        source = node.inputs[0]
        return source is not None and source.producer is not None and _is_checked(source.producer)
    return node.spec.bound is not None
