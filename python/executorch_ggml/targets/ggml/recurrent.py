"""Steps of recurrent networks: gate by gate."""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.graph import Node, Value
from ...passes.rewrite import Rewriter, present
from .elementwise import arithmetic
from .rules import stock


@stock("lstm_cell")
def lstm_cell(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value:
    """Four gates, and the two states joined."""
    builder, (recurrent, projected, state) = rewriter.builder, present(inputs)
    take, keep, new, give = _parts(builder, arithmetic(builder, "add", recurrent, projected), 4)
    kept = arithmetic(builder, "mul", _of(builder, "sigmoid", keep), state)
    added = arithmetic(builder, "mul", _of(builder, "sigmoid", take), _of(builder, "tanh", new))
    cell = arithmetic(builder, "add", kept, added)
    hidden = arithmetic(builder, "mul", _of(builder, "sigmoid", give), _of(builder, "tanh", cell))
    return builder.emit("concat", hidden, cell, dim=2)


@stock("gru_cell")
def gru_cell(rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]) -> Value:
    """Three gates."""
    builder, (recurrent, projected, state) = rewriter.builder, present(inputs)
    reset, update, new = _parts(builder, recurrent, 3)
    projected_reset, projected_update, projected_new = _parts(builder, projected, 3)
    gated = arithmetic(builder, "mul", new, _sum_gate(builder, reset, projected_reset))
    candidate = _of(builder, "tanh", arithmetic(builder, "add", projected_new, gated))
    change = arithmetic(builder, "sub", state, candidate)
    kept = arithmetic(builder, "mul", change, _sum_gate(builder, update, projected_update))
    return arithmetic(builder, "add", kept, candidate)


def _parts(builder: Builder, gates: Value, number: int) -> list[Value]:
    width, *rows = gates.ne[0] // number, *gates.ne[1:]
    return [builder.view(gates, (gate * width, 0, 0, 0), (width, *rows)) for gate in range(number)]


def _of(builder: Builder, activation: str, value: Value) -> Value:
    return builder.emit(activation, builder.cont(value))


def _sum_gate(builder: Builder, recurrent: Value, projected: Value) -> Value:
    return _of(builder, "sigmoid", arithmetic(builder, "add", recurrent, projected))
