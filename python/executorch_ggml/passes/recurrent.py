"""What a step of an LSTM or a GRU does behind its products, as one node.

Given::

    %0 = add(%recurrent, %projected)
    %1 = view(%0, ...)                   # a quarter of the elements: the input gate; %2 to %4 the others
    %5 = mul(sigmoid(%2), %cell)
    %6 = mul(sigmoid(%1), tanh(%3))
    %7 = add(%5, %6)
    %8 = mul(sigmoid(%4), tanh(%7))

Result::

    %0 = lstm_cell(%recurrent, %projected, %cell)
    %7 = view(%0, ...)                   # plane 1
    %8 = view(%0, ...)                   # plane 0

A GRU's step, whose gates are thirds of both products, is one ``gru_cell``.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..ir.dims import is_one, same_dims
from ..ir.dtypes import DType
from ..ir.graph import Graph, Node, Value
from .rewrite import Rewriter, computed_by, input_of, present

_TAKE, _KEEP, _NEW, _GIVE = range(4)  # an LSTM's gates
_RESET, _UPDATE, _CANDIDATE = range(3)  # a GRU's


def run(graph: Graph) -> Graph:
    """The graph with its recurrent steps as nodes."""
    return Rewriter(graph).run({"add": _state, "mul": _lstm_hidden})


def _state(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    if node.output.dtype != DType.F32 or not all(map(is_one, node.output.ne[2:])):
        return None
    a, b = present(inputs)
    for first, second in ((a, b), (b, a)):
        state = _lstm_cell(rewriter, first, second) or _gru_hidden(rewriter, first, second)
        if state is not None:
            return state
    return None


def _lstm_cell(rewriter: Rewriter, kept: Value, added: Value) -> Value | None:
    """The cell state: what is kept of the one before, and what is added."""
    for keep, cell in _factors(kept, "sigmoid"):
        for take, new in _factors(added, "sigmoid"):
            gates = _whole(keep, _KEEP)
            if gates is None or not computed_by(new, "tanh") or not same_dims(cell.ne, keep.ne):
                continue
            if _whole(take, _TAKE) is not gates or _whole(input_of(new, 0), _NEW) is not gates:
                continue
            products = _sum_of_products(gates, 4 * cell.ne[0])
            if products is not None:
                step = rewriter.builder.emit("lstm_cell", *products, cell)
                return rewriter.builder.view(step, (0, 0, 1, 0), cell.ne)
    return None


def _lstm_hidden(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value | None:
    """The hidden state of the step whose cell state is plane 1 of an ``lstm_cell``."""
    a, b = present(inputs)
    for gate, other in ((a, b), (b, a)):
        if not computed_by(gate, "sigmoid") or not computed_by(other, "tanh"):
            continue
        gates, cell = _whole(input_of(gate, 0), _GIVE), input_of(other, 0)
        if gates is None or not computed_by(cell, "view") or not computed_by(input_of(cell, 0), "lstm_cell"):
            continue
        step = input_of(cell, 0)
        products = _sum_of_products(gates, 4 * cell.ne[0])
        is_cell = same_dims(_start(cell), (0, 0, 1, 0)) and same_dims(cell.ne, node.output.ne)
        if is_cell and products == (input_of(step, 0), input_of(step, 1)):
            return rewriter.builder.view(step, (0, 0, 0, 0), cell.ne)
    return None


def _gru_hidden(rewriter: Rewriter, change: Value, candidate: Value) -> Value | None:
    """The hidden state: ``(hidden - candidate) * sigmoid(update) + candidate``."""
    if not computed_by(candidate, "tanh") or not computed_by(input_of(candidate, 0), "add"):
        return None
    for update, difference in _factors(change, "sigmoid"):
        if not computed_by(difference, "sub") or input_of(difference, 1) is not candidate:
            continue
        hidden = input_of(difference, 0)
        products = _gru_products(update, input_of(candidate, 0)) if same_dims(hidden.ne, candidate.ne) else None
        if products is not None and all(same_dims(p.ne, (3 * hidden.ne[0], *hidden.ne[1:])) for p in products):
            return rewriter.builder.emit("gru_cell", *products, hidden)
    return None


def _gru_products(update: Value, candidate: Value) -> tuple[Value, Value] | None:
    """The product of the hidden state and that of the input, of which these sums have parts."""
    for projected, gated in _orders(candidate):
        for reset, recurrent in _factors(gated, "sigmoid"):
            products = _whole(recurrent, _CANDIDATE), _whole(projected, _CANDIDATE)
            if products[0] is None or products[1] is None:
                continue
            if _adds_parts(reset, _RESET, products) and _adds_parts(update, _UPDATE, products):
                return products[0], products[1]
    return None


def _adds_parts(total: Value, gate: int, products: tuple[Value | None, ...]) -> bool:
    """Whether a value is the sum of one gate's parts of both products."""
    return computed_by(total, "add") and any(
        (_whole(a, gate), _whole(b, gate)) == products and same_dims(a.ne, b.ne) for a, b in _orders(total)
    )


def _sum_of_products(gates: Value, width: object) -> tuple[Value, Value] | None:
    """What was added up to gates of so many elements a row: two tensors of their dims."""
    if not computed_by(gates, "add") or gates.ne[0] != width or not all(map(is_one, gates.ne[2:])):
        return None
    a, b = input_of(gates, 0), input_of(gates, 1)
    return (a, b) if same_dims(a.ne, gates.ne) and same_dims(b.ne, gates.ne) else None


def _whole(part: Value, gate: int) -> Value | None:
    """What a value has a gate's elements of each row of, or None."""
    if not computed_by(part, "view") or any(step != 1 for step in _node(part).attrs["step"]):
        return None
    whole = input_of(part, 0)
    is_gate = same_dims(_start(part), (gate * part.ne[0], 0, 0, 0)) and same_dims(part.ne[1:], whole.ne[1:])
    return whole if is_gate else None


def _factors(product: Value, activation: str) -> Iterator[tuple[Value, Value]]:
    """For each factor that is an activation: what it is of, and the other factor."""
    if computed_by(product, "mul"):
        for factor, other in _orders(product):
            if computed_by(factor, activation) and same_dims(factor.ne, other.ne):
                yield input_of(factor, 0), other


def _orders(value: Value) -> tuple[tuple[Value, Value], tuple[Value, Value]]:
    a, b = input_of(value, 0), input_of(value, 1)
    return (a, b), (b, a)


def _start(view: Value) -> tuple[object, ...]:
    start: tuple[object, ...] = tuple(_node(view).attrs["start"])
    return start


def _node(value: Value) -> Node:
    assert value.producer is not None
    return value.producer
