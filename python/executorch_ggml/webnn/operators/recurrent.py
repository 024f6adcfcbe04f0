"""Recurrent networks: GRU and LSTM, whole and cell by cell."""

from __future__ import annotations

from ..data_types import FLOATS
from .shapes import MAX_DIMENSION, Shape
from .spec import Call, Choice, Choices, Flag, Integer, Same, Tensor, operator

_ACTIVATIONS = ("relu", "sigmoid", "tanh")
_DIRECTION = Choice("direction", "forward", ("forward", "backward", "both"))
_GRU_LAYOUT = Choice("layout", "zrn", ("zrn", "rzn"))
_LSTM_LAYOUT = Choice("layout", "iofg", ("iofg", "ifgo"))
_GRU_ACTIVATIONS = Choices("activations", ("sigmoid", "tanh"), _ACTIVATIONS, length=2)
_LSTM_ACTIVATIONS = Choices("activations", ("sigmoid", "tanh", "tanh"), _ACTIVATIONS, length=3)


def _tensor(name: str, rank: int, *, optional: bool = False) -> Tensor:
    return Tensor(name, Same("input"), (rank, rank), optional)


def _weights(rank: int) -> tuple[Tensor, ...]:
    return Tensor("input", FLOATS, (rank, rank)), _tensor("weight", rank), _tensor("recurrent_weight", rank)


def _biases(rank: int) -> tuple[Tensor, ...]:
    return _tensor("bias", rank, optional=True), _tensor("recurrent_bias", rank, optional=True)


def _results(rank: int, count: int) -> tuple[Tensor, ...]:
    return tuple(_tensor(f"output{i}", rank) for i in range(count))


def _checked(call: Call, gates: int, directions: Shape) -> tuple[int, int]:
    """Check what cell and network share; the batch and hidden sizes."""
    batch, features = call.shape("input")[-2:]
    hidden = call["hidden_size"]
    if not 0 < hidden * gates * 2 <= MAX_DIMENSION:
        call.fail("hidden_size", f"an integer from 1 to {MAX_DIMENSION // gates // 2}")
    call.expect_shape("weight", (*directions, gates * hidden, features))
    call.expect_shape("recurrent_weight", (*directions, gates * hidden, hidden))
    call.expect_shape("bias", (*directions, gates * hidden))
    call.expect_shape("recurrent_bias", (*directions, gates * hidden))
    call.expect_shape("peephole_weight", (*directions, 3 * hidden))
    for state in ("hidden_state", "cell_state", "initial_hidden_state", "initial_cell_state"):
        call.expect_shape(state, (*directions, batch, hidden))
    return batch, hidden


def _network(call: Call, gates: int, states: int) -> list[Shape]:
    directions = 2 if call["direction"] == "both" else 1
    batch, hidden = _checked(call, gates, (directions,))
    if call["steps"] != call.shape("input")[0]:
        call.fail("steps", f"the input's first dimension, {call.shape('input')[0]}")
    last = (directions, batch, hidden)
    return [last] * states + [(call["steps"], *last)] * call["return_sequence"]


@operator(
    "gru",
    *_weights(3),
    Integer("steps", low=1),
    Integer("hidden_size"),
    *_biases(2),
    _tensor("initial_hidden_state", 3, optional=True),
    Flag("reset_after", True),
    Flag("return_sequence", False),
    _DIRECTION,
    _GRU_LAYOUT,
    _GRU_ACTIVATIONS,
    outputs=(*_results(3, 1), _tensor("output1", 4)),
    returns_list=True,
)
def gru(call: Call) -> list[Shape]:
    """A gated recurrent unit over ``steps`` steps: the last hidden state and, if asked for, all of them."""
    return _network(call, 3, 1)


@operator(
    "gruCell",
    *_weights(2),
    _tensor("hidden_state", 2),
    Integer("hidden_size"),
    *_biases(1),
    Flag("reset_after", True),
    _GRU_LAYOUT,
    _GRU_ACTIVATIONS,
    outputs=_tensor("output", 2),
)
def gru_cell(call: Call) -> Shape:
    """One step of a gated recurrent unit: the new hidden state."""
    return _checked(call, 3, ())


@operator(
    "lstm",
    *_weights(3),
    Integer("steps", low=1),
    Integer("hidden_size"),
    *_biases(2),
    _tensor("peephole_weight", 2, optional=True),
    _tensor("initial_hidden_state", 3, optional=True),
    _tensor("initial_cell_state", 3, optional=True),
    Flag("return_sequence", False),
    _DIRECTION,
    _LSTM_LAYOUT,
    _LSTM_ACTIVATIONS,
    outputs=(*_results(3, 2), _tensor("output2", 4)),
    returns_list=True,
)
def lstm(call: Call) -> list[Shape]:
    """A long short-term memory over ``steps`` steps: the last hidden and cell states, maybe all hidden ones."""
    return _network(call, 4, 2)


@operator(
    "lstmCell",
    *_weights(2),
    _tensor("hidden_state", 2),
    _tensor("cell_state", 2),
    Integer("hidden_size"),
    *_biases(1),
    _tensor("peephole_weight", 1, optional=True),
    _LSTM_LAYOUT,
    _LSTM_ACTIVATIONS,
    outputs=_results(2, 2),
    returns_list=True,
)
def lstm_cell(call: Call) -> list[Shape]:
    """One step of a long short-term memory: the new hidden and cell states."""
    return [_checked(call, 4, ())] * 2
