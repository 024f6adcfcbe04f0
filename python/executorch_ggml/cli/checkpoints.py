"""Folders with checkpoints of ``transformers``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_GENERATE = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel", "MTModel")
"""How the names of classes end that generate text."""


def class_name(folder: Path) -> str | None:
    """The class that the checkpoint was written from; None for a folder with none. Raises ValueError for a bad file."""
    file = folder / "config.json"
    if not file.is_file():
        return None
    try:
        config = json.loads(file.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
    names = config.get("architectures") if isinstance(config, dict) else None
    return str(names[0]) if names else ""


def generates_text(folder: Path) -> bool:
    """Whether a folder has the checkpoint of a language model."""
    return (class_name(folder) or "").endswith(_GENERATE)


def class_of(folder: Path) -> Any:
    """The class of a checkpoint's module, which this imports."""
    import transformers

    name = class_name(folder)
    if name is None:
        raise FileNotFoundError(f"{folder}: no config.json of a transformers checkpoint in it")
    kind = getattr(transformers, name or "AutoModel", None)
    if kind is None:
        raise ValueError(f"{folder}: its class {name} is not in transformers {transformers.__version__}")
    return kind


def pretrained(folder: Path, **options: Any) -> Any:
    """The module of a checkpoint, of the class that wrote it."""
    import transformers

    kind = class_of(folder)
    transformers.utils.logging.disable_progress_bar()
    return kind.from_pretrained(folder, local_files_only=True, **options).eval()


def has_tokenizer(folder: Path) -> bool:
    """Whether there is a tokenizer beside the checkpoint."""
    return any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer_config.json"))
