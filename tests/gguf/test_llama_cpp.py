"""Files that this project writes run in llama.cpp, with the logits that the module has. Skipped where it is missing."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.gguf.models import CONFIGS, logits, make, tokens
from tests.gguf.test_tokenizer import TEXTS, byte_level, sentence_pieces

from executorch_ggml.gguf import export_gguf, tokenizer_of
from executorch_ggml.gguf.tokenizer import tokenizer_metadata
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.llm.rotary import fixed_rotary

pytestmark = pytest.mark.skipif(importlib.util.find_spec("llama_cpp") is None, reason="llama-cpp-python is missing")

# llama.cpp has no sliding window for Phi 3, and its shortest context is longer than the short texts of phi3-long.
FAMILIES = [name for name in CONFIGS if name not in ("phi3-window", "phi3-long")]
SPLITS = ["llama-bpe", "qwen2", "gpt-2", "sentence pieces"]

# In a process of its own, which has another ggml: one line of JSON out for each of these in.
RUN = """
import json, sys
import numpy as np
from llama_cpp import Llama
for line in sys.stdin:
    path, ids, texts, context = json.loads(line)
    model = Llama(path, n_ctx=context, n_batch=64, logits_all=True, verbose=False, n_threads=1, flash_attn=False,
                  type_k=0, type_v=0)
    if ids:
        model.eval(ids)
        np.save(path + ".npy", model.scores[: len(ids)])
    print(json.dumps([model.tokenize(text.encode(), add_bos=False, special=True) for text in texts]))
"""


def llama_cpp(jobs: list[tuple[Path, list[int], tuple[str, ...]]], context: int = 64) -> list[list[list[int]]]:
    """Writes each file's logits of some tokens beside it, and gives the tokens of texts."""
    lines = "\n".join(json.dumps([str(path), ids, texts, context]) for path, ids, texts in jobs)
    done = subprocess.run([sys.executable, "-c", RUN], input=lines, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file of each family, and llama.cpp's logits."""
    folder = tmp_path_factory.mktemp("models")
    for name in FAMILIES:
        no_tokens = {"tokenizer.ggml.model": "no_vocab"}
        export_gguf(make(name), folder / name, types=DType.F32, metadata=no_tokens)
    llama_cpp([(folder / name, tokens()[0].tolist(), ()) for name in FAMILIES])
    return folder


@pytest.mark.parametrize("name", FAMILIES)
def test_logits_agree(name: str, ran: Path) -> None:
    found = torch.from_numpy(np.load(ran / f"{name}.npy"))[None]
    error = float((found - logits(make(name), tokens())).abs().max())
    gelu = name.startswith("gemma")  # which ggml reads from a table of f16
    assert error < (1e-2 if gelu else 1e-4)


@pytest.mark.parametrize(("context", "length"), [(256, 24), (512, 24), (512, 300)])
def test_factors_are_those_of_the_context(context: int, length: int, tmp_path: Path) -> None:
    """llama.cpp rotates all texts by the long factors where its context is longer than the limit, as our program."""
    model = make("phi3-long", max_position_embeddings=512, original_max_position_embeddings=256)
    path = tmp_path / "x.gguf"
    export_gguf(model, path, types=DType.F32, metadata={"tokenizer.ggml.model": "no_vocab"})
    llama_cpp([(path, tokens(length)[0].tolist(), ())], context)
    found = torch.from_numpy(np.load(f"{path}.npy"))[None]
    with fixed_rotary(model, context):
        expected = logits(model, tokens(length))
    assert float((found - expected).abs().max()) < 1e-4


def test_tokens_agree(tmp_path: Path) -> None:
    texts = tuple(text for text in TEXTS if text)
    for split in SPLITS:
        tokenizer = sentence_pieces() if split == "sentence pieces" else byte_level(split)
        model = make("llama", vocab_size=tokenizer.get_vocab_size())
        found = tokenizer_metadata(tokenizer, bos=1, eos=2, add_bos=False)
        export_gguf(model, tmp_path / split, types=DType.F32, metadata=found)
    theirs = llama_cpp([(tmp_path / split, [], texts) for split in SPLITS])
    for split, expected in zip(SPLITS, theirs, strict=True):
        ours = tokenizer_of(tmp_path / split).backend_tokenizer
        assert [ours.encode(text, add_special_tokens=False).ids for text in texts] == expected, split
