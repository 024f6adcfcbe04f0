"""Products of one tensor with several weights as one, with the rows of the weights joined, and views of its result.

Given::

    %0 = linear(%x, @query, @query_bias)          # or mul_mat(@query, %x)
    %1 = linear(%x, @key, @key_bias)
    %2 = reshape(%0, ne=(64, 8, 5, 1))

Result::

    %0 = linear(%x, @query.joined, @query_bias.joined)
    %1 = reshape(%0, ne=(64, 16, 5, 1))           # before the view: its rows are not adjacent
    %2 = view(%1, start=(0, 0, 0, 0), ne=(64, 8, 5, 1))
    %3 = view(%0, start=(512, 0, 0, 0), ne=(512, 5, 1, 1))

Queries, keys and values of an attention are computed so, and the gate and the other half of a gated layer.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from ..ir._lazy import torch
from ..ir.dims import is_one, product, same
from ..ir.graph import Constant, Graph, Node, Value
from ..ir.op import Dims, Layout
from ..ir.storage import PLAIN
from .rewrite import Rewriter, count_reads


def run(graph: Graph) -> Graph:
    """The graph with products of the same tensor joined."""
    joining = _Joining(graph)
    if not joining.parts:
        return graph
    return Rewriter(graph).run({"linear": joining.product, "mul_mat": joining.product, "reshape": joining.reshape})


@dataclass(frozen=True)
class _Operands:
    """What a product is of."""

    x: Value
    weight: Value
    bias: Value | None

    @staticmethod
    def of(op: str, inputs: Sequence[Value | None]) -> _Operands:
        first, second = inputs[0], inputs[1]
        assert first is not None
        assert second is not None
        return _Operands(second, first, None) if op == "mul_mat" else _Operands(first, second, inputs[2])


@dataclass(frozen=True)
class _Part:
    """A product among those that it is joined with, and how many rows come before its own."""

    products: tuple[Node, ...]
    start: int


@dataclass(frozen=True)
class _Window:
    """A tensor's dims, and where in it a view begins."""

    whole: Dims
    start: Dims


class _Joining:
    """Which products to join, and the views of them that the new graph has."""

    def __init__(self, graph: Graph) -> None:
        self._reshaped: defaultdict[Value, list[Value]] = defaultdict(list)
        self._wanted_dense = {port.value for port in graph.outputs}
        for node in graph.nodes:
            self._note_readers(node)
        self._constants = {constant.value: constant for constant in graph.constants if _is_at_hand(constant)}
        reads = count_reads(graph)
        alike: defaultdict[Hashable, list[Node]] = defaultdict(list)
        for node in graph.nodes:
            kind = self._kind(node) if node.op in ("linear", "mul_mat") else None
            if kind is not None and reads[_Operands.of(node.op, node.inputs).weight] == 1:
                alike[kind].append(node)
        self.parts: dict[Node, _Part] = {}
        for products in alike.values():
            self._join(products)
        self._windows: dict[Value, tuple[Value, int]] = {}  # a view: what it is of, and where it begins there

    def _kind(self, node: Node) -> Hashable | None:
        """What is equal of products that may be joined; None where weight or bias are no constants at hand."""
        of = _Operands.of(node.op, node.inputs)
        weight, bias = self._constants.get(of.weight), None if of.bias is None else self._constants.get(of.bias)
        if weight is None or (bias is None) != (of.bias is None) or not all(is_one(size) for size in of.weight.ne[2:]):
            return None
        kept_in = (weight.kept_in, None if bias is None else bias.kept_in)
        return node.op, of.x, of.weight.dtype, of.bias is None, kept_in, repr(node.attrs)

    def _join(self, products: Sequence[Node]) -> None:
        """Join products, but for those whose part would have to be copied to be reshaped."""
        starts = list(itertools.accumulate((_rows(node) for node in products), initial=0))
        if len(products) > 1 and all(map(self._stays_view, products, starts, itertools.repeat(starts[-1]))):
            self.parts |= {node: _Part(tuple(products), start) for node, start in zip(products, starts, strict=False)}

    def _stays_view(self, node: Node, start: int, rows: int) -> bool:
        """Whether nothing wants a product to be dense, nor its reshaped forms, which are views of the whole."""
        shown = [node.output, *self._reshaped[node.output]]
        windows = [_window_of(rows, start, node.output.ne, value.ne) for value in shown]
        return None not in windows and self._wanted_dense.isdisjoint(shown)

    def _note_readers(self, node: Node) -> None:
        for value, wanted in zip(node.inputs, node.spec.inputs, strict=True):
            if value is not None and node.op == "reshape":
                self._reshaped[value].append(node.output)
            elif value is not None and wanted.layout is Layout.CONT:
                self._wanted_dense.add(value)

    def product(self, rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
        """The part of a joined product that a node gave; the joined one is the same node for all of them."""
        part = self.parts.get(node)
        if part is None:
            return None
        of = _Operands.of(node.op, inputs)
        rows = sum(map(_rows, part.products))
        weight = self._joined(
            rewriter, [_Operands.of(n.op, n.inputs).weight for n in part.products], (of.weight.ne[0], rows, 1, 1)
        )
        if node.op == "mul_mat":
            whole = rewriter.builder.emit("mul_mat", weight, of.x)
        else:
            biases = [bias for n in part.products if (bias := n.inputs[2]) is not None]
            bias = self._joined(rewriter, biases, (rows, 1, 1, 1)) if biases else None
            whole = rewriter.builder.emit("linear", of.x, weight, bias, **node.attrs)
        value = rewriter.builder.view(whole, (part.start, 0, 0, 0), node.output.ne)
        self._windows[value] = whole, part.start
        return value

    def reshape(self, rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
        """A reshaped part as a part of the reshaped whole, which is dense."""
        (part,) = inputs
        if part is None or part not in self._windows:
            return None
        whole, start = self._windows[part]
        window = _window_of(int(whole.ne[0]), start, part.ne, node.attrs["ne"])
        assert window is not None
        return rewriter.builder.view(rewriter.builder.reshape(whole, window.whole), window.start, node.attrs["ne"])

    def _joined(self, rewriter: Rewriter, values: Sequence[Value], ne: Dims) -> Value:
        """The constants behind one another, in the first one's name."""
        sources = [self._constants[value] for value in values]
        digest = hashlib.sha256("\0".join(source.key for source in sources).encode()).hexdigest()[:8]
        key, dtype, kept_in = f"{sources[0].key}.joined~{digest}", values[0].dtype, sources[0].kept_in

        def contents() -> torch.Tensor:
            return torch.cat([source.data().reshape(-1) for source in sources if source.data is not None])

        value = rewriter.builder.constant(key, dtype, ne, contents)
        if kept_in is not None:
            rewriter.builder.keep_in(value, kept_in)
        return value


def _is_at_hand(constant: Constant) -> bool:
    return constant.data is not None and not constant.outside and constant.storage == PLAIN


def _rows(node: Node) -> int:
    """How many numbers a product gives for each row of what is multiplied."""
    return int(node.output.ne[0])


def _window_of(rows: int, start: int, part: Dims, ne: Dims) -> _Window | None:
    """Where a part of a dense matrix, reshaped to ``ne``, is in the matrix reshaped alike; None if it is no view."""
    size = ne[0]
    if same(size, part[0]):
        return _Window((rows, *ne[1:]), (start, 0, 0, 0))
    if not isinstance(size, int) or size == 0 or start % size or rows % size or not same(product(ne[:2]), part[0]):
        return None
    return _Window((size, rows // size, *ne[2:]), (0, start // size, 0, 0))
