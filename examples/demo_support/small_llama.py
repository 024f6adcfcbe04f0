"""A Llama of a few million weights, trained here for a few minutes and then kept."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn import functional

if TYPE_CHECKING:
    import tokenizers
    from examples.demo_support.docstrings import Texts
    from transformers import LlamaForCausalLM

FOLDER = Path(__file__).resolve().parents[2] / "build" / "llm-demo"
END = "<|end|>"  # between texts
VOCABULARY = 2048
CONTEXT = 256
# Rows of 256 and more: ggml's k-quants come in blocks of so many weights.
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 256,
    "intermediate_size": 768,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2 * CONTEXT,
    "tie_word_embeddings": True,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
STEPS = 200
BATCH = 8
RATE = 3e-3


def digest(texts: Texts) -> str:
    """What a trained model depends on, in a few letters."""
    settings = json.dumps([SIZES, STEPS, BATCH, RATE, torch.__version__, *texts.train])
    return hashlib.sha256(settings.encode()).hexdigest()[:16]


def make_tokenizer(texts: Texts) -> tokenizers.Tokenizer:
    """A byte-level BPE, from the texts."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts.train, trainer)
    return tokenizer


def as_tokens(tokenizer: tokenizers.Tokenizer, texts: Sequence[str]) -> torch.Tensor:
    """Texts as one line of tokens, the end token between them."""
    ids = [0]
    for encoding in tokenizer.encode_batch(list(texts)):
        ids += [*encoding.ids, 0]
    return torch.tensor(ids)


def windows(line: torch.Tensor) -> torch.Tensor:
    """A line in pieces of the context's length, and one more token to foretell."""
    count = (len(line) - 1) // CONTEXT
    return torch.stack([line[i * CONTEXT : (i + 1) * CONTEXT + 1] for i in range(count)])


def trained(texts: Texts, tokenizer: tokenizers.Tokenizer, progress: Callable[[str], None]) -> LlamaForCausalLM:
    """The model: the one that was kept, or a new one."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**SIZES))
    path = FOLDER / f"{digest(texts)}.pt"
    if path.exists():
        model.load_state_dict(torch.load(path, weights_only=True))
        return model.eval()
    _train(model, windows(as_tokens(tokenizer, texts.train)), progress)
    FOLDER.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".new")
    torch.save(model.state_dict(), unfinished)
    unfinished.rename(path)
    return model.eval()


def _train(model: LlamaForCausalLM, data: torch.Tensor, progress: Callable[[str], None]) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.95), weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=RATE, total_steps=STEPS, pct_start=0.1)
    model.train()
    order = torch.cat([torch.randperm(len(data)) for _ in range(1 + STEPS * BATCH // len(data))])
    for step in range(STEPS):
        batch = data[order[step * BATCH : (step + 1) * BATCH]]
        logits = model(batch[:, :-1]).logits
        loss = functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call] # torch has no types for it
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if (step + 1) % 50 == 0:
            progress(f"step {step + 1} of {STEPS}: loss {float(loss):.3f}")


def perplexity(logits_of: Callable[[torch.Tensor], np.ndarray[Any, Any]], data: torch.Tensor) -> float:
    """How many tokens the model wavers between, by the logits that it gives for each token of each window."""
    total = 0.0
    for window in data:
        logits = logits_of(window[None, :-1]).reshape(CONTEXT, VOCABULARY).astype(np.float64)
        highest = logits.max(axis=1)
        norms = highest + np.log(np.exp(logits - highest[:, None]).sum(axis=1))
        total += float((norms - logits[np.arange(CONTEXT), window[1:].numpy()]).sum())
    return float(np.exp(total / (len(data) * CONTEXT)))
