"""A Whisper that hears which keys of a telephone were pressed (DTMF), as the folder of a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .training import WEIGHTS, fit

FOLDER = WEIGHTS / "dial_tones"
RATE = 16000
SECONDS = 3  # that the model hears
KEYS = "123456789*0#"
ROWS, COLUMNS = (697, 770, 852, 941), (1209, 1336, 1477)  # Hz
LENGTHS = (1, 8)  # of what is dialled
END, START, NO_TIMESTAMPS = "<|endoftext|>", "<|startoftranscript|>", "<|notimestamps|>"

Samples = npt.NDArray[np.float32]


def dialled(keys: str, seed: int = 0, noise: float = 0.02) -> Samples:
    """The sound of keys: tones and pauses of different lengths, and noise. ValueError for other keys, or too many."""
    unknown = sorted(set(keys) - set(KEYS))
    if unknown or not LENGTHS[0] <= len(keys) <= LENGTHS[1]:
        raise ValueError(f"{keys!r}: expected {LENGTHS[0]} to {LENGTHS[1]} of {KEYS}")
    random = np.random.default_rng(seed)
    pieces = [np.zeros(random.integers(800, 3200))]
    for key in keys:
        index = KEYS.index(key)
        time = np.arange(random.integers(1440, 3200)) / RATE
        phases = random.uniform(0, 2 * np.pi, 2)
        low, high = (
            np.sin(2 * np.pi * frequency * time + phase)
            for frequency, phase in zip((ROWS[index // 3], COLUMNS[index % 3]), phases, strict=True)
        )
        pieces += [random.uniform(0.1, 0.45) * (low + high), np.zeros(random.integers(960, 2080))]
    sound = np.concatenate(pieces)
    return (sound + noise * random.standard_normal(len(sound))).astype(np.float32)


def make_tokenizer() -> Any:
    """Whisper's, of the keys alone."""
    from transformers import WhisperTokenizer

    vocabulary = {token: index for index, token in enumerate([*KEYS, END, START, NO_TIMESTAMPS])}
    tokenizer = WhisperTokenizer(vocab=vocabulary, merges=[], unk_token=END)
    tokenizer.add_special_tokens({"additional_special_tokens": [START, NO_TIMESTAMPS]})
    return tokenizer


def examples(count: int, extractor: Any) -> tuple[Tensor, list[str]]:
    """The features of sounds, and the keys in them."""
    random = np.random.default_rng(1)
    texts = ["".join(random.choice(list(KEYS), random.integers(*LENGTHS, endpoint=True))) for _ in range(count)]
    sounds = [dialled(text, seed=index, noise=random.uniform(0.001, 0.05)) for index, text in enumerate(texts)]
    features = [extractor(sound, sampling_rate=RATE, return_tensors="pt").input_features for sound in sounds]
    return torch.cat(features), texts


def train(folder: Path = FOLDER, steps: int = 2500, batch: int = 32, count: int = 2500) -> float:
    """Train and write the checkpoint; the last loss."""
    from transformers import GenerationConfig, WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration

    torch.manual_seed(0)
    tokenizer = make_tokenizer()
    end, start, silent = tokenizer.convert_tokens_to_ids([END, START, NO_TIMESTAMPS])
    extractor = WhisperFeatureExtractor(chunk_length=SECONDS)
    config = WhisperConfig(
        vocab_size=len(tokenizer),
        num_mel_bins=extractor.feature_size,
        d_model=40,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_source_positions=SECONDS * 50,
        max_target_positions=16,
        pad_token_id=end,
        bos_token_id=end,
        eos_token_id=end,
        decoder_start_token_id=start,
        dropout=0.0,
        init_std=0.1,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
    model = WhisperForConditionalGeneration(config)
    model.generation_config = GenerationConfig(
        bos_token_id=end,
        eos_token_id=end,
        pad_token_id=end,
        decoder_start_token_id=start,
        no_timestamps_token_id=silent,
        is_multilingual=False,
    )
    features, texts = examples(count, extractor)
    rows = [[start, silent, *(KEYS.index(key) for key in text), end] for text in texts]
    ids = torch.tensor([row + [-100] * (LENGTHS[1] + 3 - len(row)) for row in rows])

    def loss(_: int) -> Tensor:
        drawn = torch.randint(count, (batch,))
        read = ids[drawn, :-1]
        later = features[drawn].roll(int(torch.randint(20, ())), dims=-1)
        logits = model(input_features=later, decoder_input_ids=read.clamp(min=0)).logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[drawn, 1:].flatten())

    last = fit(model, loss, steps=steps, rate=4e-3)
    model.half().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    extractor.save_pretrained(folder)
    return last


def main() -> None:
    """Train and write the checkpoint."""
    print(f"{FOLDER}: loss {train():.4f}")
