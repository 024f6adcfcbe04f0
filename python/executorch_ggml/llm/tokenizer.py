"""Text to tokens and back, and conversations to prompts."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tokenizers


@dataclass(frozen=True)
class Tokenizer:
    """A tokenizer of the ``tokenizers`` package, with what a chat template needs beside it."""

    model: tokenizers.Tokenizer
    chat_template: str | None = None
    special_tokens: Mapping[str, str] = field(default_factory=dict)
    eos_ids: tuple[int, ...] = ()  # all tokens that end a text, where more are known than ``eos_token``

    @classmethod
    def load(cls, source: Any) -> Tokenizer:
        """From a ``tokenizer.json``, a folder of ``transformers``, a GGUF file, or a tokenizer of either package."""
        if isinstance(source, Tokenizer):
            return source
        if isinstance(source, tokenizers.Tokenizer):
            return cls(source)
        if isinstance(source, (str, os.PathLike)):
            return _from_path(Path(source))
        backend = getattr(source, "backend_tokenizer", None)
        if isinstance(backend, tokenizers.Tokenizer):
            template, ends = source.chat_template, getattr(source, "eos_token_ids", None)
            return cls(
                backend,
                template if isinstance(template, str) else None,
                dict(source.special_tokens_map),
                ends if isinstance(ends, tuple) else (),
            )
        raise TypeError(f"a tokenizer of type {type(source).__name__}: expected a path, or one with a fast backend")

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """The tokens of a text; with ``special`` those before and after it too, as the model was trained with."""
        text.encode()  # what is no Unicode raises an error that says so, and not the package's own
        ids: list[int] = self.model.encode(text, add_special_tokens=special).ids
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens, special ones left out."""
        text: str = self.model.decode(list(ids), skip_special_tokens=True)
        return text

    def chat(self, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool = True, **options: Any) -> str:
        """A conversation as the model's chat template writes it; its special tokens are part of the text.

        ``options`` are the template's own (``tools``, ``enable_thinking`` …). Templates run in jinja's sandbox.
        """
        if self.chat_template is None:
            raise ValueError("the tokenizer has no chat template")
        from jinja2 import TemplateError
        from transformers.utils.chat_template_utils import render_jinja_template

        given = {**self.special_tokens, **options}
        try:
            rendered, _ = render_jinja_template(
                conversations=[list(messages)],
                chat_template=self.chat_template,
                add_generation_prompt=add_generation_prompt,
                **given,
            )
        except (TemplateError, TypeError) as error:  # a template may add what is missing to a text
            raise ValueError(f"the chat template does not take this conversation: {error}") from error
        text: str = rendered[0]
        return text

    def id_of(self, name: str) -> int | None:
        """The number of a special token, by what it is called (``bos_token`` …)."""
        token = self.special_tokens.get(name)
        number: int | None = None if token is None else self.model.token_to_id(token)
        return number

    def check_fits(self, vocab_size: int) -> None:
        """Raise ValueError for a tokenizer with tokens that a model with a vocabulary of this size has no row for."""
        ids = self.model.get_vocab(with_added_tokens=True)
        last = max(ids, key=ids.__getitem__, default=None)
        if last is not None and ids[last] >= vocab_size:
            raise ValueError(
                f"the tokenizer has token {ids[last]} ({last!r}), but the model's vocabulary has {vocab_size} tokens: "
                f"pass the tokenizer that the model was trained with, or enlarge the model's embeddings"
            )

    def to_bytes(self) -> bytes:
        """All of it, to be kept in a program."""
        parts = {
            "tokenizer": self.model.to_str(),
            "chat_template": self.chat_template,
            "special_tokens": dict(self.special_tokens),
            "eos_ids": self.eos_ids,
        }
        return json.dumps(parts, ensure_ascii=False).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Tokenizer:
        """What :meth:`to_bytes` wrote."""
        try:
            parts = json.loads(data)
            model = tokenizers.Tokenizer.from_str(parts["tokenizer"])
            return cls(model, parts["chat_template"], parts["special_tokens"], tuple(parts["eos_ids"]))
        except Exception as error:  # the package raises no narrower type
            raise ValueError(f"the program's tokenizer is damaged: {error}") from error


def _from_path(path: Path) -> Tokenizer:
    if path.is_dir():
        from transformers import AutoTokenizer

        return Tokenizer.load(AutoTokenizer.from_pretrained(path, local_files_only=True))
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such tokenizer")
    if path.suffix == ".gguf":
        from ..gguf.tokenizer import tokenizer_of

        return Tokenizer.load(tokenizer_of(path))
    try:
        return Tokenizer(tokenizers.Tokenizer.from_file(str(path)))
    except Exception as error:  # the package raises no narrower type
        raise ValueError(f"{path} is not a tokenizer.json: {error}") from error


class TextStream:
    """The text of tokens as they come: whole characters, with the spaces that they have in the whole text."""

    # Text of the last tokens before decides how the next ones are written (SentencePiece drops the first space).
    _CONTEXT = 8
    _LONGEST = 16  # tokens without a whole character between them: not text any more

    def __init__(self, tokenizer: Tokenizer, before: Sequence[int] = ()) -> None:
        self._tokenizer = tokenizer
        self._ids = list(before[-self._CONTEXT :])
        self._done = len(self._ids)
        self._text = tokenizer.decode(self._ids)

    def push(self, token: int) -> str:
        """The text that is certain with one more token; it may be empty."""
        self._ids.append(token)
        text = self._tokenizer.decode(self._ids)
        pending = len(self._ids) - self._done
        if len(text) <= len(self._text) or (text.endswith("\N{REPLACEMENT CHARACTER}") and pending < self._LONGEST):
            return ""
        return self._given(text)

    def flush(self) -> str:
        """What is left at the end: the text of an unfinished character."""
        return self._given(self._tokenizer.decode(self._ids))

    def _given(self, text: str) -> str:
        new = text[len(self._text) :]
        self._ids = self._ids[self._done :]
        self._done = len(self._ids)
        self._text = self._tokenizer.decode(self._ids)
        return new


class StopStrings:
    """Cuts a text at the first of some strings in it, which may be spread over several pieces."""

    def __init__(self, stops: Sequence[str]) -> None:
        if not all(stops):
            raise ValueError("a stop string is empty")
        self._stops = tuple(stops)
        self._held = ""
        self.found: str | None = None

    def push(self, text: str) -> str:
        """The part of the text so far that no stop string can begin in; nothing once one was found."""
        if self.found is not None:
            return ""
        self._held += text
        places = {stop: self._held.find(stop) for stop in self._stops if stop in self._held}
        if places:  # the one that was complete first, however the text came in pieces
            self.found = min(places, key=lambda stop: (places[stop] + len(stop), places[stop]))
            return self._given(places[self.found])
        return self._given(len(self._held) - max(map(self._begun, self._stops), default=0))

    def flush(self) -> str:
        """What is left when no more text comes."""
        return "" if self.found is not None else self._given(len(self._held))

    def _begun(self, stop: str) -> int:
        """How many characters at the end of the text are the beginning of a stop string."""
        longest = min(len(stop) - 1, len(self._held))
        return next((size for size in range(longest, 0, -1) if self._held.endswith(stop[:size])), 0)

    def _given(self, size: int) -> str:
        given, self._held = self._held[:size], self._held[size:]
        return given
