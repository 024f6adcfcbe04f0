"""What the decoder of an encoder-decoder model starts with, and must not say, by its generation config."""

from __future__ import annotations

from typing import Any

from transformers import PreTrainedModel

from .metadata import DETECTED


def start_metadata(model: PreTrainedModel) -> dict[str, Any]:
    """Metadata methods for generation: the first tokens, and those that are never given, or not as the first."""
    config: Any = model.generation_config
    never = [ids[0] for ids in config.bad_words_ids or () if len(ids) == 1]
    found = {
        "get_start_ids": _start_ids(model),
        "get_language_ids": list((getattr(config, "lang_to_id", None) or {}).values()),
        "get_suppressed_ids": [*(getattr(config, "suppress_tokens", None) or ()), *never],
        "get_begin_suppressed_ids": getattr(config, "begin_suppress_tokens", None),
    }
    return {name: list(ids) for name, ids in found.items() if ids}


def _start_ids(model: PreTrainedModel) -> list[int]:
    config: Any = model.generation_config
    start = config.decoder_start_token_id
    if start is None:
        start = getattr(model.config, "decoder_start_token_id", None)
    if not isinstance(start, int):
        raise ValueError(f"decoder_start_token_id is {start!r} in the model's generation config, expected a token")
    if model.config.model_type == "whisper":
        return _of_whisper(config, start)
    forced = config.forced_bos_token_id
    return [start] if forced is None else [start, forced]


def _of_whisper(config: Any, start: int) -> list[int]:
    """Start, language, task, and that no timestamps are wanted; as far as the model knows of these."""
    task, language = (getattr(config, name, None) for name in ("task", "language"))
    languages, tasks = (getattr(config, name, None) or {} for name in ("lang_to_id", "task_to_id"))
    forced = getattr(config, "forced_decoder_ids", None) if task is None and language is None else None
    ids = [DETECTED if token is None else token for _, token in forced or ()]
    if languages and language is not None:
        ids[:1] = [_language(languages, language)]
    elif languages and not ids:
        ids = [DETECTED]
    if task is not None or (language is not None and tasks):
        ids = [*ids, _task(tasks, task or "transcribe")]
    silent = getattr(config, "no_timestamps_token_id", None)
    if silent is not None and silent not in ids:
        ids.append(silent)
    return [start, *ids]


def _language(languages: dict[str, int], language: str) -> int:
    from transformers.models.whisper.tokenization_whisper import TO_LANGUAGE_CODE

    code = TO_LANGUAGE_CODE.get(language.lower(), language.lower().strip("<|>"))
    if f"<|{code}|>" not in languages:
        raise ValueError(f"language {language!r} of the generation config is none of the model's")
    return languages[f"<|{code}|>"]


def _task(tasks: dict[str, int], task: str) -> int:
    if task not in tasks:
        raise ValueError(f"task {task!r} of the generation config, expected one of {', '.join(tasks)}")
    return tasks[task]
