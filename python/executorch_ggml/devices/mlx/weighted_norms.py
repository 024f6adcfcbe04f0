"""Row normalizations whose weight and bias are nodes of their own: one function of MLX's computes all of them."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import mlx.core as mx

from ...ir.dtypes import DType
from .registry import Function

if TYPE_CHECKING:
    from ...ir.graph import Graph, Node, Value


@dataclass(frozen=True)
class WeightedNorm:
    """A normalization, what it is multiplied by, and what is added; each is a row."""

    node: Node
    weight: Value
    bias: Value | None = None

    @property
    def inputs(self) -> tuple[Value, ...]:
        """What :attr:`function` takes, the rows as arrays of one dim."""
        x = self.node.inputs[0]
        assert x is not None
        return (x, self.weight) if self.bias is None else (x, self.weight, self.bias)

    @property
    def function(self) -> Function:
        """The normalization of the inputs."""
        return functools.partial(_FUNCTIONS[self.node.op], eps=self.node.attrs["eps"])


def _rms_norm(x: mx.array, weight: mx.array, *, eps: float) -> mx.array:
    return mx.fast.rms_norm(x, weight, eps)


def _layer_norm(x: mx.array, weight: mx.array, bias: mx.array | None = None, *, eps: float) -> mx.array:
    return mx.fast.layer_norm(x, weight, bias, eps)


_FUNCTIONS: dict[str, Function] = {"rms_norm": _rms_norm, "norm": _layer_norm}


def weighted_norms(graph: Graph) -> tuple[dict[Value, WeightedNorm], set[Value]]:
    """By the value that each gives, and the values between, which nothing else reads."""
    reads = Counter(value for node in graph.nodes for value in node.inputs)
    reads.update(port.value for port in graph.outputs)
    states = {state.value for state in graph.states}  # which may be written to in between
    found: dict[Value, WeightedNorm] = {}
    between: set[Value] = set()
    for node in graph.nodes:
        for made, row in _rows(node):
            before = found.get(made)
            producer = made.producer
            if reads[made] != 1 or producer is None or not states.isdisjoint((row, *producer.inputs)):
                continue
            if node.op == "mul" and producer.op in _FUNCTIONS:
                found[node.output] = WeightedNorm(producer, row)
            elif node.op == "add" and before is not None and before.bias is None and before.node.op == "norm":
                found[node.output] = WeightedNorm(before.node, before.weight, row)
                del found[made]
            else:
                continue
            between.add(made)
            break
    return found, between


def _rows(node: Node) -> Iterator[tuple[Value, Value]]:
    """A sum's or product's terms as something and a row that goes with each of its rows."""
    if node.op not in ("mul", "add"):
        return
    a, b = node.inputs
    assert a is not None
    assert b is not None
    for one, other in ((a, b), (b, a)):
        is_f32 = one.dtype == other.dtype == DType.F32
        if is_f32 and one.ne == node.output.ne and other.ne == (one.ne[0], 1, 1, 1):
            yield one, other
