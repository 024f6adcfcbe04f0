"""A Llama that answers small sums in words, and remembers the last one, as the folder of a checkpoint."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .training import WEIGHTS, fit

FOLDER = WEIGHTS / "sums"
NUMBERS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"),
)
WORDS = ("what", "is", "and", "plus", "minus", "that", "?", ".", *NUMBERS)
END, USER, ASSISTANT, PAD, UNKNOWN = "<|end|>", "<|user|>", "<|assistant|>", "<|pad|>", "<|unknown|>"
TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
TURNS = 3
LONGEST = 64  # tokens of a conversation
SIGNS: dict[str, Callable[[int, int], int]] = {"plus": int.__add__, "minus": int.__sub__}


def conversation(chosen: random.Random) -> list[dict[str, str]]:
    """Questions and answers: the first has two numbers, each later one goes on from the last result."""
    last = chosen.randrange(len(NUMBERS))
    messages = []
    for turn in range(TURNS):
        sign = chosen.choice(list(SIGNS))
        fitting = [n for n in range(len(NUMBERS)) if 0 <= SIGNS[sign](last, n) < len(NUMBERS)]
        other = chosen.choice(fitting)
        result = SIGNS[sign](last, other)
        asked = f"What is {NUMBERS[last]} {sign}" if turn == 0 else f"And that {sign}"
        messages += [
            {"role": "user", "content": f"{asked} {NUMBERS[other]}?"},
            {"role": "assistant", "content": f"{NUMBERS[last]} {sign} {NUMBERS[other]} is {NUMBERS[result]}."},
        ]
        last = result
    return messages


def make_tokenizer() -> Any:
    """Whole words, and the marks of a conversation."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    special = (END, USER, ASSISTANT, PAD, UNKNOWN)
    pieces = [word if word in "?." else f"▁{word}" for word in WORDS]
    vocabulary = {piece: index for index, piece in enumerate([*special, *pieces])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Metaspace(), pre_tokenizers.Punctuation()])
    tokenizer.decoder = decoders.Metaspace()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        unk_token=UNKNOWN,
        additional_special_tokens=[USER, ASSISTANT],
        chat_template=TEMPLATE,
    )


def answers(ids: Tensor, assistant: int, end: int) -> Tensor:
    """Which tokens of conversations are the assistant's, up to the one that ends each answer."""
    ends = ids == end
    before = ends.cumsum(1) - ends.long()  # questions and answers that ended before each token
    return (ids == assistant).cumsum(1) > before // 2


def train(folder: Path = FOLDER, steps: int = 1500, batch: int = 48) -> float:
    """Train and write the checkpoint; the last loss."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    chosen = random.Random(0)
    tokenizer = make_tokenizer()
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=64,
            intermediate_size=96,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=256,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )

    def loss(_: int) -> Tensor:
        texts = [tokenizer.apply_chat_template(conversation(chosen), tokenize=False) for _ in range(batch)]
        encoded = tokenizer(texts, padding=True, return_tensors="pt")
        ids = encoded["input_ids"]
        targets = ids.masked_fill(~answers(ids, *tokenizer.convert_tokens_to_ids([ASSISTANT, END])), -100)
        logits = model(input_ids=ids, attention_mask=encoded["attention_mask"]).logits
        return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), targets[:, 1:].flatten())

    last = fit(model, loss, steps=steps, rate=5e-3)
    model.half().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return last


def main() -> None:
    """Train and write the checkpoint."""
    print(f"{FOLDER}: loss {train():.4f}")
