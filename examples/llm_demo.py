"""A language model from text to program: trained on Python's documentation, exported in three types, and generating.

Run it with `make llm-demo`. The model is kept in `build/llm-demo`: only the first run trains it.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from examples.demo_support import small_llama
from examples.demo_support.docstrings import load_texts
from examples.demo_support.layout import duration, heading, size, step, table
from examples.demo_support.measure import quiet

if TYPE_CHECKING:
    import numpy as np
    from transformers import LlamaForCausalLM

    from executorch_ggml.llm import Generator

THREADS = min(2, os.cpu_count() or 1)
PROMPTS = ("Return a list of", "Raise an exception if")
# How weights are stored, how the cache is, and by how much perplexity may differ from eager's.
TYPES = {"f32": ("f32", 1e-4), "q8_0": ("f16", 0.005), "q4_k": ("f16", 0.05)}
WINDOWS = 60  # of held-out text


@dataclass(frozen=True)
class Measured:
    """What one program did."""

    bytes: int
    perplexity: float
    prefill_speed: float
    decode_speed: float
    texts: list[str]


def export(model: LlamaForCausalLM, tokenizer: Any, kind: str, path: Path) -> None:
    """Write the model as a program with weights of a type."""
    from executorch_ggml import llm
    from executorch_ggml.quant import GgmlQuantConfig

    program = llm.export(
        model,
        max_seq_len=2 * small_llama.CONTEXT,
        chunk=small_llama.CONTEXT,
        cache_type=TYPES[kind][0],  # type: ignore[arg-type] # a str
        weights=None if kind == "f32" else GgmlQuantConfig(default=kind),
        all_logits=True,
        tokenizer=llm.Tokenizer(tokenizer, special_tokens={"bos_token": small_llama.END, "eos_token": small_llama.END}),
    )
    program.save(str(path))


def measure(path: Path, data: torch.Tensor) -> Measured:
    """Load a program, judge it by held-out text and have it generate."""
    from executorch_ggml import llm, load

    module = load(path)
    start = torch.zeros(1, dtype=torch.int64)

    def logits_of(tokens: torch.Tensor) -> np.ndarray[Any, Any]:
        array: np.ndarray[Any, Any] = module.run("prefill", (tokens.contiguous(), start)).numpy()
        return array

    perplexity = small_llama.perplexity(logits_of, data)
    generator = llm.Generator(path)
    texts = [_continued(generator, prompt) for prompt in PROMPTS]
    generator.reset()
    timed = generator.stream(data[0][:128].tolist(), max_new_tokens=128)
    for _ in timed:
        pass
    return Measured(path.stat().st_size, perplexity, timed.timing.prefill_speed, timed.timing.decode_speed, texts)


def _continued(generator: Generator, prompt: str) -> str:
    text = generator.generate(prompt, max_new_tokens=32, temperature=0.7, top_k=40, repetition_penalty=1.1, seed=1)
    return " ".join((prompt + text).split())


def eager_perplexity(model: LlamaForCausalLM, data: torch.Tensor) -> float:
    """The same of the module itself."""
    with torch.inference_mode():
        return small_llama.perplexity(lambda tokens: model(tokens).logits.numpy(), data)


def show(eager: float, measured: dict[str, Measured]) -> list[str]:
    """Print the table; give the types whose perplexity is off."""
    rows = [["eager PyTorch", "", f"{eager:.3f}", "", "", ""]]
    off = []
    for kind, result in measured.items():
        difference = result.perplexity / eager - 1.0
        if abs(difference) > TYPES[kind][1]:
            off.append(kind)
        speeds = [f"{speed:.0f}" for speed in (result.prefill_speed, result.decode_speed)]
        rows.append([f"ggml, {kind}", size(result.bytes), f"{result.perplexity:.3f}", f"{difference:+.3%}", *speeds])
    table(["", "file", "perplexity", "of eager's", "prompt tokens/s", "new tokens/s"], rows)
    return off


def main() -> int:
    quiet()
    import executorch_ggml

    start = time.perf_counter()
    torch.set_num_threads(THREADS)
    executorch_ggml.set_num_threads(THREADS)
    heading("A small Llama, trained on the documentation of Python's standard library")
    texts = load_texts()
    tokenizer = small_llama.make_tokenizer(texts)
    step(f"{len(texts.train)} texts, {size(sum(map(len, texts.train)))}; {len(texts.held_out)} more are held out")
    model = small_llama.trained(texts, tokenizer, step)
    count = sum(weight.numel() for weight in model.parameters())
    step(f"{count:,} weights, after {duration(time.perf_counter() - start)}")
    data = small_llama.windows(small_llama.as_tokens(tokenizer, texts.held_out))[:WINDOWS]
    eager = eager_perplexity(model, data)
    measured = {}
    with tempfile.TemporaryDirectory(prefix="executorch-ggml-llm-") as folder:
        for kind in TYPES:
            path = Path(folder) / f"{kind}.pte"
            export(model, tokenizer, kind, path)
            measured[kind] = measure(path, data)
    heading(f"Its programs on {len(data) * small_llama.CONTEXT:,} tokens of held-out text ({THREADS} threads)")
    off = show(eager, measured)
    for kind, result in measured.items():
        print(f"\n  {kind}:")
        for text in result.texts:
            print(f"    {text}")
    print(f"\nDone in {duration(time.perf_counter() - start)}.")
    if off:
        print(f"Perplexity is not what it should be: {', '.join(off)}", file=sys.stderr)
    return 1 if off else 0


if __name__ == "__main__":
    sys.exit(main())
