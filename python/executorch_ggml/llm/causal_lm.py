"""A causal language model of ``transformers`` as a module that reads tokens and remembers them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from transformers import PreTrainedModel

from .attention import exported_functions
from .cache import STEP, KeyValueCache, Place, head_shapes, make_rows, sliding_windows
from .metadata import SHORT_METHOD
from .program import called_with_cache, evaluated, traceable
from .rotary import fixed_rotary, short_limit

_CLOSE = 1e-2  # of the largest logit; rounding is a thousandth of that


class CachedModel(nn.Module):
    """``(tokens int64 [1, n], input_pos int64 [1]) -> logits`` of the last token, or of all ``[1, n, vocabulary]``."""

    def __init__(self, model: PreTrainedModel, max_seq_len: int, cache_type: str, all_logits: bool) -> None:
        super().__init__()
        config = model.config.get_text_config()
        self.model = model
        self.max_seq_len = max_seq_len
        self.all_logits = all_logits
        self.sliding = sliding_windows(config)
        self.cache = make_rows(head_shapes(config), max_seq_len, cache_type)
        self.limit: int | None = None  # of positions, where that is less than the cache has rows

    def forward(self, tokens: Tensor, input_pos: Tensor) -> Tensor:
        """Read tokens that come at a position, with all that was read before it in mind."""
        if self.limit is None:
            place = Place.of(tokens, input_pos, self.max_seq_len)
        else:
            place = Place.within(tokens, input_pos, self.limit)
        made = self.model(
            input_ids=tokens,
            position_ids=place.positions[None],
            past_key_values=KeyValueCache(self.cache, self.sliding, place),
            use_cache=True,
            logits_to_keep=0 if self.all_logits else 1,
        )
        logits: Tensor = made.logits
        return logits if self.all_logits else logits.squeeze(1)


def check(model: PreTrainedModel, max_seq_len: int) -> None:
    """Raise where a model gives other logits with this cache than by itself: it may have positions of its own making.

    It reads a few tokens for that, or where its attention is its own more than one step of the cache, in two parts.
    """
    config = model.config.get_text_config()
    length = min(6 if model._can_set_attn_implementation() else STEP + 6, max_seq_len)
    ids = [token for token in range(min(config.vocab_size, 16)) if token != config.pad_token_id]
    tokens = torch.tensor([(ids * length)[:length]])
    part = (length + 1) // 2
    with evaluated(model), fixed_rotary(model, max_seq_len):
        expected = model(input_ids=tokens, use_cache=False).logits
        with called_with_cache(model), exported_functions(model):
            module = CachedModel(model, min(max_seq_len, 2 * STEP), "f32", all_logits=True)
            made = [module(tokens[:, at : at + part], torch.tensor([at])) for at in range(0, length, part)]
    difference = (torch.cat(made, 1) - expected).abs().max() / expected.abs().max()
    if difference > _CLOSE:
        raise ValueError(
            f"{type(model).__name__} is not known: with a cache its logits are {difference:.0%} off those without one"
        )


def trace(module: CachedModel, chunk: int) -> dict[str, ExportedProgram]:
    """The exported programs, for any number of tokens up to ``chunk``.

    ``forward`` is for texts of ``max_seq_len`` tokens. Where the model rotates shorter ones by other factors, these
    have a program of their own over the same cache.
    """
    with traceable(module.model), fixed_rotary(module.model, module.max_seq_len):
        programs = {"forward": traced_decoder(module, chunk)}
    limit = short_limit(module.model.config.get_text_config())
    if limit is not None and limit < module.max_seq_len:
        module.limit = limit
        with traceable(module.model), fixed_rotary(module.model, limit):
            programs[SHORT_METHOD] = traced_decoder(module, min(chunk, limit))
    return programs


def traced_decoder(module: nn.Module, chunk: int, *others: Tensor) -> ExportedProgram:
    """The exported program of a module that takes tokens, their position and other things."""
    example = (torch.zeros(1, chunk, dtype=torch.int64), torch.zeros(1, dtype=torch.int64), *others)
    length: Any = torch.export.Dim("length", min=1, max=chunk) if chunk > 1 else None
    shapes = ({1: length}, *[None] * (1 + len(others)))
    return torch.export.export(module, example, dynamic_shapes=shapes, strict=False)
