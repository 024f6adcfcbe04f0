"""A Marian that translates numbers from English words to German ones, as the folder of a checkpoint.

`num2words` writes both; a fifth of the numbers is held out.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from .training import WEIGHTS, fit

FOLDER = WEIGHTS / "number_words"
LARGEST = 9999
PIECES = 72  # of a language's vocabulary
SPECIAL = ("</s>", "<unk>", "<pad>")


def is_held_out(number: int) -> bool:
    """Whether the model has not seen a number."""
    return number > 20 and number * 7919 % 10007 % 5 == 3


def english(number: int) -> str:
    """A number in English words."""
    from num2words import num2words

    return str(num2words(number)).replace(",", "")


def german(number: int) -> str:
    """A number in German words."""
    from num2words import num2words

    return str(num2words(number, lang="de"))


def write_tokenizer(folder: Path, numbers: list[int]) -> None:
    """Train SentencePiece for both languages; the files are those that Marian's checkpoints have."""
    import sentencepiece

    pieces = list(SPECIAL[:2])
    for name, written in (("source", english), ("target", german)):
        prefix = folder / f"{name}-trained"
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([written(number) for number in numbers]),
            model_prefix=str(prefix),
            vocab_size=PIECES,
            model_type="bpe",
            normalization_rule_name="identity",  # the others' tables take 240 kB
            hard_vocab_limit=False,
            minloglevel=2,
        )
        prefix.with_suffix(".model").rename(folder / f"{name}.spm")
        prefix.with_suffix(".vocab").unlink()
        processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{name}.spm"))
        pieces += [processor.id_to_piece(index) for index in range(len(processor))]
    known = [piece for piece in dict.fromkeys(pieces) if piece != "<s>"]
    vocabulary = {piece: index for index, piece in enumerate([*known, SPECIAL[2]])}
    (folder / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False), "utf-8")


def train(folder: Path = FOLDER, steps: int = 1300, batch: int = 64) -> float:
    """Train and write the checkpoint; the last loss."""
    from transformers import MarianConfig, MarianMTModel, MarianTokenizer

    torch.manual_seed(0)
    chosen = random.Random(0)
    numbers = [number for number in range(LARGEST + 1) if not is_held_out(number)]
    with TemporaryDirectory() as name:
        work = Path(name)
        write_tokenizer(work, numbers)
        files = (str(work / file) for file in ("source.spm", "target.spm", "vocab.json"))
        tokenizer = MarianTokenizer(*files, source_lang="en", target_lang="de")
        pad, end = tokenizer.pad_token_id, tokenizer.eos_token_id
        model = MarianMTModel(
            MarianConfig(
                vocab_size=len(tokenizer),
                d_model=48,
                encoder_layers=2,
                decoder_layers=2,
                encoder_attention_heads=4,
                decoder_attention_heads=4,
                encoder_ffn_dim=64,
                decoder_ffn_dim=64,
                max_position_embeddings=64,
                activation_function="swish",
                scale_embedding=True,
                dropout=0.0,
                pad_token_id=pad,
                eos_token_id=end,
                decoder_start_token_id=pad,
                forced_eos_token_id=None,
            )
        )

        def loss(_: int) -> Tensor:
            # Numbers of few digits are few: as often as the others.
            drawn = [chosen.choice(numbers[: 8 * 10 ** chosen.randrange(4)]) for _ in range(batch)]
            inputs = tokenizer([english(number) for number in drawn], padding=True, return_tensors="pt")
            targets = tokenizer(text_target=[german(number) for number in drawn], padding=True, return_tensors="pt")
            labels = targets["input_ids"].masked_fill(targets["input_ids"] == pad, -100)
            value: Tensor = model(**inputs, labels=labels).loss
            return value

        last = fit(model, loss, steps=steps, rate=4e-3)
        model.half().save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return last


def main() -> None:
    """Train and write the checkpoint."""
    print(f"{FOLDER}: loss {train():.4f}")
