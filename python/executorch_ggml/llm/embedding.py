"""Makes embeddings of texts with a program that :func:`executorch_ggml.llm.export_encoder` made."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import tokenizers
import torch

from ..runtime import load
from .metadata import SHORT_LENGTH, metadata_of, tokenizer_of
from .tokens import Tokens, checked

Embeddings: TypeAlias = npt.NDArray[np.float32]


class Encoder:
    """A loaded sentence encoder."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        tokenizer: Any = None,
        data_path: str | os.PathLike[str] | None = None,
    ) -> None:
        """Load a program; ``tokenizer`` (see :meth:`Tokenizer.load`) where it is not in the file.

        ``data_path`` is where its weights are, if not in it (see :func:`executorch_ggml.load`).
        """
        self._module = load(path, data_path=data_path)
        required = ("get_max_seq_len", "get_max_batch_size", "get_vocab_size", "get_pad_id")
        self.metadata = metadata_of(self._module, required, "sentence encoder")
        self.max_seq_len: int = self.metadata["get_max_seq_len"]
        self.max_batch: int = self.metadata["get_max_batch_size"]
        self._short_len: int = self.metadata.get(SHORT_LENGTH, 0)  # a batch is rotated by its longest text
        known = tokenizer_of(path, tokenizer)
        if known is not None:
            known.check_fits(self.metadata["get_vocab_size"])
        self._tokenizer = None if known is None else tokenizers.Tokenizer.from_str(known.model.to_str())
        if self._tokenizer is not None:
            self._tokenizer.no_padding()  # checkpoints come with that of their training

    def embed(self, texts: str | Sequence[str], *, truncate: bool = False) -> Embeddings:
        """The embeddings ``[texts, size]``, or ``[size]`` of one text.

        A text of more tokens than the program takes is a ValueError, or with ``truncate`` embedded as far as it fits.
        """
        if self._tokenizer is None:
            raise ValueError("the program has no tokenizer in it: pass one, or give tokens to embed_tokens")
        if truncate:
            self._tokenizer.enable_truncation(self.max_seq_len)
        else:
            self._tokenizer.no_truncation()
        given = [texts] if isinstance(texts, str) else list(texts)
        made = self.embed_tokens([encoding.ids for encoding in self._tokenizer.encode_batch(given)])
        return made[0] if isinstance(texts, str) else made

    def embed_tokens(self, texts: Sequence[Sequence[int]]) -> Embeddings:
        """The embeddings ``[texts, size]`` of texts that are tokens already, special ones among them."""
        sequences = [self._checked(index, ids) for index, ids in enumerate(texts)]
        if not sequences:
            raise ValueError("no texts to embed")
        # So that batches have little padding.
        order = sorted(range(len(sequences)), key=lambda index: len(sequences[index]))
        groups = [list(group) for _, group in groupby(order, key=lambda index: len(sequences[index]) > self._short_len)]
        parts = [
            group[first : first + self.max_batch] for group in groups for first in range(0, len(group), self.max_batch)
        ]
        embeddings = np.concatenate([self._batch([sequences[index] for index in part]) for part in parts])
        return embeddings[np.argsort(order)]

    def _batch(self, texts: Sequence[Tokens]) -> Embeddings:
        shape = len(texts), max(map(len, texts))
        tokens = torch.full(shape, self.metadata["get_pad_id"], dtype=torch.int64)
        mask = torch.zeros(shape, dtype=torch.int64)
        for row, ids in enumerate(texts):
            tokens[row, : len(ids)] = torch.from_numpy(ids)
            mask[row, : len(ids)] = 1
        made: Embeddings = self._module.run("forward", (tokens, mask)).numpy()
        return made

    def _checked(self, index: int, tokens: Sequence[int]) -> Tokens:
        try:
            ids = checked(tokens, self.metadata["get_vocab_size"])
        except ValueError as error:
            raise ValueError(f"text {index}: {error}") from None
        if not 0 < len(ids) <= self.max_seq_len:
            raise ValueError(
                f"text {index} has {len(ids)} tokens, but the program was exported for 1 to {self.max_seq_len}; "
                f"truncate=True cuts texts off there"
            )
        return ids
