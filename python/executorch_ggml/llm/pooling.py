"""From the states of a text's tokens to one embedding, by the names and files of ``sentence-transformers``."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor


def _mean(states: Tensor, mask: Tensor) -> Tensor:
    weights = mask[:, :, None].to(states.dtype)
    return (states * weights).sum(1) / weights.sum(1)


def _max(states: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask[:, :, None] != 0, states, -torch.inf).amax(1)


def _cls(states: Tensor, mask: Tensor) -> Tensor:
    del mask
    return states[:, 0]


def _last_token(states: Tensor, mask: Tensor) -> Tensor:
    return states[torch.arange(states.shape[0]), mask.sum(1) - 1]


# Each takes states [batch, tokens, size] and a mask [batch, tokens], 1 for tokens and 0 for what pads them at the end.
POOLINGS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mean": _mean,
    "max": _max,
    "cls": _cls,
    "lasttoken": _last_token,
}


@dataclass(frozen=True)
class Pooling:
    """How a checkpoint makes embeddings, and of texts of which length."""

    mode: str = "mean"
    normalize: bool = False
    max_seq_len: int | None = None


def pooling_of(folder: Path) -> Pooling:
    """What the files of ``sentence-transformers`` in a checkpoint's folder say; where there are none, its defaults."""
    modules = _read(folder / "modules.json") or []
    kinds = [module["type"].rsplit(".", 1)[-1] for module in modules]
    unknown = [kind for kind in kinds if kind not in ("Transformer", "Pooling", "Normalize")]
    if unknown:
        raise ValueError(f"{folder}: modules of type {', '.join(unknown)} are not known; pass a pooling without them")
    paths = [module["path"] for module, kind in zip(modules, kinds, strict=True) if kind == "Pooling"]
    config = _read(folder / (paths[0] if paths else "1_Pooling") / "config.json") or {}
    limit = (_read(folder / "sentence_bert_config.json") or {}).get("max_seq_length")
    return Pooling(_mode(config, folder), "Normalize" in kinds, limit)


def _mode(config: dict[str, Any], folder: Path) -> str:
    """The one mode of a pooling; older files have a boolean for each."""
    names = {"pooling_mode_cls_token": "cls", "pooling_mode_lasttoken": "lasttoken"}
    flags = [key for key, value in config.items() if key.startswith("pooling_mode_") and value is True]
    modes = [names.get(key, key.removeprefix("pooling_mode_").removesuffix("_tokens")) for key in flags]
    given = config.get("pooling_mode", modes or "mean")
    modes = [given] if isinstance(given, str) else list(given)
    if len(modes) != 1 or modes[0] not in POOLINGS:
        raise ValueError(f"{folder}: pooling by {' and '.join(modes)}, expected one of {', '.join(POOLINGS)}")
    return str(modes[0])


def _read(path: Path) -> Any:
    return json.loads(path.read_text()) if path.is_file() else None
