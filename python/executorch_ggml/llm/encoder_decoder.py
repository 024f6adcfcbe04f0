"""An encoder-decoder model of ``transformers`` as two modules: one reads the source, the other tokens after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from transformers import DynamicCache, EncoderDecoderCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from .cache import KeyValueCache, Place, Window, as_size, make_rows
from .causal_lm import traced_decoder
from .program import traceable


class Memory(nn.Module):
    """The rows that the decoder's layers attend to: of the tokens before (``own``), and of the source."""

    own: Any  # a list of Rows, as the other is
    source: Any

    def __init__(self, model: PreTrainedModel, max_seq_len: int, max_source_len: int, cache_type: str) -> None:
        super().__init__()
        made = EncoderDecoderCache(DynamicCache(), DynamicCache())
        token, encoded = torch.zeros(1, 1, dtype=torch.int64), torch.zeros(1, 1, model.config.hidden_size)
        with traceable(model):
            model.get_decoder()(token, encoder_hidden_states=encoded, past_key_values=made, use_cache=True)
        self.own = make_rows(_head_shapes(made.self_attention_cache), max_seq_len, cache_type)
        self.source = make_rows(_head_shapes(made.cross_attention_cache), max_source_len, cache_type)


def _head_shapes(cache: Any) -> list[tuple[int, int]]:
    """How many key heads each layer has, and their size, by what is in a cache."""
    return [(layer.keys.shape[1], layer.keys.shape[3]) for layer in cache.layers]


class Encode(nn.Module):
    """``source -> length int64 [1]``: keeps what the decoder's layers attend to, and gives how many rows that is.

    The source is tokens (int64 ``[1, n]``), or Whisper's features (float32 ``[1, mels, frames]``).
    """

    def __init__(self, model: PreTrainedModel, cache: Memory) -> None:
        super().__init__()
        self.model = model
        self.cache = cache

    def forward(self, source: Tensor) -> Tensor:
        """Have the whole model read the source and one token; what comes of the token nobody asks for."""
        made = EncoderDecoderCache(DynamicCache(), DynamicCache())
        token = torch.zeros(1, 1, dtype=torch.int64)
        self.model(
            **{self.model.main_input_name: source}, decoder_input_ids=token, past_key_values=made, use_cache=True
        )
        layers: Any = made.cross_attention_cache.layers
        length = layers[0].keys.shape[2]
        for rows, layer in zip(self.cache.source, layers, strict=True):
            rows.write(torch.arange(length), layer.keys, layer.values)
        return torch.full((1,), length, dtype=torch.int64)


class Decode(nn.Module):
    """``(tokens int64 [1, n], input_pos int64 [1], length int64 [1]) -> logits``, with the source as it was encoded."""

    def __init__(self, model: PreTrainedModel, cache: Memory, fixed: bool, all_logits: bool) -> None:
        super().__init__()
        self.model = model
        self.cache = cache
        self.fixed = fixed  # all sources have the same length, whatever is given
        self.all_logits = all_logits

    def forward(self, tokens: Tensor, input_pos: Tensor, length: Tensor) -> Tensor:
        """Read tokens that come at a position, with the source and all that was read before in mind."""
        own, source = self.cache.own, self.cache.source
        rows = source[0].length
        window = Window(0, rows if self.fixed else as_size(length, 1, rows))
        place = Place.of(tokens, input_pos, own[0].length)
        cache = _Caches(KeyValueCache(own, [None] * len(own), place), _as_read(source, window))
        # Of the encoder's output only the shape is asked for where its keys and values are known.
        encoded = torch.empty(1, window.length, self.model.config.hidden_size)
        made = self.model(encoder_outputs=(encoded,), decoder_input_ids=tokens, past_key_values=cache, use_cache=True)
        logits: Tensor = made.logits
        return logits if self.all_logits else logits.squeeze(1)


class _Caches(EncoderDecoderCache):
    """That of the tokens before, and that of the source."""

    def get_query_offset(self, layer_idx: int = 0) -> Any:
        """The positions of all new tokens, as in :class:`KeyValueCache`."""
        return self.self_attention_cache.get_query_offset(layer_idx)


def _as_read(source: Iterable[Any], window: Window) -> DynamicCache:
    """A cache that holds what was encoded."""
    made = DynamicCache()
    for rows in source:
        layer = DynamicLayer()
        layer.keys, layer.values = rows.read(window, torch.float32)
        layer.is_initialized = True
        made.layers.append(layer)
    return made


@dataclass(frozen=True)
class Source:
    """What an encoder reads: an example of the largest size, and how many rows come of that."""

    example: Tensor
    rows: int

    @property
    def fixed(self) -> bool:
        """Whether all sources have this size: features have, tokens may be fewer."""
        return self.example.is_floating_point() or self.rows == 1


def source_of(model: PreTrainedModel, max_source_len: int) -> Source:
    """What a model's encoder reads; a ValueError says so where that is not known."""
    config, name = model.config, model.main_input_name
    if config.model_type == "whisper":
        rows = config.max_source_positions
        return Source(torch.zeros(1, config.num_mel_bins, 2 * rows), rows)
    if name != "input_ids":
        raise ValueError(
            f"{type(model).__name__}: its encoder reads {name}; known are encoders of tokens, and Whisper's"
        )
    limit = getattr(config, "max_position_embeddings", None)
    if max_source_len < 1 or (limit is not None and max_source_len > limit):
        raise ValueError(f"max_source_len {max_source_len}, expected 1 to {limit or 'any number'}")
    return Source(torch.zeros(1, max_source_len, dtype=torch.int64), max_source_len)


def trace(
    model: PreTrainedModel, cache: Memory, source: Source, chunk: int, all_logits: bool
) -> dict[str, ExportedProgram]:
    """The exported programs, for any number of tokens up to ``chunk``."""
    sizes = None if source.fixed else {1: torch.export.Dim("source_length", min=1, max=source.rows)}
    encode, decode = Encode(model, cache), Decode(model, cache, source.fixed, all_logits)
    with traceable(model):
        encoder = torch.export.export(encode, (source.example,), dynamic_shapes=(sizes,), strict=False)
        with _last_logits(model, all_logits):
            decoder = traced_decoder(decode, chunk, torch.ones(1, dtype=torch.int64))
    return {"encode": encoder, "forward": decoder}


@contextmanager
def _last_logits(model: PreTrainedModel, all_logits: bool) -> Iterator[None]:
    """Have a model compute logits for the last token only: these models have no option for that."""
    head = model.get_output_embeddings()
    handle = head.register_forward_pre_hook(lambda _, inputs: inputs if all_logits else (inputs[0][:, -1:],))
    try:
        yield
    finally:
        handle.remove()
