"""A sentence encoder of ``transformers`` as a program that makes embeddings of texts."""

from __future__ import annotations

import os
from inspect import signature
from pathlib import Path
from typing import Any, Literal

import torch
from executorch.exir import ExecutorchProgramManager
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.nn import functional
from transformers import AutoModel, PreTrainedModel

from ..frontends.aten.weights import WeightSource
from .metadata import SHORT_LENGTH
from .pooling import POOLINGS, Pooling, pooling_of
from .program import in_float32, lowered, traceable
from .rotary import short_limit
from .tokenizer import Tokenizer


class PooledModel(nn.Module):
    """``(tokens int64 [b, n], mask int64 [b, n]) -> embeddings [b, size]``; the mask is 0 for what pads at the end."""

    def __init__(self, model: PreTrainedModel, pooling: str, normalize: bool) -> None:
        super().__init__()
        self.model = model
        self.pooling = pooling
        self.normalize = normalize
        # What a decoder would keep for tokens to come, nobody asks for.
        self.options = {"use_cache": False} if "use_cache" in signature(model.forward).parameters else {}

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """The embedding of each row of tokens."""
        made = self.model(input_ids=tokens, attention_mask=mask, **self.options)
        states = getattr(made, "last_hidden_state", None)
        if states is None:
            raise ValueError(
                f"{type(self.model).__name__} gives no last_hidden_state: pass AutoModel's, without a head"
            )
        pooled = POOLINGS[self.pooling](states, mask)
        return functional.normalize(pooled, dim=1) if self.normalize else pooled


def export_encoder(
    model: PreTrainedModel | str | os.PathLike[str],
    *,
    pooling: str | None = None,
    normalize: bool | None = None,
    max_seq_len: int | None = None,
    max_batch: int = 32,
    weights: WeightSource | None = None,
    precision: str | None = None,
    layout: Literal["cpu"] | None = None,
    tokenizer: Tokenizer | None = None,
) -> ExecutorchProgramManager:
    """Export a sentence encoder, or a checkpoint's folder with one; write the result with ``.save(path)``.

    The program has a method ``forward``: it takes tokens and a mask (int64 ``[b, n]``, up to ``max_batch`` texts of up
    to ``max_seq_len`` tokens; the mask is 1 for tokens and 0 for what pads them at the end) and gives embeddings
    (float32 ``[b, size]``). :class:`Encoder` loads it.

    ``pooling`` (``mean``, ``max``, ``cls`` or ``lasttoken``), ``normalize`` (to length 1) and ``max_seq_len`` are by
    default what the files of ``sentence-transformers`` in the model's folder say; where there are none, the mean as it
    is, and as many tokens as the model was made for. A folder's tokenizer is put into the program, too. ``weights``
    says how parameters are stored, ``precision`` what layers are computed in whose weights are float32, and ``layout``
    in whose layout quantized matrices are stored (see :class:`executorch_ggml.GgmlPartitioner`).

    A model with ``longrope`` rotates by the longest text of a batch, padding included, as in transformers;
    :class:`Encoder` puts texts with different factors into different batches.
    """
    if not isinstance(model, PreTrainedModel):
        folder = Path(model)
        if not folder.is_dir():
            raise FileNotFoundError(f"{folder}: no such folder")
        model = AutoModel.from_pretrained(folder, local_files_only=True)
        tokenizer = Tokenizer.load(folder) if tokenizer is None else tokenizer
    known = pooling_of(Path(model.name_or_path)) if model.name_or_path else Pooling()
    pooling = known.mode if pooling is None else pooling
    normalize = known.normalize if normalize is None else normalize
    limit = _limit(model)
    length = max_seq_len or min(known.max_seq_len or limit, limit)
    _check(model, pooling, length, limit, max_batch)
    if tokenizer is not None:
        tokenizer.check_fits(model.config.vocab_size)
    model, weights = in_float32(model, weights)
    program = trace(PooledModel(model, pooling, normalize), length, max_batch)
    metadata = _metadata(model, length, max_batch)
    return lowered(
        {"forward": program},
        weights=weights,
        precision=precision,
        layout=layout,
        metadata=metadata,
        tokenizer=tokenizer,
    )


def trace(module: PooledModel, max_seq_len: int, max_batch: int) -> ExportedProgram:
    """The exported program, for any number of texts and tokens up to these."""
    sizes: Any = {}
    if max_batch > 1:
        sizes[0] = Dim("batch", min=1, max=max_batch)
    if max_seq_len > 1:
        sizes[1] = Dim("length", min=1, max=max_seq_len)
    example = tuple(torch.ones(max_batch, max_seq_len, dtype=torch.int64) for _ in range(2))
    with traceable(module.model):
        return torch.export.export(module, example, dynamic_shapes=(sizes, sizes), strict=False)


def _metadata(model: PreTrainedModel, max_seq_len: int, max_batch: int) -> dict[str, Any]:
    limit = short_limit(model.config)
    return {
        "get_max_seq_len": max_seq_len,
        "get_max_batch_size": max_batch,
        "get_vocab_size": model.config.vocab_size,
        "get_pad_id": getattr(model.config, "pad_token_id", None) or 0,
        **({} if limit is None else {SHORT_LENGTH: limit}),
    }


def _limit(model: PreTrainedModel) -> int:
    """How many tokens a model was made for; where positions are counted from the padding token's on, fewer."""
    positions: int | None = getattr(model.config, "max_position_embeddings", None)
    if positions is None:
        return 512
    first = getattr(getattr(model, "embeddings", None), "padding_idx", None)
    return positions if first is None else positions - first - 1


def _check(model: PreTrainedModel, pooling: str, max_seq_len: int, limit: int, max_batch: int) -> None:
    if pooling not in POOLINGS:
        raise ValueError(f"pooling {pooling!r}, expected one of {', '.join(POOLINGS)}")
    if max_seq_len < 1 or max_batch < 1:
        raise ValueError(f"max_seq_len {max_seq_len} and max_batch {max_batch}, expected 1 or more")
    if hasattr(model.config, "max_position_embeddings") and max_seq_len > limit:
        raise ValueError(f"max_seq_len {max_seq_len}, but the model was made for at most {limit} positions")
    if model.config.is_encoder_decoder and model.main_input_name != "input_ids":
        raise ValueError(f"{type(model).__name__} reads {model.main_input_name}, expected tokens")
