"""Generates text with a program that :func:`executorch_ggml.llm.export` made."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from ..runtime import DeviceNames, load
from .metadata import DETECTED, SHORT_LENGTH, SHORT_METHOD, metadata_of, tokenizer_of
from .sampling import Logits, Sampling, choose
from .tokenizer import StopStrings, TextStream, Tokenizer
from .tokens import Tokens, checked

Prompt: TypeAlias = str | Sequence[int] | npt.NDArray[np.floating[Any]]
Finish: TypeAlias = Literal["eos", "stop", "length", "context"]


@dataclass
class Timing:
    """How long a generation took, in seconds, and of how many tokens."""

    encode_seconds: float = 0.0
    prompt_tokens: int = 0
    reused_tokens: int = 0
    prefill_seconds: float = 0.0
    new_tokens: int = 0
    decode_seconds: float = 0.0
    first_token_seconds: float = 0.0

    @property
    def prefill_speed(self) -> float:
        """Tokens of the prompt read in a second."""
        return self.prompt_tokens / self.prefill_seconds if self.prefill_seconds else 0.0

    @property
    def decode_speed(self) -> float:
        """Tokens made in a second, the first one apart: that is the prompt's."""
        return (self.new_tokens - 1) / self.decode_seconds if self.decode_seconds else 0.0


class Generation(Iterator[str]):
    """A text as it is made: iterate over its pieces, none of which is empty.

    ``tokens`` are those made so far, ``text`` what was given out of them. At the end ``finish`` says why there is no
    more: a token that ends the text (``eos``), a stop string (``stop``), the limit that was asked for (``length``), or
    no more place (``context``).
    """

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.text = ""
        self.finish: Finish | None = None
        self.timing = Timing()
        self._pieces: Iterator[str] = iter(())
        self._encoded: torch.Tensor | None = None  # what the encoder gave

    def __next__(self) -> str:
        """The next piece."""
        piece = next(self._pieces)
        self.text += piece
        return piece


class Generator:
    """A loaded model with the tokens that it has read.

    :meth:`stream` and :meth:`generate` take a whole prompt: what of its beginning was read before is not read again,
    so that each turn of a conversation costs only what is new. :meth:`feed` is the layer below: it reads tokens after
    those that are there, :meth:`rewind` forgets the last of them, and :meth:`reset` all.

    The prompt of an encoder-decoder model is what its encoder reads: a text, tokens, or Whisper's features (an array
    ``[mels, frames]``). The text that is made starts with the tokens that the model's generation config says, or those
    given as ``start``. The layer below is :meth:`encode`, after which :meth:`feed` reads the decoder's tokens.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        tokenizer: Any = None,
        data_path: str | os.PathLike[str] | None = None,
        gguf: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
        device: DeviceNames = "",
    ) -> None:
        """Load a program; ``tokenizer`` (see :meth:`Tokenizer.load`) where it is not in the file.

        ``data_path`` and ``gguf`` are where its weights are, if not in it, and ``device`` is what it runs on (see
        :func:`executorch_ggml.load`).
        """
        started = time.perf_counter()
        self._module = load(path, data_path=data_path, gguf=gguf, device=device)
        required = ("get_max_context_len", "get_max_seq_len", "get_vocab_size")
        self.metadata = metadata_of(self._module, required, "language model")
        self.max_seq_len: int = self.metadata["get_max_context_len"]
        self.chunk: int = self.metadata["get_max_seq_len"]
        self.vocab_size: int = self.metadata["get_vocab_size"]
        self._short_len: int = self.metadata.get(SHORT_LENGTH, 0)
        self.eos_ids = frozenset(self.metadata.get("get_eos_ids", ()))
        self._start_ids: tuple[int, ...] = self.metadata.get("get_start_ids", ())
        self._language_ids: tuple[int, ...] = self.metadata.get("get_language_ids", ())
        self._suppressed = frozenset(self.metadata.get("get_suppressed_ids", ()))
        self._begin_suppressed = frozenset(self.metadata.get("get_begin_suppressed_ids", ()))
        self._tokenizer = tokenizer_of(path, tokenizer)
        if self._tokenizer is not None:
            self._tokenizer.check_fits(self.vocab_size)
        self.has_encoder = "encode" in self._module.method_names
        self._encoded: torch.Tensor | None = None  # how many rows the encoder made
        self._tokens: list[int] = []
        self._method = "forward"  # which has read them
        self._logits: Logits | None = None  # after all of them
        self.load_seconds = time.perf_counter() - started

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer; ValueError where there is none."""
        if self._tokenizer is None:
            raise ValueError("the program has no tokenizer in it: pass one, or give tokens instead of text")
        return self._tokenizer

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens that were read, from the first position on."""
        return tuple(self._tokens)

    def reset(self) -> None:
        """Forget all that was read."""
        self._module.reset_state()
        self._encoded = None
        self.rewind(0)

    def rewind(self, length: int) -> None:
        """Forget the tokens from a position on."""
        if not 0 <= length <= len(self._tokens):
            raise ValueError(f"rewind to {length}: there are {len(self._tokens)} tokens")
        if length < len(self._tokens):
            del self._tokens[length:]
            self._logits = None

    def encode(self, source: Prompt) -> None:
        """Have the encoder read a text, tokens or features; the tokens that were read before are forgotten."""
        if not self.has_encoder:
            raise ValueError("the program's model has no encoder")
        ready = self._source(source)
        self._encoded = None  # until this has succeeded
        self.rewind(0)
        self._encoded = self._module.run("encode", (ready,))

    def feed(self, tokens: Sequence[int]) -> Logits:
        """Read tokens after those that were read, and give the logits of what may come next.

        Where a model rotates long texts by other factors (``longrope``), all tokens are read again when the text
        grows past the limit, or was rewound from there: keys in the cache have the other factors.
        """
        ids = checked(tokens, self.vocab_size)
        if len(ids) == 0:
            raise ValueError("no tokens to read")
        if len(self._tokens) + len(ids) > self.max_seq_len:
            raise ValueError(
                f"{len(self._tokens)} tokens and {len(ids)} more: the program was exported for {self.max_seq_len}"
            )
        if self.has_encoder and self._encoded is None:
            raise ValueError("the encoder has read nothing yet: call encode first")
        method = self._method_for(len(self._tokens) + len(ids))
        if method != self._method:
            ids = np.concatenate([np.array(self._tokens, dtype=ids.dtype), ids])
            self.rewind(0)
            self._method = method
        encoded = () if self._encoded is None else (self._encoded,)
        for first in range(0, len(ids), self.chunk):
            part = ids[first : first + self.chunk]
            self._logits = None  # until this has succeeded
            made = self._module.run(method, (_row(part), torch.tensor([len(self._tokens)]), *encoded))
            self._tokens += part.tolist()
            self._logits = made.reshape(-1, self.vocab_size)[-1].numpy()
        assert self._logits is not None
        return self._logits

    def _method_for(self, length: int) -> str:
        """The program's method that reads a text of so many tokens."""
        return SHORT_METHOD if length <= self._short_len else "forward"

    def generate(self, prompt: Prompt, **options: Any) -> str:
        """The text that follows a prompt; options as for :meth:`stream`."""
        return "".join(self.stream(prompt, **options))

    def stream(
        self,
        prompt: Prompt,
        *,
        max_new_tokens: int | None = None,
        stop: str | Sequence[str] = (),
        seed: int | None = None,
        start: Sequence[int] | None = None,
        **sampling: Any,
    ) -> Generation:
        """Generate what follows a prompt (a text, or tokens), or what a source becomes, piece by piece.

        ``sampling`` are the fields of :class:`Sampling`: without any, the most likely token is taken each time. With a
        ``seed`` a text is the same each time. The text ends before the first of the ``stop`` strings.
        """
        stops = StopStrings([stop] if isinstance(stop, str) else stop)
        generation = Generation()
        ids, tokens = self._started(generation, prompt, max_new_tokens, seed, start, sampling)
        generation._pieces = _pieces(generation, TextStream(self.tokenizer, ids), stops, tokens)
        return generation

    def stream_tokens(
        self,
        prompt: Prompt,
        *,
        max_new_tokens: int | None = None,
        seed: int | None = None,
        start: Sequence[int] | None = None,
        **sampling: Any,
    ) -> Iterator[int]:
        """Generate the tokens that follow a prompt, up to one that ends the text; options as for :meth:`stream`."""
        return self._started(Generation(), prompt, max_new_tokens, seed, start, sampling)[1]

    def chat(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> Generation:
        """Generate the next message of a conversation; options as for :meth:`stream`."""
        prompt = self.tokenizer.encode(self.tokenizer.chat(messages), special=False)
        return self.stream(prompt, **options)

    def _started(
        self,
        generation: Generation,
        prompt: Prompt,
        most: int | None,
        seed: int | None,
        start: Sequence[int] | None,
        sampling: Mapping[str, Any],
    ) -> tuple[list[int], Iterator[int]]:
        """The tokens that a text begins with, and those that follow."""
        if most is not None and most < 0:
            raise ValueError(f"max_new_tokens {most}, expected 0 or more")
        how, random = Sampling(**sampling), np.random.default_rng(seed)
        ids = self._begun(generation, prompt, start)
        generation._encoded = self._encoded
        return ids, self._new_tokens(generation, list(ids), most, how, random)

    def _begun(self, generation: Generation, prompt: Prompt, start: Sequence[int] | None) -> list[int]:
        """The tokens that a text begins with; of an encoder-decoder model, after its encoder has read the prompt."""
        if not self.has_encoder:
            if start is not None:
                raise ValueError("start is for models with an encoder: here the prompt itself begins the text")
            return self._prompt(prompt)
        began = time.perf_counter()
        self.encode(prompt)
        ids = self._prompt(self._with_language(self._start_ids) if start is None else start)
        generation.timing.encode_seconds = time.perf_counter() - began
        return ids

    def _with_language(self, ids: Sequence[int]) -> list[int]:
        """The first tokens, with that of the language which the model takes the source to be in."""
        if DETECTED not in ids:
            return list(ids)
        place = ids.index(DETECTED)
        logits = self.feed(ids[:place])
        return [*ids[:place], max(self._language_ids, key=lambda token: float(logits[token])), *ids[place + 1 :]]

    def _source(self, source: Prompt) -> torch.Tensor:
        """What the encoder takes."""
        given = np.asarray(self.tokenizer.encode(source) if isinstance(source, str) else source)
        if given.ndim > 1 and given.dtype.kind == "f":
            features = np.ascontiguousarray(given, dtype=np.float32)
            return torch.from_numpy(features[None] if given.ndim == 2 else features)
        ids, most = checked(given, self.vocab_size), self.metadata["get_max_source_len"]
        if not 0 < len(ids) <= most:
            raise ValueError(f"the source has {len(ids)} tokens, but the program was exported for 1 to {most}")
        return _row(ids)

    def _prompt(self, prompt: Prompt) -> list[int]:
        given = self.tokenizer.encode(prompt) if isinstance(prompt, str) else prompt
        ids = checked(given, self.vocab_size).tolist()
        if not ids:
            raise ValueError("the prompt is empty")
        if len(ids) > self.max_seq_len:
            raise ValueError(
                f"the prompt has {len(ids)} tokens, but the program was exported for {self.max_seq_len}; "
                f"shorten it, or export with a larger max_seq_len"
            )
        return list(ids)

    def _read(self, generation: Generation, ids: list[int]) -> tuple[Logits, int]:
        """Read a text's tokens but for the first ones that are there: the logits after them, and how many were there.

        In most cases only its last token is not; more, where something else was read since.
        """
        if generation._encoded is not self._encoded:
            raise ValueError("the encoder has read another source since this text was begun")
        known = _common(self._tokens, ids) if self._method == self._method_for(len(ids)) else 0
        if known < len(ids) or known < len(self._tokens) or self._logits is None:
            known = min(known, len(ids) - 1)  # its last token's logits are asked for
            self.rewind(known)
            self.feed(ids[known:])
        assert self._logits is not None
        return self._logits, known

    def _allowed(self, logits: Logits, new_tokens: int) -> Logits:
        """The logits, after some tokens were made, without the tokens that the model's generation config rules out."""
        hidden = self._suppressed if new_tokens else self._suppressed | self._begin_suppressed
        if not hidden:
            return logits
        logits = logits.copy()
        logits[list(hidden)] = -np.inf
        return logits

    def _new_tokens(
        self, generation: Generation, ids: list[int], most: int | None, how: Sampling, random: np.random.Generator
    ) -> Iterator[int]:
        """The tokens that follow, each of them read when the next one is asked for."""
        timing, clock = generation.timing, time.perf_counter
        started = clock() - timing.encode_seconds
        logits, known = self._read(generation, ids)
        timing.prompt_tokens, timing.reused_tokens = len(ids) - known, known
        timing.prefill_seconds = clock() - started - timing.encode_seconds
        while most is None or timing.new_tokens < most:
            token = choose(self._allowed(logits, timing.new_tokens), ids, how, random)
            timing.new_tokens += 1
            timing.first_token_seconds = timing.first_token_seconds or clock() - started
            timing.decode_seconds = clock() - started - timing.first_token_seconds
            if token in self.eos_ids:
                generation.finish = "eos"
                return
            generation.tokens.append(token)
            yield token
            if len(ids) >= self.max_seq_len:
                generation.finish = "context"
                return
            ids.append(token)
            if timing.new_tokens != most:
                logits, _ = self._read(generation, ids)
        generation.finish = "length"


def _pieces(generation: Generation, text: TextStream, stops: StopStrings, tokens: Iterator[int]) -> Iterator[str]:
    """The text of tokens, up to a stop string."""
    for token in tokens:
        if piece := stops.push(text.push(token)):
            yield piece
        if stops.found is not None:
            break
    if piece := stops.push(text.flush()) + stops.flush():
        yield piece
    if stops.found is not None:
        generation.finish = "stop"


def _row(ids: Tokens) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(ids)[None])


def _common(a: list[int], b: list[int]) -> int:
    """How many tokens two sequences begin with alike."""
    if a == b[: len(a)]:  # at each new token of a text
        return len(a)
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
