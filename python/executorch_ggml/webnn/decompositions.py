"""Operators as graphs of smaller ones, for converters that have none of their own for them.

A decomposition is written as a user of the builder would write it. Half types are computed in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .builder import GraphBuilder
from .graph_info import GraphInfo
from .operand import MLOperand
from .operators import OPERATORS

Decomposition = Callable[..., list[MLOperand]]
DECOMPOSITIONS: dict[str, Decomposition] = {}


def decompose(graph: GraphInfo) -> GraphInfo:
    """The graph with the operators that have a decomposition made of others."""
    if not any(operation.name in DECOMPOSITIONS for operation in graph.operations):
        return graph
    builder = GraphBuilder()
    values: dict[int, MLOperand] = {}
    for name, place in graph.inputs.items():
        values[place] = builder.input(name, graph.operands[place].shape, graph.operands[place].data_type)
    for place, array in graph.constants.items():
        operand = graph.operands[place]
        values[place] = builder.constant(array, operand.shape, operand.data_type)
    for operation in graph.operations:
        operands = operation.operands_from(values.__getitem__)
        if operation.name in DECOMPOSITIONS:
            results = DECOMPOSITIONS[operation.name](builder, **operands, **operation.options)
        else:
            every = {tensor.name: operands.get(tensor.name) for tensor in OPERATORS[operation.name].tensors}
            results = builder._add(operation.name, every, dict(operation.options), operation.label)
        values.update(zip(operation.outputs, results, strict=True))
    info = builder.graph_info({name: values[place] for name, place in graph.outputs.items()})
    unused = set(graph.inputs) - set(info.inputs)
    assert not unused, f"inputs {unused} that nothing needs"
    return GraphInfo(
        info.operands, info.operations, {name: info.inputs[name] for name in graph.inputs}, info.outputs, info.constants
    )


def decomposes(name: str) -> Callable[[Decomposition], Decomposition]:
    """Register a decomposition: it takes the operator's operands and options by name."""

    def add(function: Decomposition) -> Decomposition:
        DECOMPOSITIONS[name] = function
        return function

    return add


# ------------------------------------------------------------------------------------------------ recurrent networks


def _as(builder: GraphBuilder, operand: MLOperand, data_type: Any) -> MLOperand:
    return operand if operand.data_type == data_type else builder.cast(operand, data_type)


class _Cell:
    """What a recurrent cell does at each step, from weights ``[gates * hidden, ...]`` in float32."""

    def __init__(
        self,
        builder: GraphBuilder,
        weights: Sequence[Any],
        layout: str,
        activations: Sequence[str],
        hidden_size: int,
    ) -> None:
        weight, recurrent_weight, bias, recurrent_bias = weights
        self.builder = builder
        self.hidden = hidden_size
        self.layout = layout
        self.weight = builder.transpose(weight)
        self.recurrent_weight = builder.transpose(recurrent_weight)
        self.bias, self.recurrent_bias = bias, recurrent_bias
        self.functions = [getattr(builder, name) for name in activations]

    def part(self, whole: MLOperand, gate: str) -> MLOperand:
        """A gate's part of what all gates have side by side."""
        return self.parts(whole, self.layout.index(gate), 1)

    def parts(self, whole: MLOperand, first: int, count: int) -> MLOperand:
        """The part of ``count`` gates in a row."""
        *rest, _ = whole.shape
        return self.builder.slice(whole, [0] * len(rest) + [first * self.hidden], [*rest, count * self.hidden])

    def projected(self, rows: MLOperand) -> MLOperand:
        """Inputs by the weights, with the bias."""
        product = self.builder.matmul(rows, self.weight)
        return product if self.bias is None else self.builder.add(product, self.bias)

    def step(self, projected: MLOperand, states: list[MLOperand]) -> list[MLOperand]:
        """The next states, the hidden one first."""
        raise NotImplementedError


class _Gru(_Cell):
    reset_after = True

    def step(self, projected: MLOperand, states: list[MLOperand]) -> list[MLOperand]:
        b, hidden = self.builder, states[0]
        gate, new = self.functions
        recurrent_new: MLOperand
        if self.reset_after:
            recurrent = self._recurrent(hidden, self.recurrent_weight, self.recurrent_bias)
            z, r = (gate(b.add(self.part(projected, name), self.part(recurrent, name))) for name in "zr")
            recurrent_new = b.mul(r, self.part(recurrent, "n"))
        else:
            recurrent = self._recurrent(hidden, *self._some(0, 2))
            both = gate(b.add(self.parts(projected, 0, 2), recurrent))
            z, r = self.part(both, "z"), self.part(both, "r")
            recurrent_new = self._recurrent(b.mul(r, hidden), *self._some(2, 1))
        n = new(b.add(self.part(projected, "n"), recurrent_new))
        return [b.add(b.mul(z, hidden), b.mul(n, b.linear(z, alpha=-1.0, beta=1.0)))]

    def _some(self, first: int, count: int) -> tuple[MLOperand, MLOperand | None]:
        bias = self.recurrent_bias
        return self.parts(self.recurrent_weight, first, count), bias and self.parts(bias, first, count)

    def _recurrent(self, hidden: MLOperand, weight: MLOperand, bias: MLOperand | None) -> MLOperand:
        product = self.builder.matmul(hidden, weight)
        return product if bias is None else self.builder.add(product, bias)


class _Lstm(_Cell):
    peephole: MLOperand | None = None

    def step(self, projected: MLOperand, states: list[MLOperand]) -> list[MLOperand]:
        b, (hidden, cell) = self.builder, states
        gate, new, last = self.functions
        total = b.add(projected, b.matmul(hidden, self.recurrent_weight))
        if self.recurrent_bias is not None:
            total = b.add(total, self.recurrent_bias)
        i, o, f = (gate(self._seen(self.part(total, name), name, cell)) for name in "iof")
        g = new(self.part(total, "g"))
        cell = b.add(b.mul(f, cell), b.mul(i, g))
        return [b.mul(o, last(cell)), cell]

    def _seen(self, total: MLOperand, gate: str, cell: MLOperand) -> MLOperand:
        if self.peephole is None:
            return total
        weight = self.parts(self.peephole, "iof".index(gate), 1)
        return self.builder.add(total, self.builder.mul(cell, weight))


def _run_cell(cell: _Cell, rows: MLOperand, states: list[MLOperand], data_type: str) -> list[MLOperand]:
    next_states = cell.step(cell.projected(rows), states)
    return [_as(cell.builder, state, data_type) for state in next_states]


def _run_network(
    builder: GraphBuilder,
    sequence: MLOperand,
    cells: list[_Cell],
    initial: list[MLOperand | None],
    backward: list[bool],
    return_sequence: bool,
    data_type: str,
) -> list[MLOperand]:
    """Each direction's cell over all steps: the last states, and the sequence of hidden ones if asked for."""
    steps, batch, features = sequence.shape
    hidden = cells[0].hidden
    rows = builder.reshape(sequence, [steps * batch, features])
    finals: list[list[MLOperand]] = []
    sequences: list[MLOperand] = []
    for direction, cell in enumerate(cells):
        projected = builder.split(cell.projected(rows), steps, axis=0)
        states = [_state(builder, state, direction, batch, hidden) for state in initial]
        each: dict[int, MLOperand] = {}
        for step in reversed(range(steps)) if backward[direction] else range(steps):
            states = cell.step(projected[step], states)
            each[step] = builder.reshape(states[0], [1, 1, batch, hidden])
        finals.append([builder.reshape(state, [1, batch, hidden]) for state in states])
        if return_sequence:
            sequences.append(_joined(builder, [each[step] for step in range(steps)], 0))
    results = [_joined(builder, list(each), 0) for each in zip(*finals, strict=True)]
    if return_sequence:
        results.append(_joined(builder, sequences, 1))
    return [_as(builder, result, data_type) for result in results]


def _joined(builder: GraphBuilder, operands: list[MLOperand], axis: int) -> MLOperand:
    return operands[0] if len(operands) == 1 else builder.concat(operands, axis)


def _state(builder: GraphBuilder, state: MLOperand | None, direction: int, batch: int, hidden: int) -> MLOperand:
    if state is None:
        return builder.constant(0.0, [batch, hidden], "float32")
    slab = _slab(builder, state, direction)
    assert slab is not None
    return slab


def _slab(builder: GraphBuilder, operand: MLOperand | None, direction: int) -> MLOperand | None:
    """One direction's part of what has directions as its first dimension."""
    if operand is None:
        return None
    _, *rest = operand.shape
    return builder.reshape(builder.slice(operand, [direction] + [0] * len(rest), [1, *rest]), rest)


def _wide(builder: GraphBuilder, *operands: MLOperand | None) -> list[Any]:
    """Operands in float32, so far as they are given."""
    return [None if operand is None else _as(builder, operand, "float32") for operand in operands]


def _directions(direction: str) -> list[bool]:
    """Which of the directions go backward."""
    return {"forward": [False], "backward": [True], "both": [False, True]}[direction]


@decomposes("gru_cell")
def _gru_cell(
    builder: GraphBuilder,
    input: MLOperand,
    weight: MLOperand,
    recurrent_weight: MLOperand,
    hidden_state: MLOperand,
    bias: MLOperand | None = None,
    recurrent_bias: MLOperand | None = None,
    *,
    hidden_size: int,
    reset_after: bool,
    layout: str,
    activations: Sequence[str],
) -> list[MLOperand]:
    parts = _wide(builder, weight, recurrent_weight, bias, recurrent_bias)
    cell = _Gru(builder, parts, layout, activations, hidden_size)
    cell.reset_after = reset_after
    return _run_cell(cell, _as(builder, input, "float32"), _wide(builder, hidden_state), input.data_type)


@decomposes("lstm_cell")
def _lstm_cell(
    builder: GraphBuilder,
    input: MLOperand,
    weight: MLOperand,
    recurrent_weight: MLOperand,
    hidden_state: MLOperand,
    cell_state: MLOperand,
    bias: MLOperand | None = None,
    recurrent_bias: MLOperand | None = None,
    peephole_weight: MLOperand | None = None,
    *,
    hidden_size: int,
    layout: str,
    activations: Sequence[str],
) -> list[MLOperand]:
    parts = _wide(builder, weight, recurrent_weight, bias, recurrent_bias)
    cell = _Lstm(builder, parts, layout, activations, hidden_size)
    (cell.peephole,) = _wide(builder, peephole_weight)
    return _run_cell(cell, _as(builder, input, "float32"), _wide(builder, hidden_state, cell_state), input.data_type)


@decomposes("gru")
def _gru(
    builder: GraphBuilder,
    input: MLOperand,
    weight: MLOperand,
    recurrent_weight: MLOperand,
    bias: MLOperand | None = None,
    recurrent_bias: MLOperand | None = None,
    initial_hidden_state: MLOperand | None = None,
    *,
    steps: int,
    hidden_size: int,
    reset_after: bool,
    return_sequence: bool,
    direction: str,
    layout: str,
    activations: Sequence[str],
) -> list[MLOperand]:
    del steps
    backward = _directions(direction)
    parts = _wide(builder, weight, recurrent_weight, bias, recurrent_bias)
    cells: list[_Cell] = []
    for d in range(len(backward)):
        slabs = [_slab(builder, part, d) for part in parts]
        cell = _Gru(builder, slabs, layout, activations, hidden_size)
        cell.reset_after = reset_after
        cells.append(cell)
    initial = _wide(builder, initial_hidden_state)
    return _run_network(
        builder, _as(builder, input, "float32"), cells, initial, backward, return_sequence, input.data_type
    )


@decomposes("lstm")
def _lstm(
    builder: GraphBuilder,
    input: MLOperand,
    weight: MLOperand,
    recurrent_weight: MLOperand,
    bias: MLOperand | None = None,
    recurrent_bias: MLOperand | None = None,
    peephole_weight: MLOperand | None = None,
    initial_hidden_state: MLOperand | None = None,
    initial_cell_state: MLOperand | None = None,
    *,
    steps: int,
    hidden_size: int,
    return_sequence: bool,
    direction: str,
    layout: str,
    activations: Sequence[str],
) -> list[MLOperand]:
    del steps
    backward = _directions(direction)
    *parts, peephole = _wide(builder, weight, recurrent_weight, bias, recurrent_bias, peephole_weight)
    cells: list[_Cell] = []
    for d in range(len(backward)):
        slabs = [_slab(builder, part, d) for part in parts]
        cell = _Lstm(builder, slabs, layout, activations, hidden_size)
        cell.peephole = _slab(builder, peephole, d)
        cells.append(cell)
    initial = _wide(builder, initial_hidden_state, initial_cell_state)
    return _run_network(
        builder, _as(builder, input, "float32"), cells, initial, backward, return_sequence, input.data_type
    )
