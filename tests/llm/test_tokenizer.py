"""Text in pieces: whole characters, spaces in their places, and stop strings wherever they are cut."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.llm import models
from tests.llm.conftest import Exported
from tokenizers import decoders, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from executorch_ggml import llm
from executorch_ggml.llm.tokenizer import StopStrings, TextStream, Tokenizer


def _byte_level() -> Tokenizer:
    """Each byte is a token: no character but ASCII's is one."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    model = tokenizers.Tokenizer(tokenizers.models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    model.decoder = decoders.ByteLevel()
    return Tokenizer(model)


def _sentence_piece() -> Tokenizer:
    """Words that begin with a space, which is left out before the first, and bytes for all that is no word."""
    words = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *"▁abcde", "▁a", "▁b", "de", "▁de"]
    merges = [("▁", "a"), ("▁", "b"), ("d", "e"), ("▁", "de")]
    model = tokenizers.Tokenizer(
        tokenizers.models.BPE(
            vocab={w: i for i, w in enumerate(words)}, merges=merges, unk_token="<unk>", byte_fallback=True
        )
    )
    model.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    model.decoder = decoders.Sequence(steps)
    return Tokenizer(model)


TOKENIZERS = {"bytes": _byte_level(), "sentence piece": _sentence_piece(), "characters": models.tokenizer()}
TEXTS = ["", "a", " a b", "a é b", "de  a", "€ a", "👩‍🚀 b", "naïve 日本語 a", "a\n b"]


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("prompt", ["a", "de b", ""])
@pytest.mark.parametrize("text", TEXTS)
def test_pieces_are_the_text(name: str, prompt: str, text: str) -> None:
    tokenizer = TOKENIZERS[name]
    before = tokenizer.encode(prompt)
    after = tokenizer.encode(prompt + text)[len(before) :]
    stream = TextStream(tokenizer, before)
    pieces = [stream.push(token) for token in after]
    assert not any("\N{REPLACEMENT CHARACTER}" in piece for piece in pieces)
    whole = tokenizer.decode(before + after)
    assert "".join(pieces) + stream.flush() == whole[len(tokenizer.decode(before)) :]


@settings(max_examples=100, deadline=None)
@given(ids=st.lists(st.integers(0, 255), max_size=60))
def test_any_bytes_come_out_in_the_end(ids: list[int]) -> None:
    tokenizer = TOKENIZERS["bytes"]
    stream = TextStream(tokenizer)
    text = "".join(map(stream.push, ids)) + stream.flush()
    valid = [c for c in tokenizer.decode(ids) if c != "\N{REPLACEMENT CHARACTER}"]
    assert [c for c in text if c != "\N{REPLACEMENT CHARACTER}"] == valid


@settings(max_examples=300, deadline=None)
@given(
    text=st.text("ab", max_size=20),
    stops=st.lists(st.text("ab", min_size=1, max_size=4), max_size=3),
    cuts=st.lists(st.integers(0, 20), max_size=8),
)
def test_stop_strings(text: str, stops: list[str], cuts: list[int]) -> None:
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[i:j] for i, j in pairwise(places)]
    stream = StopStrings(stops)
    made = "".join(map(stream.push, pieces)) + stream.flush()
    ends = [(text.find(stop) + len(stop), text.find(stop)) for stop in stops if stop in text]
    assert made == (text if not ends else text[: min(ends)[1]])
    assert (stream.found is not None) == bool(ends)


def test_text_is_not_held_back_longer_than_needed() -> None:
    stream = StopStrings(["stop"])
    pieces = {"is": "i", "s": "s", "t": "", "ay": "stay", "st": "", "op": "", "more": ""}
    assert {piece: stream.push(piece) for piece in pieces} == pieces


def test_an_empty_stop_string() -> None:
    with pytest.raises(ValueError, match="a stop string is empty"):
        StopStrings(["a", ""])


def test_sources(tmp_path: Path) -> None:
    tokenizer = models.tokenizer()
    tokenizer.model.save(str(tmp_path / "tokenizer.json"))
    whole = PreTrainedTokenizerFast(tokenizer_object=tokenizer.model, **tokenizer.special_tokens)
    whole.chat_template = models.CHAT
    whole.save_pretrained(tmp_path / "folder")
    made = [Tokenizer.load(source) for source in (tmp_path / "tokenizer.json", whole, tmp_path / "folder")]
    for one in (*made, Tokenizer.from_bytes(tokenizer.to_bytes())):
        assert one.decode(one.encode("Hello <s>there</s>")) == "Hello there"
    for one in made[1:]:
        assert one.chat_template == models.CHAT
        assert one.special_tokens["eos_token"] == "</s>"
        assert one.id_of("bos_token") == 1


def test_no_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such tokenizer"):
        Tokenizer.load(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(ValueError, match="is not a tokenizer"):
        Tokenizer.load(tmp_path / "bad.json")
    with pytest.raises(TypeError, match="a tokenizer of type int"):
        Tokenizer.load(3)
    with pytest.raises(ValueError, match="the program's tokenizer is damaged"):
        Tokenizer.from_bytes(b"{}")


def test_chat() -> None:
    tokenizer = models.tokenizer()
    text = tokenizer.chat([{"role": "user", "content": "Hi"}])
    assert text == "<s>user: Hi</s><s>assistant: "
    assert tokenizer.encode(text, special=False)[0] == 1
    with pytest.raises(ValueError, match="no chat template"):
        Tokenizer(tokenizer.model).chat([])


@pytest.mark.parametrize(
    "template", ["{{ ''.__class__.__mro__ }}", "{% for m in messages %}", "{{ raise_exception('odd roles') }}"]
)
def test_bad_templates(template: str) -> None:
    tokenizer = Tokenizer(models.tokenizer().model, template)
    with pytest.raises(ValueError, match="the chat template does not take this conversation"):
        tokenizer.chat([{"role": "user", "content": "Hi"}])


def test_a_tokenizer_larger_than_the_vocabulary_is_refused(exported: Callable[..., Exported], tmp_path: Path) -> None:
    path = exported("llama")[1]
    model = tokenizers.Tokenizer.from_str(models.tokenizer().model.to_str())
    size = models.make("llama").config.vocab_size
    model.add_tokens([f"more {i}" for i in range(size - model.get_vocab_size() + 1)])
    refused = f"tokenizer has token {size} \\('more .*'\\), but the model's vocabulary has {size} tokens"
    with pytest.raises(ValueError, match=refused):
        llm.Generator(path, tokenizer=model)
    with pytest.raises(ValueError, match=refused):
        llm.export(models.make("llama"), max_seq_len=8, tokenizer=Tokenizer(model))
    with pytest.raises(ValueError, match=r"tokenizer has token \d+ \('more .*'\), but the model's vocabulary has"):
        llm.export_encoder(models.make_encoder("bert"), tokenizer=Tokenizer(model))
