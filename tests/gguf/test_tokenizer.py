"""Tokenizers through a GGUF file's metadata and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.gguf.models import CONFIGS
from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers, trainers
from tokenizers.models import BPE, WordPiece
from transformers import Phi3ForCausalLM

from executorch_ggml.gguf import GgufError, GgufFile, export_gguf, tokenizer_of
from executorch_ggml.gguf.tokenizer import _splits, tokenizer_metadata
from executorch_ggml.gguf.writer import _add

TEXTS = (
    "Hello world, hello WORLD's 12345 things!",
    "  two spaces\n\n\ttabs and\r\nlines   ",
    "naïve café — ﬁne 日本語 🤗👍🏽",
    "def f(x):\n    return x+1  # done<|end|> after",
    "",
    " ",
)
SPECIAL = [AddedToken("<|begin|>", special=True), AddedToken("<|end|>", special=True)]


def byte_level(split: str) -> Tokenizer:
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(part), "isolated") for part in _splits()[split]]
        + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS * 3, trainer)
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.add_tokens([AddedToken("<think>", normalized=False)])
    return tokenizer


def sentence_pieces() -> Tokenizer:
    tokenizer = Tokenizer(BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=True)
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(TEXTS * 3, trainer)
    import json

    parts = json.loads(tokenizer.to_str())
    parts["added_tokens"] = [token for token in parts["added_tokens"] if not token["content"].startswith("<0x")]
    parts["pre_tokenizer"] = None
    made = Tokenizer.from_str(json.dumps(parts))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1)]
    )
    return made


def file_with(path: Path, metadata: dict[str, Any], architecture: str = "llama") -> GgufFile:
    import gguf

    writer = gguf.GGUFWriter(path, architecture)
    for key, value in metadata.items():
        _add(writer, key, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return GgufFile(path)


@pytest.mark.parametrize("split", ["gpt-2", "llama-bpe", "qwen2", "tekken", "gpt-4o", "default"])
def test_byte_level(split: str, tmp_path: Path) -> None:
    tokenizer = byte_level(split)
    begin, end = (tokenizer.token_to_id(token.content) for token in SPECIAL)
    found = tokenizer_metadata(tokenizer, bos=begin, eos=end, add_bos=False, chat_template="{{ messages }}")
    assert found["tokenizer.ggml.pre"] == split
    made = tokenizer_of(file_with(tmp_path / "x.gguf", found))
    assert (made.bos_token_id, made.eos_token_ids, made.chat_template) == (begin, (end,), "{{ messages }}")
    assert made.special_tokens_map == {"bos_token": "<|begin|>", "eos_token": "<|end|>"}
    for text in (*TEXTS, "a <think> b"):
        expected = tokenizer.encode(text).ids
        assert made.backend_tokenizer.encode(text).ids == expected
        assert made.backend_tokenizer.decode(expected, skip_special_tokens=False) == text


def test_sentence_pieces(tmp_path: Path) -> None:
    tokenizer = sentence_pieces()
    made = tokenizer_of(file_with(tmp_path / "x.gguf", tokenizer_metadata(tokenizer, bos=1, eos=2, add_bos=True)))
    for text in TEXTS:
        expected = tokenizer.encode(text).ids
        assert made.backend_tokenizer.encode(text).ids == [1, *expected]
        assert made.backend_tokenizer.encode(text, add_special_tokens=False).ids == expected
        assert made.backend_tokenizer.decode(expected) == tokenizer.decode(expected)


def test_spaces_before_texts(tmp_path: Path) -> None:
    tokenizer = sentence_pieces()
    for prefix, scheme in ((True, "first"), (True, "always"), (False, "never")):
        tokenizer.normalizer = normalizers.Sequence([])
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False)
        assert tokenizer_metadata(tokenizer)["tokenizer.ggml.add_space_prefix"] is prefix
    found = tokenizer_metadata(sentence_pieces()) | {"tokenizer.ggml.add_space_prefix": False}
    made = tokenizer_of(file_with(tmp_path / "x.gguf", found)).backend_tokenizer
    assert made.decode(made.encode("Hello").ids) == "Hello"
    assert not made.encode("Hello").tokens[0].startswith("▁")


def test_whole_pieces_of_llama_3(tmp_path: Path) -> None:
    """A word that is a token is that token, though no merges lead to it."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    found = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "llama-bpe",
        "tokenizer.ggml.tokens": [*alphabet, "ab", "abc", "<|eot_id|>"],
        "tokenizer.ggml.token_type": [*[1] * 258, 3],
        "tokenizer.ggml.merges": ["a b"],
        "tokenizer.ggml.bos_token_id": 0,
    }
    made = tokenizer_of(file_with(tmp_path / "x.gguf", found))
    assert made.backend_tokenizer.encode("abc").ids == [0, 257]  # begins with BOS where the file does not say
    assert made.eos_token_ids == (258,)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokenizer.ggml.model": "rwkv"}, "tokenizer.ggml.model is 'rwkv', expected gpt2"),
        ({"tokenizer.ggml.pre": "new"}, r"tokenizer.ggml.pre is 'new', none of those that are known: .*qwen2"),
        ({"tokenizer.ggml.tokens": None}, "tokenizer.ggml.tokens is missing"),
        ({"tokenizer.ggml.tokens": ["a", "a"]}, "2 tokens and .* types|twice"),
        ({"tokenizer.ggml.tokens": ["a", "a"], "tokenizer.ggml.token_type": [1, 1]}, "the token 'a' twice"),
        ({"tokenizer.ggml.tokens": ["a" * 5000], "tokenizer.ggml.token_type": [1]}, "a token of 5000 characters"),
        ({"tokenizer.ggml.merges": ["a b c"]}, "has 'a b c', expected two tokens"),
        ({"tokenizer.ggml.merges": ["zz qq"]}, "tokenizer is damaged: .*zz"),
        ({"tokenizer.ggml.merges": None}, "tokenizer.ggml.merges is missing"),
        ({"tokenizer.ggml.eos_token_id": 100000}, "eos_token_id is 100000, and there are"),
        ({"tokenizer.ggml.eos_token_id": "x"}, "eos_token_id is a str"),
        ({"tokenizer.ggml.token_type": [1.5]}, "a float in it"),
        ({"tokenizer.ggml.model": "llama", "tokenizer.ggml.scores": [1.0]}, "tokens and 1 scores"),
    ],
)
def test_damage_is_named(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    found = {**tokenizer_metadata(byte_level("qwen2"), eos=1), **changes}
    file = file_with(tmp_path / "x.gguf", {key: value for key, value in found.items() if value is not None})
    with pytest.raises(GgufError, match=message):
        tokenizer_of(file)


def test_tokens_that_are_no_text(tmp_path: Path) -> None:
    found = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": ["a", b"\xff\xfe".decode("latin1")]}
    path = tmp_path / "x.gguf"
    file_with(path, found)
    damaged = path.read_bytes().replace("ÿþ".encode(), b"\xff\xfe\xff\xfe")
    path.write_bytes(damaged)
    with pytest.raises(GgufError, match="tokens that are no UTF-8"):
        tokenizer_of(path)


def test_tokenizers_that_gguf_has_no_place_for() -> None:
    with pytest.raises(ValueError, match="a tokenizer of type WordPiece cannot be written"):
        tokenizer_metadata(Tokenizer(WordPiece({"a": 0}, unk_token="a")))
    tokenizer = byte_level("qwen2")
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    with pytest.raises(ValueError, match=r"cuts text in a way that llama.cpp has no name for"):
        tokenizer_metadata(tokenizer)


@pytest.mark.parametrize(
    ("name", "tokens", "expected"),
    [
        (None, [], "model"),  # llama.cpp takes "phi3" in a name to mean that these tokens are there
        (None, ["</s>", "<unk>", "<s>", "<|endoftext|>"], "phi3"),
        ("Mine", [], "Mine"),
    ],
)
def test_names_of_phi3_models(name: str | None, tokens: list[str], expected: str, tmp_path: Path) -> None:
    tokenizer = byte_level("gpt-2")
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in tokens])
    config = CONFIGS["phi3"]()
    config.vocab_size = tokenizer.get_vocab_size()
    export_gguf(Phi3ForCausalLM(config), tmp_path / "x.gguf", tokenizer=tokenizer, name=name)
    assert GgufFile(tmp_path / "x.gguf").metadata["general.name"] == expected


def test_a_name_that_llama_cpp_takes_for_another_tokenizer(tmp_path: Path) -> None:
    tokenizer = byte_level("gpt-2")
    config = CONFIGS["phi3"]()
    config.vocab_size = tokenizer.get_vocab_size()
    with pytest.raises(ValueError, match=r"name 'My Phi-3': .* the tokenizer has no </s>, <unk>, <s>, <\|endoftext\|>"):
        export_gguf(Phi3ForCausalLM(config), tmp_path / "x.gguf", tokenizer=tokenizer, name="My Phi-3")
    assert not (tmp_path / "x.gguf").exists()


def test_a_tokenizer_larger_than_the_vocabulary(tmp_path: Path) -> None:
    tokenizer = byte_level("gpt-2")
    config = CONFIGS["phi3"]()
    config.vocab_size = tokenizer.get_vocab_size() - 1
    with pytest.raises(ValueError, match=r"tokenizer has \d+ tokens, the last of them '<think>', but .* has \d+"):
        export_gguf(Phi3ForCausalLM(config), tmp_path / "x.gguf", tokenizer=tokenizer)
