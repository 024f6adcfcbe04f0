"""Steps of recurrent networks, behind the products of a step's input and of the state before it."""

from __future__ import annotations

from .._lazy import torch
from ..formulas import formula
from ..op import Operand, op

_CELL = {"recurrent": "f32 rows", "projected": "f32 rows", "state": "f32 rows"}


@formula
def are_gates(gates: Operand, state: Operand, number: int) -> bool:
    """Expects `gates` to have, for each row of the matrix `state`, `number` times as many elements."""
    return (
        gates.ne[0] == number * state.ne[0]
        and gates.ne[1] == state.ne[1]
        and gates.ne[2] == gates.ne[3] == state.ne[2] == state.ne[3] == 1
    )


@op(
    200,
    inputs=_CELL,
    result="DType.F32, (state.ne[0], state.ne[1], 2, 1)",
    checks=("are_gates(recurrent, state, 4)", "are_gates(projected, state, 4)"),
    call="custom",
    kernel="lstm_cell",
)
def lstm_cell(recurrent: torch.Tensor, projected: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    """A step of an LSTM behind its products, whose sum has the input, forget, cell and output gates.

    ``state`` is the cell state before. Plane 0 of the result is the hidden state, plane 1 the cell state.
    """
    take, keep, new, give = (recurrent + projected).chunk(4, -1)
    cell = keep.sigmoid() * state + take.sigmoid() * new.tanh()
    return torch.cat([give.sigmoid() * cell.tanh(), cell], 1)


@op(
    201,
    inputs=_CELL,
    result="state",
    checks=("are_gates(recurrent, state, 3)", "are_gates(projected, state, 3)"),
    call="custom",
    kernel="gru_cell",
)
def gru_cell(recurrent: torch.Tensor, projected: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    """A step of a GRU behind its products, which have the reset, update and new gates each.

    ``state`` is the hidden state before, and the result the one after.
    """
    reset, update, new = recurrent.chunk(3, -1)
    projected_reset, projected_update, projected_new = projected.chunk(3, -1)
    candidate = (projected_new + new * (reset + projected_reset).sigmoid()).tanh()
    return (state - candidate) * (update + projected_update).sigmoid() + candidate
