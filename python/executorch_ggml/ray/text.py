"""Actors for texts: embeddings, and text generation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..llm import Encoder, Generator
from .columns import Array, Batch, Rows
from .program import Program, path_of, use_threads


class Embedder:
    """Embeds a column of texts with a sentence encoder (:func:`executorch_ggml.llm.export_encoder`)."""

    def __init__(
        self,
        program: Program,
        *,
        text: str = "text",
        output: str = "embedding",
        truncate: bool = False,
        num_threads: int = 1,
        keep: Sequence[str] | None = None,
        key: str | None = None,
        **options: Any,
    ) -> None:
        """Load a program, a path or bytes; ``options`` are :class:`executorch_ggml.llm.Encoder`'s.

        ``text`` is the column that is read, ``output`` the one that is added. Texts of more tokens than the program
        takes are an error, or with ``truncate`` cut off. ``keep`` and ``key`` are :class:`Predictor`'s.
        """
        use_threads(num_threads)
        self._encoder = Encoder(path_of(program), **options)
        self._text, self._output, self._truncate = text, output, truncate
        self._keep, self._key = keep, key

    def __call__(self, batch: Batch) -> dict[str, Array]:
        """The batch with the embeddings as a column."""
        rows = Rows(batch, self._key)
        texts = rows.texts(self._text)
        try:
            embeddings = self._encoder.embed(texts, truncate=self._truncate) if texts else np.empty(0, np.float32)
        except ValueError:
            self._name_row(rows, texts)
            raise
        return rows.results({self._output: embeddings}, self._keep)

    def _name_row(self, rows: Rows, texts: Sequence[str]) -> None:
        """Raise for the first text that cannot be embedded, with the name of its row."""
        for row, text in enumerate(texts):
            try:
                self._encoder.embed(text, truncate=self._truncate)
            except ValueError as error:
                raise ValueError(f"{rows.name(self._text, row)}: {error}") from error


class TextGenerator:
    """Generates what follows each text of a column, with a language model (:func:`executorch_ggml.llm.export`)."""

    def __init__(
        self,
        program: Program,
        *,
        max_new_tokens: int,
        prompt: str = "prompt",
        output: str = "text",
        finish: str = "finish",
        tokens: str = "new_tokens",
        share_prefix: bool = False,
        stop: Sequence[str] = (),
        seed: int = 0,
        sampling: dict[str, Any] | None = None,
        num_threads: int = 1,
        keep: Sequence[str] | None = None,
        key: str | None = None,
        **options: Any,
    ) -> None:
        """Load a program, a path or bytes; ``options`` are :class:`executorch_ggml.llm.Generator`'s.

        ``prompt`` is the column that is read; ``output`` (the text), ``finish`` (why it ended) and ``tokens`` (their
        number) are those that are added. ``sampling`` are the fields of :class:`executorch_ggml.llm.Sampling`. Each row
        starts with the ``seed`` and, without ``share_prefix``, with an empty cache: its text is then the same on any
        actor, after any row. With it, a beginning in common with the row before is not read again.
        """
        use_threads(num_threads)
        self._generator = Generator(path_of(program), **options)
        self._how = {"max_new_tokens": max_new_tokens, "stop": list(stop), "seed": seed, **(sampling or {})}
        self._prompt, self._columns, self._share_prefix = prompt, (output, finish, tokens), share_prefix
        self._keep, self._key = keep, key

    def __call__(self, batch: Batch) -> dict[str, Array]:
        """The batch with the texts as a column."""
        rows = Rows(batch, self._key)
        made = [self._generated(rows, row, text) for row, text in enumerate(rows.texts(self._prompt))]
        values = list(zip(*made, strict=True)) or [(), (), ()]
        arrays = [np.array(column, kind) for column, kind in zip(values, (object, object, np.int64), strict=True)]
        return rows.results(dict(zip(self._columns, arrays, strict=True)), self._keep)

    def _generated(self, rows: Rows, row: int, prompt: str) -> tuple[str, str | None, int]:
        if not self._share_prefix:
            self._generator.reset()
        try:
            generation = self._generator.stream(prompt, **self._how)
            text = "".join(generation)
        except ValueError as error:
            raise ValueError(f"{rows.name(self._prompt, row)}: {error}") from error
        return text, generation.finish, len(generation.tokens)
