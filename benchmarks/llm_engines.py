"""The engines that language models are compared on. Each reads a model, fills its cache, and is then timed by parts.

All of them get the same GGUF file, the same tokens and the same number of threads, and give the logits of the last
token alone.
"""

from __future__ import annotations

import importlib
import resource
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

CHUNK = 512
"""Tokens of one call at most, here and in llama.cpp (its default)."""
LENGTH = 2048 + 64
"""Positions of the cache."""
VOCABULARY = 1000
"""Tokens are drawn from the first ones."""


def random_tokens(count: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The same tokens for every engine."""
    return np.random.default_rng(count).integers(0, VOCABULARY, count)


class LlmEngine(ABC):
    """One model loaded by one engine, and where in the sequence it is."""

    title: ClassVar[str]
    package: ClassVar[str]

    def __init__(self, engine: str, threads: int, folder: Path) -> None:
        del engine
        self.threads = threads
        self.folder = folder
        self.position = 0

    @abstractmethod
    def open(self, gguf: Path) -> None:
        """Load the model and give it an empty cache."""

    @abstractmethod
    def feed(self, tokens: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Read up to ``CHUNK`` tokens at the position; the logits of the last one."""

    def rewind(self, position: int) -> None:
        """Forget what was read from a position on."""
        self.position = position

    # ------------------------------------------------------------------------------------------- what workers are asked

    def load(self, gguf: str) -> tuple[float, float]:
        """Load the model: the seconds that it took, and those to the first token after 32."""
        start = time.perf_counter()
        self.open(Path(gguf))
        loaded = time.perf_counter()
        self.read(32)
        return loaded - start, time.perf_counter() - start

    def read(self, count: int) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Read tokens in chunks; the last one's logits."""
        tokens = random_tokens(count)
        for start in range(0, count, CHUNK):
            part = tokens[start : start + CHUNK]
            logits = self.feed(part)
            self.position += len(part)
        return logits

    def logits(self, count: int) -> list[float]:
        """The logits after some tokens, to compare engines."""
        self.rewind(0)
        return [float(value) for value in self.read(count)]

    def prefill(self, count: int) -> float:
        """Seconds to read tokens from the start."""
        self.rewind(0)
        start = time.perf_counter()
        self.read(count)
        return time.perf_counter() - start

    def fill(self, count: int) -> None:
        """Have read this many tokens."""
        if self.position < count:
            self.read(count - self.position)
        self.rewind(count)

    def decode(self, context: int, steps: int) -> list[float]:
        """Seconds of each of some tokens, the first of them at ``context``; what comes before was filled in."""
        self.rewind(context)
        durations = []
        for token in random_tokens(steps):
            start = time.perf_counter()
            self.feed(np.array([token]))
            durations.append(time.perf_counter() - start)
            self.position += 1
        return durations

    def peak_memory(self) -> int:
        """Bytes of memory that the process held at most."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class Ggml(LlmEngine):
    """This project's programs."""

    title = "ggml (ours)"
    package = "executorch_ggml"

    def open(self, gguf: Path) -> None:
        import executorch_ggml

        executorch_ggml.set_num_threads(self.threads)
        self.module = executorch_ggml.load(program_of(gguf))
        self.module._load("forward")

    def feed(self, tokens: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.float32]]:
        import torch

        made: np.ndarray[Any, np.dtype[np.float32]] = self.module.run(
            "forward", [torch.from_numpy(tokens)[None], torch.tensor([self.position])]
        )[0].numpy()
        return made


class LlamaCpp(LlmEngine):
    """llama.cpp through its C interface, with its defaults but for the threads and the cache's size."""

    title = "llama.cpp"
    package = "llama_cpp"

    def open(self, gguf: Path) -> None:
        llama_cpp = importlib.import_module("llama_cpp")
        self.api = llama_cpp
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(str(gguf).encode(), llama_cpp.llama_model_default_params())
        if not self.model:
            raise RuntimeError(f"llama.cpp does not load {gguf}")
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = LENGTH
        params.n_batch = params.n_ubatch = CHUNK
        params.n_threads = params.n_threads_batch = self.threads
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        self.size = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))
        self.batch = llama_cpp.llama_batch_init(CHUNK, 0, 1)

    def rewind(self, position: int) -> None:
        super().rewind(position)
        self.api.llama_memory_seq_rm(self.api.llama_get_memory(self.context), 0, position, -1)

    def feed(self, tokens: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.float32]]:
        batch = self.batch
        batch.n_tokens = len(tokens)
        for index, token in enumerate(tokens):
            batch.token[index] = int(token)
            batch.pos[index] = self.position + index
            batch.n_seq_id[index] = 1
            batch.seq_id[index][0] = 0
            batch.logits[index] = index == len(tokens) - 1
        status = self.api.llama_decode(self.context, batch)
        if status != 0:
            raise RuntimeError(f"llama_decode: {status}")
        return np.ctypeslib.as_array(self.api.llama_get_logits_ith(self.context, -1), shape=(self.size,))


class Transformers(LlmEngine):
    """Eager PyTorch in bfloat16, which this kind of processor multiplies fastest, on the weights of the file."""

    title = "transformers (bf16)"
    package = "transformers"

    def open(self, gguf: Path) -> None:
        import torch

        from executorch_ggml.gguf import load

        torch.set_num_threads(self.threads)
        self.model = load(gguf, dequantize=True).module.to(torch.bfloat16).eval()
        self.cache = self._empty()

    def _empty(self) -> Any:
        from transformers import DynamicCache

        return DynamicCache(config=self.model.config)

    def rewind(self, position: int) -> None:
        super().rewind(position)
        if position == 0:
            self.cache = self._empty()
        else:
            self.cache.crop(position)

    def feed(self, tokens: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.float32]]:
        import torch

        with torch.inference_mode():
            made = self.model(torch.from_numpy(tokens)[None], past_key_values=self.cache, logits_to_keep=1)
        logits: np.ndarray[Any, np.dtype[np.float32]] = made.logits[0, -1].float().numpy()
        return logits


def program_of(gguf: Path) -> Path:
    """The program that :func:`export` writes for a file."""
    return gguf.with_suffix(".pte")


def export(gguf: str) -> None:
    """Write a file's program: done in a process of its own, whose memory is not measured."""
    from executorch_ggml.gguf import load
    from executorch_ggml.llm import export as export_llm

    model = load(gguf)
    program = export_llm(model.module, max_seq_len=LENGTH, chunk=CHUNK, weights=model.weights)
    unfinished = program_of(Path(gguf)).with_suffix(".part.pte")
    program.save(str(unfinished))
    unfinished.rename(program_of(Path(gguf)))


ENGINES: dict[str, type[LlmEngine]] = {"ggml": Ggml, "llama.cpp": LlamaCpp, "transformers": Transformers}


def make_engine(engine: str, threads: int, folder: Path) -> LlmEngine:
    """What a worker process of :mod:`benchmarks.worker` answers with."""
    return ENGINES[engine](engine, threads, folder)
