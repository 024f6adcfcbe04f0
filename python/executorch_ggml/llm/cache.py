"""The key-value cache of an exported model: buffers of a fixed size, of which a run reads the filled part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache, CacheLayerMixin

# These have no types.
_smaller: Any = torch.sym_min
_larger: Any = torch.sym_max
check_size: Any = torch._check

# Attention reads this many positions more each time that it reads more, so that prepared graphs stay few.
STEP = 256

DTYPES = {"f32": torch.float32, "f16": torch.float16, "q8_0": torch.float32}


@dataclass(frozen=True)
class Window:
    """Which rows of a cache a run reads; either number may be symbolic."""

    start: Any
    length: Any


@dataclass
class Place:
    """Where in the sequence a run's tokens are."""

    input_pos: Tensor  # int64 [1]: the first one's position
    positions: Tensor  # int64 [tokens]
    first: Any  # the same as input_pos, as a size

    def window(self, rows: int, sliding: int | None) -> Window:
        """The rows that these tokens may attend to, out to whole steps."""
        count = self.positions.shape[0]
        if sliding is None:
            return Window(0, _smaller(_whole_steps(self.first + count), rows))
        length = _smaller(_whole_steps(count + sliding + STEP - 2), rows)
        start = _smaller(_larger(self.first - sliding + 1, 0) // STEP * STEP, rows - length)
        check_size(start + length <= rows)
        return Window(start, length)


def _whole_steps(size: Any) -> Any:
    return (size + STEP - 1) // STEP * STEP


class Rows(nn.Module):
    """One layer's keys and values, a row for each position."""

    keys: Tensor
    values: Tensor

    def __init__(self, rows: int, heads: int, head_dim: int, dtype: torch.dtype) -> None:
        super().__init__()
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(rows, heads, head_dim, dtype=dtype), persistent=False)


class _Layer(CacheLayerMixin):
    """What transformers sees of one layer's rows."""

    def __init__(self, rows: Rows, sliding: int | None) -> None:
        super().__init__()
        self.rows = rows
        self.sliding = sliding
        self.is_sliding = sliding is not None
        self.is_initialized = True
        self.place: Place | None = None

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing: the buffers are there from the start."""

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Write the new rows, and give those that attention needs, in the model's layout and type."""
        del args, kwargs
        made = [
            self._written(buffer, states)
            for buffer, states in ((self.rows.keys, key_states), (self.rows.values, value_states))
        ]
        return made[0], made[1]

    def _written(self, buffer: Tensor, states: Tensor) -> Tensor:
        place, window = self._place(), self._window()
        new = states[0].transpose(0, 1)
        buffer.index_copy_(0, place.positions, new.to(buffer.dtype))
        return buffer.narrow(0, window.start, window.length).to(states.dtype).transpose(0, 1)[None]

    def get_mask_sizes(self, query_length: int) -> tuple[Any, Any]:
        """How many rows are read, and the first one."""
        del query_length
        window = self._window()
        return window.length, window.start

    def get_seq_length(self) -> Any:
        """The position of the first new token, as a tensor."""
        return self._place().input_pos

    def get_max_length(self) -> int:
        """How many positions there are."""
        return self.rows.keys.shape[0]

    def _place(self) -> Place:
        assert self.place is not None, "the cache was not told where the tokens are"
        return self.place

    def _window(self) -> Window:
        return self._place().window(self.rows.keys.shape[0], self.sliding)


class KeyValueCache(Cache):
    """The cache of all layers. :meth:`at` says where the tokens of the next run are."""

    def __init__(self, rows: Sequence[Rows], sliding: Sequence[int | None]) -> None:
        super().__init__(layers=[_Layer(*layer) for layer in zip(rows, sliding, strict=True)])

    def at(self, place: Place) -> None:
        """Set the place of the tokens that are given next."""
        for layer in self.layers:
            layer.place = place

    def get_query_offset(self, layer_idx: int = 0) -> Any:
        """The positions of all new tokens: this project's mask function expects them here."""
        place = self.layers[layer_idx].place
        assert place is not None, "the cache was not told where the tokens are"
        return place.positions


def make_rows(config: Any, length: int, cache_type: str) -> nn.ModuleList:
    """Empty rows for each layer of a model."""
    from transformers.configuration_utils import get_head_shapes

    count = config.num_hidden_layers
    heads, sizes = (shape if isinstance(shape, list) else [shape] * count for shape in get_head_shapes(config))
    dtype = DTYPES[cache_type]
    return nn.ModuleList([Rows(length, *shape, dtype) for shape in zip(heads, sizes, strict=True)])


def sliding_windows(config: Any) -> list[int | None]:
    """The sliding window of each layer, or None where it attends to all positions before it."""
    window = getattr(config, "sliding_window", None)
    types = getattr(config, "layer_types", None)
    if types is None:
        return [window] * config.num_hidden_layers
    return [window if kind == "sliding_attention" else None for kind in types]
