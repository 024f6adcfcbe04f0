"""Steps of recurrent networks behind their products."""

from __future__ import annotations

import mlx.core as mx

from ..registry import direct


@direct()
def lstm_cell(recurrent: mx.array, projected: mx.array, state: mx.array) -> mx.array:
    """The hidden state, and behind it the cell state."""
    take, keep, new, give = mx.split(recurrent + projected, 4, axis=-1)
    cell = mx.sigmoid(keep) * state + mx.sigmoid(take) * mx.tanh(new)
    return mx.concatenate([mx.sigmoid(give) * mx.tanh(cell), cell], axis=1)


@direct()
def gru_cell(recurrent: mx.array, projected: mx.array, state: mx.array) -> mx.array:
    """The hidden state."""
    reset, update, new = mx.split(recurrent, 3, axis=-1)
    projected_reset, projected_update, projected_new = mx.split(projected, 3, axis=-1)
    candidate = mx.tanh(projected_new + new * mx.sigmoid(reset + projected_reset))
    return (state - candidate) * mx.sigmoid(update + projected_update) + candidate
