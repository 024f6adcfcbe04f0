"""How passes rewrite a graph: node by node in order, into a new graph over the same leaves."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

from ..ir._lazy import torch
from ..ir.builder import Builder
from ..ir.dims import same_dims
from ..ir.graph import Constant, Graph, IRError, Node, Value
from ..ir.op import Dims

Rule = Callable[["Rewriter", Node, tuple[Value | None, ...]], Value | None]


class Rewriter:
    """Builds a graph anew. A rule per op says what a node becomes, given its inputs in the new graph.

    A rule gives the value that stands for the node's result, of the same dtype and dims, or None to keep the node.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.builder = Builder.over(graph)
        self._reads = count_reads(graph)
        self._values: dict[Value, Value] = {}
        self._unchanged: set[Value] = set()  # values of the old graph whose new ones are computed as they were
        self._sources: defaultdict[Value, list[Value]] = defaultdict(list)  # what each new value stands for
        for leaf in (entry.value for group in (graph.inputs, graph.constants, graph.states) for entry in group):
            self._stands_for(leaf, leaf)
            self._unchanged.add(leaf)

    def run(self, rules: Mapping[str, Rule]) -> Graph:
        """The new graph, without the nodes that nothing needs any more."""
        for node in self.graph.nodes:
            self.builder.origin = node.name
            inputs = tuple(None if value is None else self._values[value] for value in node.inputs)
            rule = rules.get(node.op)
            replacement = None if rule is None else rule(self, node, inputs)
            self._stands_for(node.output, self._kept(node, inputs) if replacement is None else replacement)
        for port in self.graph.outputs:
            self.builder.output(port.name, self._values[port.value], port.shape)
        for name, traced in self.graph.traced.items():
            if (value := self._values.get(traced.value)) is not None:
                form = traced.form
                self.builder.trace(
                    name, self.builder.permute(self.builder.reshape(value, form.ne), form.axes), form.shape
                )
        return self.builder.finish()

    def _kept(self, node: Node, inputs: tuple[Value | None, ...]) -> Value:
        """The node's call. Where nothing before it has changed, it is not checked again: most of a pass's time."""
        if not all(value is None or value in self._unchanged for value in node.inputs):
            return self.copied(node, inputs)
        self._unchanged.add(node.output)
        return self.builder.copy(node, inputs)

    def copied(self, node: Node, inputs: tuple[Value | None, ...]) -> Value:
        """The node's call over other inputs; reshapes and permutations of the same are merged."""
        source = inputs[0] if inputs else None
        if source is not None and node.op == "permute":
            return self.builder.permute(source, node.attrs["axes"])
        if source is not None and node.op == "reshape":
            return self.builder.reshape(source, node.attrs["ne"])
        return self.builder.emit(node.op, *inputs, **node.attrs)

    def reads(self, value: Value) -> int:
        """How often a value of the new graph is read by nodes and outputs of the old one."""
        return sum(self._reads[source] for source in self._sources[value])

    def constant(self, value: Value) -> Constant | None:
        """The constant whose elements a value has in their order, in whatever shape; None where it is computed."""
        while computed_by(value, "reshape") or (computed_by(value, "permute") and value.is_contiguous):
            value = input_of(value, 0)
        return self.builder.constant_of(value)

    def derived(
        self, suffix: str, sources: Sequence[Constant], ne: Dims, compute: Callable[..., torch.Tensor]
    ) -> Value:
        """A constant computed when the program is written, of the first source's type.

        ``compute`` gets the contents of each source as f64 in one dim: what is folded is rounded once.
        """
        first = sources[0]
        key = f"{first.key}.{suffix}"
        if len(sources) > 1:
            key += "~" + hashlib.sha256("\0".join(source.key for source in sources).encode()).hexdigest()[:8]

        def contents() -> torch.Tensor:
            given = [source.data() for source in sources if source.data is not None]
            return compute(*(data.reshape(-1).double() for data in given)).to(first.value.dtype.torch).reshape(-1)

        value = self.builder.constant(key, first.value.dtype, ne, contents)
        constant = self.builder.constant_of(value)
        assert constant is not None
        constant.kept_in = first.kept_in
        return value

    def _stands_for(self, old: Value, new: Value) -> None:
        if old.dtype != new.dtype or not same_dims(old.ne, new.ne):
            raise IRError(f"{self.builder.origin}: a pass gives {new} for {old}")
        self._values[old] = new
        self._sources[new].append(old)


def count_reads(graph: Graph) -> Counter[Value]:
    """How often each value is read, by nodes and outputs."""
    reads = Counter(value for node in graph.nodes for value in node.inputs if value is not None)
    reads.update(port.value for port in graph.outputs)
    return reads


def present(inputs: tuple[Value | None, ...]) -> tuple[Value, ...]:
    """A node's inputs but for optional ones that are absent."""
    return tuple(value for value in inputs if value is not None)


def input_of(value: Value, index: int) -> Value:
    """An input, which must be there, of the node that computes a value."""
    assert value.producer is not None
    source = value.producer.inputs[index]
    assert source is not None
    return source


def computed_by(value: Value, op: str) -> bool:
    """Whether a node of the op computes the value."""
    return value.producer is not None and value.producer.op == op
