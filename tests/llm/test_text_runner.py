"""ExecuTorch's own text runner generates with the programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.llm.conftest import Exported

from executorch_ggml import llm


@pytest.mark.parametrize("prompt", ["A text to go on from", "one longer than a chunk of the program, " * 4])
def test_greedy(prompt: str, exported: Callable[..., Exported], tmp_path: Path) -> None:
    runner = pytest.importorskip("executorch.extension.llm.runner")
    _, path = exported("llama")
    generator = llm.Generator(path)
    generator.tokenizer.model.save(str(tmp_path / "tokenizer.json"))
    theirs: list[str] = []
    config = runner.GenerationConfig(max_new_tokens=12, temperature=0.0, echo=False)
    runner.TextLLMRunner(str(path), str(tmp_path / "tokenizer.json")).generate(prompt, config, theirs.append)
    made = generator.stream(prompt, max_new_tokens=12)
    text = "".join(made)
    assert "".join(theirs).removesuffix("</s>") == text
