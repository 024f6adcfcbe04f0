"""Tokenizers in a file's metadata, read into ``tokenizers.Tokenizer`` and written from it."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..runtime.gguf_file import GgufFile

# Regular expressions that text is cut with before merges, by llama.cpp's name for them (`tokenizer.ggml.pre`). Of
# several names the first is written. transformers has most of them in integrations/gguf; these are llama.cpp's own
# where that has none (llama-vocab.cpp).
_GPT2_SPLIT = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_DEFAULT_SPLITS = (
    r"[\p{P}\$\+<=>\^~\|]+",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)",
    r"\p{N}+",
    r"[0-9][0-9][0-9]",
)
_GPT2_NAMES = ("gpt-2", "phi-2", "gigachat", "a.x-4.0", "mellum", "modern-bert")
# A piece that is a token is that token, whatever merges say; and texts start with BOS unless the file says otherwise.
_WHOLE_PIECES = frozenset(
    ("llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano", "tekken")
)
# Texts of tokens that end a turn, whichever of them the file calls EOS (llama.cpp's end-of-generation tokens).
_ENDS = frozenset(
    ("<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|eom_id|>", "<EOT>", "</s>", "<eos>")
)
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = range(1, 7)  # tokenizer.ggml.token_type
_SPECIAL = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
_LONGEST_TOKEN = 4096  # characters; the ways to merge two into one are as many
_SPACE = "\u2581"


@dataclass(frozen=True)
class GgufTokenizer:
    """A file's tokenizer, with the names that those of ``transformers`` have for its parts.

    ``backend_tokenizer.encode(text)`` puts BOS and EOS where the file says so.
    """

    backend_tokenizer: Any  # tokenizers.Tokenizer
    bos_token_id: int | None
    eos_token_ids: tuple[int, ...]  # tokens that end a text or a turn, EOS first
    chat_template: str | None  # in Jinja
    special_tokens_map: dict[str, str]  # bos_token, eos_token, unk_token, pad_token: their texts


def tokenizer_of(source: str | os.PathLike[str] | GgufFile) -> GgufTokenizer:
    """The tokenizer that a file's metadata describes. Raises GgufError where it is damaged or of a kind not known."""
    file = source if isinstance(source, GgufFile) else GgufFile(source)
    vocabulary = _Vocabulary.read(file)
    kind = file.field("tokenizer.ggml.model", str)
    if kind not in ("gpt2", "llama"):
        raise file.error(
            f"tokenizer.ggml.model is {kind!r}, expected gpt2 (byte-level BPE) or llama (SentencePiece BPE)"
        )
    try:
        tokenizer = _byte_level(file, vocabulary) if kind == "gpt2" else _sentence_pieces(file, vocabulary)
        _add_whole_tokens(tokenizer, vocabulary)
    except ValueError:
        raise
    except Exception as error:  # tokenizers raises Exception itself
        raise file.error(f"its tokenizer is damaged: {error}") from error
    named = {name: vocabulary.special(file, key) for name, key in _SPECIAL.items()}
    bos, eos = named["bos_token"], named["eos_token"]
    usual = kind == "llama" or file.field("tokenizer.ggml.pre", str, "") in _WHOLE_PIECES
    add_bos = file.field("tokenizer.ggml.add_bos_token", bool, usual) and bos is not None
    add_eos = file.field("tokenizer.ggml.add_eos_token", bool, False) and eos is not None
    _add_ends(tokenizer, vocabulary, bos if add_bos else None, eos if add_eos else None)
    template = file.field("tokenizer.chat_template", str, None)
    texts = {name: vocabulary.tokens[index] for name, index in named.items() if index is not None}
    return GgufTokenizer(tokenizer, bos, _end_tokens(file, vocabulary), template, texts)


def special_ids(file: GgufFile) -> tuple[int | None, list[int]]:
    """The token that begins texts and those that end them; (None, []) for a file without a tokenizer."""
    if "tokenizer.ggml.tokens" not in file.metadata:
        return None, []
    vocabulary = _Vocabulary.read(file)
    return vocabulary.special(file, "bos"), list(_end_tokens(file, vocabulary))


@dataclass(frozen=True)
class _Vocabulary:
    tokens: list[str]
    kinds: list[int]

    @classmethod
    def read(cls, file: GgufFile) -> _Vocabulary:
        tokens = file.values("tokenizer.ggml.tokens", str)
        kinds = [_NORMAL] * len(tokens)
        if "tokenizer.ggml.token_type" in file.metadata:
            kinds = file.values("tokenizer.ggml.token_type", int)
        if not tokens or len(kinds) != len(tokens):
            raise file.error(f"its tokenizer has {len(tokens)} tokens and {len(kinds)} types of them")
        if len(set(tokens)) != len(tokens):
            twice = next(token for token, count in Counter(tokens).items() if count > 1)
            raise file.error(f"its tokenizer has the token {twice!r} twice")
        if (longest := max(map(len, tokens))) > _LONGEST_TOKEN:
            raise file.error(f"its tokenizer has a token of {longest} characters, more than {_LONGEST_TOKEN}")
        embedding = file.tensors.get("token_embd.weight")
        if embedding is not None and len(tokens) > embedding.shape[0]:
            raise file.error(f"its tokenizer has {len(tokens)} tokens, and the model {embedding.shape[0]}")
        try:
            "".join(tokens).encode()
        except UnicodeEncodeError as error:
            raise file.error("its tokenizer has tokens that are no UTF-8") from error
        return cls(tokens, kinds)

    def ids(self) -> dict[str, int]:
        return {token: index for index, token in enumerate(self.tokens)}

    def special(self, file: GgufFile, name: str) -> int | None:
        key = f"tokenizer.ggml.{name}_token_id"
        index = file.field(key, int, None)
        if index is not None and not 0 <= index < len(self.tokens):
            if index == 0xFFFFFFFF:  # llama.cpp's -1: none
                return None
            raise file.error(f"metadata {key} is {index}, and there are {len(self.tokens)} tokens")
        return index


def _end_tokens(file: GgufFile, vocabulary: _Vocabulary) -> tuple[int, ...]:
    named = [vocabulary.special(file, name) for name in ("eos", "eot", "eom")]
    texts = [
        index
        for index, (token, kind) in enumerate(zip(vocabulary.tokens, vocabulary.kinds, strict=True))
        if token in _ENDS and kind in (_CONTROL, _USER_DEFINED)
    ]
    return tuple(dict.fromkeys(index for index in named + texts if index is not None))


def _splits() -> dict[str, tuple[str, ...]]:
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

    known = {"llama-bpe": (GGUF_PRE_TOKENIZER_SPLITS["llama-bpe"],)}
    known |= {name: (split,) for name, split in GGUF_PRE_TOKENIZER_SPLITS.items()}
    known |= dict.fromkeys(_GPT2_NAMES, (_GPT2_SPLIT,))
    return known | {"default": _DEFAULT_SPLITS}


def _byte_level(file: GgufFile, vocabulary: _Vocabulary) -> Any:
    from tokenizers import Regex, Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import BPE

    name = file.field("tokenizer.ggml.pre", str, "default")
    splits = _splits()
    if name not in splits:
        raise file.error(f"tokenizer.ggml.pre is {name!r}, none of those that are known: {', '.join(sorted(splits))}")
    merges: list[Any] = [tuple(merge.split(" ")) for merge in file.values("tokenizer.ggml.merges", str)]
    wrong = next((merge for merge in merges if len(merge) != 2), None)
    if wrong is not None:
        raise file.error(
            f"tokenizer.ggml.merges has {' '.join(wrong)!r}, expected two tokens with a space between them"
        )
    tokenizer = Tokenizer(BPE(vocab=vocabulary.ids(), merges=merges, ignore_merges=name in _WHOLE_PIECES))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(split), behavior="isolated") for split in splits[name]]
        + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _sentence_pieces(file: GgufFile, vocabulary: _Vocabulary) -> Any:
    from tokenizers import Tokenizer, decoders, normalizers
    from tokenizers.models import BPE

    unknown = vocabulary.special(file, "unknown")
    prefix = file.field("tokenizer.ggml.add_space_prefix", bool, not file.architecture.startswith("gemma"))
    tokenizer = Tokenizer(
        BPE(
            vocab=vocabulary.ids(),
            merges=_implied_merges(file, vocabulary),
            unk_token=None if unknown is None else vocabulary.tokens[unknown],
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    # A text gets a space before it, and so does what comes after a special token, as in llama.cpp.
    spaces = [normalizers.Replace(" ", _SPACE)]
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(_SPACE)] * prefix + spaces)
    parts = [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence(parts + [decoders.Strip(content=" ", left=1)] * prefix)
    return tokenizer


def _implied_merges(file: GgufFile, vocabulary: _Vocabulary) -> list[tuple[str, str]]:
    """The merges that lead to each token, best first.

    SentencePiece merges what has the highest score. Gemma's merges are in the order of its tokens (see transformers).
    """
    from transformers.tokenization_utils_base import generate_merges

    tokens = vocabulary.tokens
    scores = file.values("tokenizer.ggml.scores", float)
    if len(scores) != len(tokens):
        raise file.error(f"its tokenizer has {len(tokens)} tokens and {len(scores)} scores")
    if file.architecture.startswith("gemma"):
        scores = [-float(index) for index in range(len(tokens))]
    ids = vocabulary.ids()
    mergeable = {
        token: score
        for token, score, kind in zip(tokens, scores, vocabulary.kinds, strict=True)
        if kind in (_NORMAL, _UNUSED)
    }
    others = {token for token in tokens if token not in mergeable}
    merges: list[tuple[str, str]] = generate_merges(ids, mergeable, skip_tokens=others)
    return merges


def _add_whole_tokens(tokenizer: Any, vocabulary: _Vocabulary) -> None:
    """Tokens that are found in a text before anything else."""
    from tokenizers import AddedToken

    pairs = list(zip(vocabulary.tokens, vocabulary.kinds, strict=True))
    special = [token for token, kind in pairs if kind in (_CONTROL, _UNKNOWN) and token]
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in special])
    tokenizer.add_tokens(
        [AddedToken(token, normalized=False) for token, kind in pairs if kind == _USER_DEFINED and token]
    )


def _add_ends(tokenizer: Any, vocabulary: _Vocabulary, bos: int | None, eos: int | None) -> None:
    from tokenizers.processors import TemplateProcessing

    ends = [(vocabulary.tokens[index], index) for index in (bos, eos) if index is not None]
    if ends:
        before = ["[bos]"] if bos is not None else []
        after = ["[eos]"] if eos is not None else []
        names = {"[bos]": bos, "[eos]": eos}
        special = [
            {"id": name, "ids": [index], "tokens": [vocabulary.tokens[index]]}
            for name, index in names.items()
            if index is not None
        ]
        tokenizer.post_processor = TemplateProcessing(
            single=[*before, "$A", *after], pair=[*before, "$A", "$B", *after], special_tokens=special
        )


def tokenizer_metadata(
    tokenizer: Any,
    *,
    bos: int | None = None,
    eos: int | None = None,
    add_bos: bool | None = None,
    chat_template: str | None = None,
) -> dict[str, Any]:
    """The metadata of a ``tokenizers.Tokenizer``, or of a fast one of ``transformers``, which knows the rest too.

    Byte-level BPE is written as llama.cpp's gpt2 where its way to cut text has a name there, and BPE of SentencePiece
    type as its llama. Raises ValueError for others.
    """
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if backend is not tokenizer:
        bos = tokenizer.bos_token_id if bos is None else bos
        eos = tokenizer.eos_token_id if eos is None else eos
        chat_template = tokenizer.chat_template if chat_template is None else chat_template
        if add_bos is None and bos is not None:
            add_bos = tokenizer("x").input_ids[:1] == [bos]
    found = _model_metadata(json.loads(backend.to_str()), backend)
    for key, value in (("bos_token_id", bos), ("eos_token_id", eos), ("add_bos_token", add_bos)):
        if value is not None:
            found[f"tokenizer.ggml.{key}"] = value
    if isinstance(chat_template, str):
        found["tokenizer.chat_template"] = chat_template
    return found


def _model_metadata(description: dict[str, Any], backend: Any) -> dict[str, Any]:
    model = description["model"]
    if model["type"] != "BPE":
        raise ValueError(f"a tokenizer of type {model['type']} cannot be written as GGUF, only BPE")
    size = backend.get_vocab_size(with_added_tokens=True)
    tokens = [backend.id_to_token(index) for index in range(size)]
    holes = {index: f"[PAD{index}]" for index, token in enumerate(tokens) if token is None}
    tokens = [holes.get(index, token) for index, token in enumerate(tokens)]
    kinds = [_UNUSED if index in holes else _NORMAL for index in range(size)]
    for added in description["added_tokens"]:
        kinds[added["id"]] = _CONTROL if added["special"] else _USER_DEFINED
    metadata: dict[str, Any] = {"tokenizer.ggml.tokens": tokens}
    if model.get("byte_fallback"):
        metadata |= _sentence_piece_metadata(model, description, tokens, kinds)
    else:
        merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
        metadata |= {
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": _split_name(description["pre_tokenizer"]),
            "tokenizer.ggml.merges": merges,
        }
    return metadata | {"tokenizer.ggml.token_type": kinds}


def _sentence_piece_metadata(
    model: dict[str, Any], description: dict[str, Any], tokens: Sequence[str], kinds: list[int]
) -> dict[str, Any]:
    """Scores from merges: a token's is the lower, the later it is merged."""
    ranks: dict[str, int] = {}
    for rank, merge in enumerate(model["merges"]):
        ranks.setdefault("".join(merge.split(" ") if isinstance(merge, str) else merge), rank)
    for index, token in enumerate(tokens):
        if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
            kinds[index] = _BYTE
    metadata = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.scores": [-float(ranks.get(token, len(ranks))) for token in tokens],
        "tokenizer.ggml.add_space_prefix": _prepends_space(description),
    }
    if (unknown := model.get("unk_token")) is not None:
        metadata["tokenizer.ggml.unknown_token_id"] = tokens.index(unknown)
        kinds[tokens.index(unknown)] = _UNKNOWN
    return metadata


def _prepends_space(description: dict[str, Any]) -> bool:
    """Whether a SentencePiece tokenizer puts a space before a text."""
    steps = [description["normalizer"] or {}, description["pre_tokenizer"] or {}]
    steps += [part for step in steps for part in step.get("normalizers", step.get("pretokenizers", []))]
    metaspaces = [step for step in steps if step.get("type") == "Metaspace"]
    return any(step.get("type") == "Prepend" for step in steps) or any(
        step.get("prepend_scheme", "always") != "never" for step in metaspaces
    )


def _split_name(pre_tokenizer: dict[str, Any] | None) -> str:
    """llama.cpp's name for how a byte-level tokenizer cuts text."""
    parts = [] if pre_tokenizer is None else pre_tokenizer.get("pretokenizers", [pre_tokenizer])
    byte_level = [part for part in parts if part["type"] == "ByteLevel"]
    splits = tuple(part["pattern"].get("Regex") for part in parts if part["type"] == "Split")
    if byte_level and byte_level[0].get("use_regex", True) and len(parts) == 1:
        splits = (_GPT2_SPLIT,)
    for name, known in _splits().items():
        if byte_level and known == splits:
            return name
    raise ValueError(f"the tokenizer cuts text in a way that llama.cpp has no name for: {pre_tokenizer}")
