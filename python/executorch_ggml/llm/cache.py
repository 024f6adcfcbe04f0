"""The key-value cache of an exported model: buffers of a fixed size, of which a run reads the filled part."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
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

    @classmethod
    def of(cls, tokens: Tensor, input_pos: Tensor, max_seq_len: int) -> Place:
        """That of tokens of which the first one is at a position."""
        first = as_size(input_pos, 0, max_seq_len - 1)
        return cls(input_pos, input_pos + torch.arange(tokens.shape[1]), first)

    @classmethod
    def within(cls, tokens: Tensor, input_pos: Tensor, limit: int) -> Place:
        """The same where positions from ``limit`` on are an error at run time, though the cache has rows for them."""
        place = cls.of(tokens, input_pos, limit)
        return replace(place, positions=torch.arange(limit).index_select(0, place.positions))

    def window(self, rows: int, sliding: int | None) -> Window:
        """The rows that these tokens may attend to, out to whole steps."""
        count = self.positions.shape[0]
        if sliding is None:
            return Window(0, _smaller(_whole_steps(self.first + count), rows))
        length = _smaller(_whole_steps(count + sliding + STEP - 2), rows)
        start = _smaller(_larger(self.first - sliding + 1, 0) // STEP * STEP, rows - length)
        check_size(start + length <= rows)
        return Window(start, length)


def as_size(number: Tensor, least: int, most: int) -> Any:
    """The number in a tensor as a size, which may not be outside of some limits."""
    size = number.item()
    check_size(size >= least)
    check_size(size <= most)
    return size


def _whole_steps(size: Any) -> Any:
    return (size + STEP - 1) // STEP * STEP


class Rows(nn.Module):
    """One layer's keys and values, given and taken as ``[1, heads, rows, head]``, a row for each position.

    The rows of a head lie next to each other: attention reads them one after another, and memory is fastest that way.
    """

    keys: Tensor
    values: Tensor

    def __init__(self, rows: int, heads: int, head_dim: int, dtype: torch.dtype) -> None:
        super().__init__()
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(heads, rows, head_dim, dtype=dtype), persistent=False)

    @property
    def length(self) -> int:
        """How many rows a head has."""
        return self.keys.shape[1]

    def write(self, positions: Tensor, keys: Tensor, values: Tensor) -> None:
        """Keep keys and values of some positions."""
        for buffer, states in ((self.keys, keys), (self.values, values)):
            buffer.index_copy_(1, positions, states[0].to(buffer.dtype))

    def read(self, window: Window, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """The keys and values of a window, in the model's type."""
        keys, values = (
            buffer.narrow(1, window.start, window.length).to(dtype)[None] for buffer in (self.keys, self.values)
        )
        return keys, values


class _Layer(CacheLayerMixin):
    """What transformers sees of one layer's rows."""

    def __init__(self, rows: Rows, sliding: int | None, place: Place) -> None:
        super().__init__()
        self.rows = rows
        self.sliding = sliding
        self.is_sliding = sliding is not None
        self.is_initialized = True
        self.place = place

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing: the buffers are there from the start."""

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Write the new rows, and give those that attention needs, in the model's layout and type."""
        del args, kwargs
        self.rows.write(self.place.positions, key_states, value_states)
        return self.rows.read(self._window(), key_states.dtype)

    def get_mask_sizes(self, query_length: int) -> tuple[Any, Any]:
        """How many rows are read, and the first one."""
        del query_length
        window = self._window()
        return window.length, window.start

    def get_seq_length(self) -> Any:
        """The position of the first new token, as a tensor."""
        return self.place.input_pos

    def get_max_length(self) -> int:
        """How many positions there are."""
        return self.rows.length

    def _window(self) -> Window:
        return self.place.window(self.rows.length, self.sliding)


class KeyValueCache(Cache):
    """The cache of all layers, for tokens at a place."""

    def __init__(self, rows: Iterable[Any], sliding: Sequence[int | None], place: Place) -> None:
        super().__init__(layers=[_Layer(*layer, place) for layer in zip(rows, sliding, strict=True)])
        self._place = place

    def get_query_offset(self, layer_idx: int = 0) -> Any:
        """The positions of all new tokens: this project's mask function expects them here."""
        del layer_idx
        return self._place.positions


def make_rows(shapes: Sequence[tuple[int, int]], length: int, cache_type: str) -> nn.ModuleList:
    """Empty rows for layers with these numbers of heads and sizes of one."""
    return nn.ModuleList([Rows(length, *shape, DTYPES[cache_type]) for shape in shapes])


def head_shapes(config: Any) -> list[tuple[int, int]]:
    """How many key heads each layer of a model has, and their size."""
    from transformers.configuration_utils import get_head_shapes

    count = config.num_hidden_layers
    heads, sizes = (shape if isinstance(shape, list) else [shape] * count for shape in get_head_shapes(config))
    return list(zip(heads, sizes, strict=True))


def sliding_windows(config: Any) -> list[int | None]:
    """The sliding window of each layer, or None where it attends to all positions before it."""
    window = getattr(config, "sliding_window", None)
    types = getattr(config, "layer_types", None)
    if types is None:
        return [window] * config.num_hidden_layers
    return [window if kind == "sliding_attention" else None for kind in types]
