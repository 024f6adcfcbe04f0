"""Generation: the texts that eager `transformers` makes, and how they end; turns, limits and errors."""

from __future__ import annotations

import io
import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.llm import models
from tests.llm.conftest import Exported
from torch import nn
from transformers import PreTrainedModel

import executorch_ggml
from executorch_ggml import llm
from executorch_ggml.cli import main
from executorch_ggml.llm.rotary import fixed_rotary

PROMPT = "A text to go on from"


@pytest.fixture(scope="module")
def generator(exported: Callable[..., Exported]) -> llm.Generator:
    return llm.Generator(exported("llama")[1])


@pytest.fixture(scope="module")
def model(exported: Callable[..., Exported]) -> PreTrainedModel:
    return exported("llama")[0]


def _eager(model: PreTrainedModel, ids: list[int], count: int) -> list[int]:
    made = model.generate(torch.tensor([ids]), max_new_tokens=count, do_sample=False)
    return [token for token in made[0, len(ids) :].tolist() if token != 2]


def test_what_the_program_says(generator: llm.Generator) -> None:
    assert generator.metadata == {
        "get_max_seq_len": 64,
        "get_max_context_len": 600,
        "get_vocab_size": 101,
        "get_n_layers": 1,
        "use_kv_cache": True,
        "use_sdpa_with_kv_cache": False,
        "enable_dynamic_shape": True,
        "get_bos_id": 1,
        "get_eos_ids": (2,),
    }
    assert generator.tokenizer.chat_template == models.CHAT


@pytest.mark.parametrize("prompt", [PROMPT, "x", PROMPT * 5])
def test_greedy_is_eager(generator: llm.Generator, model: PreTrainedModel, prompt: str) -> None:
    ids = generator.tokenizer.encode(prompt)
    made = generator.stream(prompt, max_new_tokens=20)
    text = "".join(made)
    assert made.tokens == _eager(model, ids, 20)
    assert text == made.text == generator.tokenizer.decode(made.tokens)
    assert made.finish in ("length", "eos")
    assert made.timing.new_tokens == len(made.tokens) + (made.finish == "eos")


def test_an_end_token_ends(generator: llm.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = list(generator.stream_tokens(PROMPT, max_new_tokens=8))
    end = next(i for i, token in enumerate(tokens) if token not in tokens[:i] and i > 0)
    monkeypatch.setattr(generator, "eos_ids", frozenset([tokens[end]]))
    made = generator.stream(PROMPT, max_new_tokens=8)
    list(made)
    assert (made.tokens, made.finish) == (tokens[:end], "eos")


def test_stop_strings_end(generator: llm.Generator) -> None:
    text = generator.generate(PROMPT, max_new_tokens=30)
    stop = text[7:10]
    made = generator.stream(PROMPT, max_new_tokens=30, stop=[stop, "nowhere"])
    assert "".join(made) == text[: text.index(stop)]
    assert made.finish == "stop"
    assert generator.generate(PROMPT, max_new_tokens=30, stop=stop) == text[: text.index(stop)]


def test_seeds(generator: llm.Generator) -> None:
    options: dict[str, Any] = {"max_new_tokens": 12, "temperature": 1.5, "top_k": 30, "top_p": 0.95, "min_p": 0.01}
    texts = {generator.generate(PROMPT, seed=seed, **options) for seed in (1, 2, 3)}
    assert len(texts) == 3
    assert generator.generate(PROMPT, seed=1, **options) in texts
    assert generator.generate(PROMPT, max_new_tokens=6, repetition_penalty=5.0)


def test_the_context_ends(generator: llm.Generator) -> None:
    ids = np.random.default_rng(0).integers(3, 101, 595).tolist()
    made = generator.stream(ids, temperature=2.0, seed=5)
    list(made)
    assert made.finish in ("context", "eos")
    assert len(generator.tokens) <= 600
    assert len(made.tokens) == 6 or made.finish == "eos"  # after the last position that can be read, one more
    with pytest.raises(ValueError, match="the prompt has 601 tokens, but the program was exported for 600"):
        generator.stream([5] * 601)


def test_turns_read_only_what_is_new(generator: llm.Generator, exported: Callable[..., Exported]) -> None:
    messages = [{"role": "user", "content": "Hello"}]
    fresh = llm.Generator(exported("llama")[1])
    for turn in range(3):
        made = generator.chat(messages, max_new_tokens=5)
        expected = fresh.chat(messages, max_new_tokens=5)
        assert "".join(made) == "".join(expected)
        assert (made.timing.reused_tokens > 0) == (turn > 0)
        messages += [{"role": "assistant", "content": made.text}, {"role": "user", "content": f"And {turn}?"}]
        fresh.reset()
        assert fresh.tokens == ()


def test_feed_and_rewind(generator: llm.Generator, model: PreTrainedModel) -> None:
    generator.reset()
    ids = generator.tokenizer.encode(PROMPT)
    generator.feed(ids[:7])
    logits = generator.feed(ids[7:])
    assert generator.tokens == tuple(ids)
    generator.rewind(3)
    again = generator.feed(ids[3:])
    np.testing.assert_allclose(again, logits, atol=1e-5)
    with torch.no_grad():
        np.testing.assert_allclose(logits, model(torch.tensor([ids])).logits[0, -1], atol=1e-4)
    with pytest.raises(ValueError, match=f"rewind to {len(ids) + 1}: there are {len(ids)} tokens"):
        generator.rewind(len(ids) + 1)


def test_texts_made_in_turns(generator: llm.Generator) -> None:
    prompts = (PROMPT, "Another one")
    expected = [generator.generate(prompt, max_new_tokens=6) for prompt in prompts]
    pairs = zip(*(generator.stream(prompt, max_new_tokens=6) for prompt in prompts), strict=True)
    assert ["".join(pieces) for pieces in zip(*pairs, strict=True)] == expected
    made = generator.stream(PROMPT, max_new_tokens=6)
    next(made)
    generator.reset()
    assert "".join(made) == expected[0][1:]


def test_bad_prompts(generator: llm.Generator) -> None:
    with pytest.raises(ValueError, match="the prompt is empty"):
        generator.stream("")
    with pytest.raises(ValueError, match="the prompt is empty"):
        generator.stream([])
    with pytest.raises(ValueError, match="no tokens to read"):
        generator.feed([])
    for token in (-1, 101, 1 << 40):
        with pytest.raises(ValueError, match=f"token {token} is not in the vocabulary of 101"):
            generator.stream([1, token])
    wrong: tuple[tuple[Any, str], ...] = (
        ([5.5], "tokens of type float64, expected integers"),
        ([1 << 70], "tokens of type object, expected integers"),
        (torch.full((2, 3), 5), r"tokens of shape \[2, 3\], expected those of one text"),
        ("\udcff", "surrogates not allowed"),
    )
    for tokens, reason in wrong:
        with pytest.raises(ValueError, match=reason):
            generator.stream(tokens)
    assert list(generator.stream_tokens([5, 6], max_new_tokens=0)) == []
    with pytest.raises(ValueError, match="max_new_tokens -1, expected 0 or more"):
        generator.stream(PROMPT, max_new_tokens=-1)
    generator.reset()
    generator.feed([5] * 600)
    with pytest.raises(ValueError, match="600 tokens and 1 more: the program was exported for 600"):
        generator.feed([5])


@pytest.mark.parametrize(
    ("tokens", "position", "reason"),
    [
        ([[101]], 0, "101"),
        ([[-1]], 0, "-1"),
        ([[5]], 600, "600.*outside the 0 to 599"),
        ([[5]], -1, "-1.*outside the 0 to 599"),
        ([[5, 5]], 599, "600"),
        ([[5] * 65], 0, "65"),
    ],
)
def test_the_program_itself_refuses(
    exported: Callable[..., Exported], tokens: list[list[int]], position: int, reason: str
) -> None:
    module = executorch_ggml.load(exported("llama")[1])
    with pytest.raises(RuntimeError, match=reason):
        module.run("decode", (torch.tensor(tokens), torch.tensor([position])))
    module.run("prefill", (torch.tensor([[5, 6]]), torch.tensor([0])))


def test_programs_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "linear.pte"
    executorch_ggml.export(nn.Linear(2, 2), (torch.ones(1, 2),)).save(str(path))
    with pytest.raises(ValueError, match="not a program of a language model: it has no get_max_context_len"):
        llm.Generator(path)


def test_bad_exports() -> None:
    model = models.make("llama")
    for options, reason in (
        ({"max_seq_len": 641}, "max_seq_len 641, but the model was made for at most 640"),
        ({"max_seq_len": 0}, "max_seq_len 0 and chunk 0, expected 1 or more"),
        ({"max_seq_len": 8, "cache_type": "q2_k"}, "cache_type 'q2_k', expected one of f32, f16"),
    ):
        with pytest.raises(ValueError, match=reason):
            llm.export(model, **options)


def test_rotary_embeddings_that_follow_the_text() -> None:
    model = models.make("llama")
    model.config.rope_parameters = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}
    with pytest.raises(ValueError, match="rotary embeddings of type 'dynamic' change with the length of a text"):
        llm.export(model, max_seq_len=8)
    model = models.make("t5")
    model.config.rope_parameters = {"rope_type": "longrope", "original_max_position_embeddings": 4}
    with pytest.raises(ValueError, match="type 'longrope' are not supported in encoder-decoder models"):
        llm.export(model, max_seq_len=8)
    model = models.make("phi3")
    (rotary,) = (module for module in model.modules() if hasattr(module, "rope_type"))
    before = rotary.inv_freq
    for length, factors in ((600, [1.0, 1.1, 1.2, 1.3]), (601, [1.0, 2.0, 3.0, 4.0])):
        with fixed_rotary(model, length):
            powers = torch.tensor([10000.0 ** -(i / 4) for i in range(4)])
            torch.testing.assert_close(rotary.inv_freq, powers / torch.tensor(factors))
        assert rotary.inv_freq is before
        assert rotary.rope_type == "longrope"


def test_command(
    exported: Callable[..., Exported], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(exported("llama")[1])
    expected = llm.Generator(path).generate(PROMPT, max_new_tokens=6)
    assert main(["generate", path, "-p", PROMPT, "-n", "6"]) == 0
    captured = capsys.readouterr()
    assert captured.out == expected + "\n"
    assert "generated 6 tokens" in captured.err
    assert main(["generate", path, "--chat", "--system", "Be kind", "-p", "Hi", "-n", "3", "--temperature", "0.8"]) == 0
    capsys.readouterr()
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{PROMPT}\n"))
    assert main(["generate", path, "-n", "6"]) == 0
    assert capsys.readouterr().out == expected + "\n"
    for arguments, reason in (
        ([path, "-p", ""], "the prompt is empty"),
        ([__file__, "-p", "Hi"], f"{__file__}: not an ExecuTorch program"),
        ([path, "-p", "Hi", "--device", "cpu=1,nothing=2"], "no device nothing here"),
    ):
        assert main(["generate", *arguments]) == 1
        error = capsys.readouterr().err
        assert reason in error
        assert error.count("\n") == 1
    assert main(["generate", path, "-p", "Hi", "--system", "Be kind"]) == 2
    assert "--system is the system's message of a conversation" in capsys.readouterr().err
    assert main(["generate", path, "-p", PROMPT, "-n", "6", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["text"], said["finish"], len(said["tokens"])) == (expected, "length", 6)


def test_a_conversation(
    exported: Callable[..., Exported], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(exported("llama")[1])
    system = {"role": "system", "content": "Be kind"}
    generator = llm.Generator(path)
    messages = [system, {"role": "user", "content": "Hi"}]
    first = "".join(generator.chat(messages, max_new_tokens=4))
    messages += [{"role": "assistant", "content": first}, {"role": "user", "content": "More"}]
    second = "".join(generator.chat(messages, max_new_tokens=4))
    monkeypatch.setattr("sys.stdin", io.StringIO("Hi\n\nMore\n/clear\nHi\n/exit\nunread\n"))
    assert main(["chat", path, "--system", "Be kind", "-n", "4"]) == 0
    assert capsys.readouterr().out == f"{first}\n{second}\n{first}\n"
    monkeypatch.setattr("sys.stdin", io.StringIO("Hi\nMore\n"))
    assert main(["chat", path, "--system", "Be kind", "-n", "4", "--json"]) == 0
    said = capsys.readouterr()
    assert [json.loads(line)["text"] for line in said.out.splitlines()] == [first, second]
    assert said.err == ""


def test_a_command_that_is_stopped(exported: Callable[..., Exported], monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(llm.Generator, "feed", stop)
    assert main(["generate", str(exported("llama")[1]), "-p", "Hi"]) == 130


def test_a_pipe_that_ends(exported: Callable[..., Exported]) -> None:
    command = [sys.executable, "-c", "import sys; from executorch_ggml.cli import main; sys.exit(main())"]
    command += ["generate", str(exported("llama")[1]), "-p", "Hi", "-n", "400", "--temperature", "9"]
    made = subprocess.run(["bash", "-c", f"{shlex.join(command)} | head -c 1"], capture_output=True, check=True)
    assert len(made.stdout) == 1
    assert b"roken" not in made.stderr
