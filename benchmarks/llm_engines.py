"""The engines that language models are compared on. Each reads a model, fills its cache, and is then timed by parts.

All of them get the same GGUF file, the same tokens and the same number of threads, and give the logits of the last
token alone.
"""

from __future__ import annotations

import importlib
import math
import os
import resource
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from benchmarks.code_versions import digest, installed, our_files
from executorch_ggml.benchmark.system import resident_bytes

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
    packages: ClassVar[Sequence[str]]
    """What it imports, which is no part of loading a model."""
    types: ClassVar[Sequence[str] | None] = None
    """Those of a file's types that the engine's own weights are like; None for all."""
    ending: ClassVar[str | None] = None
    """That of the programs which :meth:`export` writes; None where the engine runs the file itself."""

    def __init__(self, engine: str, threads: int, folder: Path) -> None:
        del engine
        self.threads = threads
        self.folder = folder
        self.position = 0
        self.memory_before = 0

    @classmethod
    def exporter_version(cls) -> str:
        """Stands for the code that :meth:`export` is."""
        return cls.version()

    @classmethod
    def version(cls) -> str:
        """Stands for the code that is measured."""
        return digest([], [installed(package.split(".")[0]) for package in cls.packages], LENGTH, CHUNK)

    @classmethod
    def program(cls, gguf: Path) -> Path:
        """Where :meth:`export` writes a file's program."""
        return gguf.with_name(f"{gguf.stem}.{cls.exporter_version()}{cls.ending}")

    @classmethod
    def export_seconds(cls, gguf: Path) -> float:
        """How long :meth:`export` took; NaN where the engine runs the file itself."""
        return math.nan if cls.ending is None else float(seconds_file(cls.program(gguf)).read_text("utf-8"))

    @classmethod
    def file(cls, gguf: Path) -> Path:
        """What it loads of a model."""
        return gguf if cls.ending is None else cls.program(gguf)

    @classmethod
    def export(cls, gguf: Path, path: Path) -> None:
        """Write a file's program: of engines that have an ``ending``; the others read the GGUF file itself."""
        raise NotImplementedError(f"{cls.title} runs no programs")

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
        for package in self.packages:
            importlib.import_module(package)
        warm(self.file(Path(gguf)))
        self.memory_before = resident_bytes()
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

    def decode(self, context: int, steps: int) -> list[float]:
        """Seconds of each of some tokens, the first of them at ``context``; what comes before is read if it was not."""
        if self.position < context:
            self.read(context - self.position)
        self.rewind(context)
        durations = []
        for token in random_tokens(steps):
            start = time.perf_counter()
            self.feed(np.array([token]))
            durations.append(time.perf_counter() - start)
            self.position += 1
        return durations

    def peak_memory(self) -> int:
        """Bytes of memory that the process held at most beyond those that it had before it loaded the model."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - self.memory_before


def seconds_file(program: Path) -> Path:
    """Where a program's exporter writes how long it took."""
    return program.with_name(f"{program.name}.seconds")


def _files(path: Path) -> Iterable[Path]:
    return path.rglob("*") if path.is_dir() else [path]


def warm(path: Path) -> None:
    """Read what is loaded next, so that no engine waits for the disk where another does not."""
    for file in _files(path):
        with file.open("rb", buffering=0) as opened:
            while opened.read(1 << 20):
                pass


def forget(path: Path) -> None:
    """Let the page cache go of a file or a folder of files."""
    for file in _files(path):
        with file.open("rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class Ggml(LlmEngine):
    """This project's programs."""

    title = "ggml (ours)"
    packages = ("torch", "executorch_ggml", "executorch_ggml.runtime")
    ending = ".ggml.pte"
    layout: ClassVar[Literal["cpu"] | None] = None
    precision: ClassVar[str | None] = None

    @classmethod
    def exporter_version(cls) -> str:
        return digest(our_files(".py"), LENGTH, CHUNK)

    @classmethod
    def version(cls) -> str:
        return digest([*our_files(".py"), *our_files(".so")], LENGTH, CHUNK)

    @classmethod
    def export(cls, gguf: Path, path: Path) -> None:
        from executorch_ggml.gguf import load
        from executorch_ggml.llm import export

        model = load(gguf)
        program = export(
            model.module,
            max_seq_len=LENGTH,
            chunk=CHUNK,
            weights=model.weights,
            layout=cls.layout,
            precision=cls.precision,
        )
        program.save(str(path))

    def open(self, gguf: Path) -> None:
        import executorch_ggml

        executorch_ggml.set_num_threads(self.threads)
        self.module = executorch_ggml.load(self.program(gguf))
        self.module.load_method("forward")

    def feed(self, tokens: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.float32]]:
        import torch

        made: np.ndarray[Any, np.dtype[np.float32]] = self.module.run(
            "forward", [torch.from_numpy(tokens)[None], torch.tensor([self.position])]
        )[0].numpy()
        return made


class GgmlInPanels(Ggml):
    """Programs whose matrices are stored as the CPU reads them, of types that have a layout for it."""

    title = "ggml (ours, layout=cpu)"
    types = ("q4_0", "q4_k_m")
    ending = ".panels.pte"
    layout = "cpu"


class GgmlInBfloats(Ggml):
    """Programs whose layers multiply bf16, as transformers does, of files in half types."""

    title = "ggml (ours), bf16"
    types = ("f16", "bf16")
    ending = ".bfloats.pte"
    precision = "bf16"


class LlamaCpp(LlmEngine):
    """llama.cpp through its C interface, with its defaults but for the threads and the cache's size."""

    title = "llama.cpp"
    packages = ("llama_cpp",)

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
    packages = ("torch", "transformers")
    types = ("f16", "bf16")
    ending = ".bf16"

    @classmethod
    def export(cls, gguf: Path, path: Path) -> None:
        import torch

        from benchmarks.random_gguf import checkpoint_of

        checkpoint_of(gguf).to(torch.bfloat16).save_pretrained(path)

    def open(self, gguf: Path) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(self.threads)
        self.model = AutoModelForCausalLM.from_pretrained(self.program(gguf), dtype=torch.bfloat16).eval()
        self.cache = self._empty()

    def _empty(self) -> Any:
        from transformers import DynamicCache

        return DynamicCache(config=self.model.config)

    def rewind(self, position: int) -> None:
        super().rewind(position)
        if position == 0:
            self.cache = self._empty()
        elif (beyond := self.cache.get_seq_length() - position) > 0:
            self.cache.crop(-beyond)

    def feed(self, tokens: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.float32]]:
        import torch

        with torch.inference_mode():
            made = self.model(torch.from_numpy(tokens)[None], past_key_values=self.cache, logits_to_keep=1)
        logits: np.ndarray[Any, np.dtype[np.float32]] = made.logits[0, -1].float().numpy()
        return logits


class Xnnpack(LlmEngine):
    """ExecuTorch's own way (:mod:`benchmarks.xnnpack_llm`); its weights are those of a q4_0 file, rounded again."""

    title = "XNNPACK (8da4w)"
    packages = ("torch", "executorch.extension.llm.custom_ops.custom_ops", "executorch.kernels.quantized", "torchao")
    types = ("q4_0",)
    ending = ".xnnpack.pte"

    @classmethod
    def exporter_version(cls) -> str:
        return digest([Path(__file__).with_name("xnnpack_llm.py")], cls.version(), installed("transformers"))

    @classmethod
    def export(cls, gguf: Path, path: Path) -> None:
        from benchmarks import xnnpack_llm
        from executorch_ggml.gguf import load

        xnnpack_llm.lower(load(gguf, dequantize=True).module, LENGTH, CHUNK).save(str(path))

    def open(self, gguf: Path) -> None:
        from executorch.extension.pybindings import portable_lib
        from executorch.runtime import Runtime

        portable_lib._unsafe_reset_threadpool(self.threads)
        self.loaded = Runtime.get().load_program(self.program(gguf))  # a method does not keep its program alive
        self.method = self.loaded.load_method("forward")

    def feed(self, tokens: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.float32]]:
        import torch

        made = self.method.execute([torch.from_numpy(tokens)[None], torch.tensor([self.position])])[0]
        logits: np.ndarray[Any, np.dtype[np.float32]] = made[0].numpy()
        return logits


ENGINES: dict[str, type[LlmEngine]] = {
    "ggml": Ggml,
    "ggml-panels": GgmlInPanels,
    "ggml-bf16": GgmlInBfloats,
    "llama.cpp": LlamaCpp,
    "xnnpack": Xnnpack,
    "transformers": Transformers,
}


class Exporter:
    """Writes an engine's programs, in a process of its own, whose memory is not measured."""

    def __init__(self, engine: str, threads: int, folder: Path) -> None:
        del threads, folder
        self.engine = ENGINES[engine]

    def export(self, gguf: str) -> None:
        """Write a file's program, and remove those of other versions."""
        path = self.engine.program(Path(gguf))
        for old in path.parent.glob(f"{Path(gguf).stem}.*{self.engine.ending}"):
            shutil.rmtree(old) if old.is_dir() else old.unlink()
            seconds_file(old).unlink(missing_ok=True)
        unfinished = path.with_name(f"unfinished.{path.name}")
        start = time.perf_counter()
        self.engine.export(Path(gguf), unfinished)
        seconds_file(path).write_text(str(time.perf_counter() - start), "utf-8")
        unfinished.rename(path)


def make_engine(engine: str, threads: int, folder: Path) -> LlmEngine:
    """What a worker process of :mod:`executorch_ggml.benchmark.worker` answers with."""
    return ENGINES[engine](engine, threads, folder)
