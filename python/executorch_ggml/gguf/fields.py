"""Entries of a file's metadata and attributes of a ``transformers`` config: one table for both directions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..runtime.gguf_file import GgufFile


@dataclass(frozen=True)
class Field:
    """``<architecture>.<key>`` in the metadata, ``attribute`` in the config. Sizes and counts are positive."""

    key: str
    attribute: str
    kind: type = int
    optional: bool = False


SIZES = (
    Field("context_length", "max_position_embeddings"),
    Field("embedding_length", "hidden_size"),
    Field("block_count", "num_hidden_layers"),
    Field("attention.head_count", "num_attention_heads"),
    Field("attention.layer_norm_rms_epsilon", "rms_norm_eps", float),
)
FEED_FORWARD = Field("feed_forward_length", "intermediate_size")


def read_fields(file: GgufFile, fields: Iterable[Field]) -> dict[str, Any]:
    """The attributes that a file's metadata gives."""
    found = {}
    for field in fields:
        value = read_field(file, field.key, field.kind, optional=field.optional)
        if value is not None:
            found[field.attribute] = value
    return found


def read_field(file: GgufFile, key: str, kind: type, *, optional: bool = False) -> Any:
    """An entry that belongs to the file's architecture; a number must be positive. None: it may be missing, and is."""
    full = f"{file.architecture}.{key}"
    value = file.field(full, kind, None) if optional else file.field(full, kind)
    if kind in (int, float) and value is not None and value <= 0:
        raise file.error(f"metadata {full} is {value}, expected more than 0")
    return value


def read_experts(file: GgufFile, fields: Iterable[Field]) -> dict[str, Any]:
    """The attributes of a mixture of experts."""
    found = read_fields(file, fields)
    count, used = (read_field(file, key, int) for key in ("expert_count", "expert_used_count"))
    if used > count:
        raise file.error(f"{used} experts are said to be used of {count}")
    return found


def write_fields(config: Any, fields: Iterable[Field]) -> dict[str, Any]:
    """The metadata, its keys without the architecture, that a config gives."""
    return {
        field.key: field.kind(getattr(config, field.attribute))
        for field in fields
        if not (field.optional and getattr(config, field.attribute, None) is None)
    }


def read_heads(file: GgufFile) -> dict[str, Any]:
    """The attributes that say how heads are cut: ``num_key_value_heads`` and ``head_dim``."""
    heads = read_field(file, "attention.head_count", int)
    key_heads = read_field(file, "attention.head_count_kv", int, optional=True) or heads
    if heads % key_heads != 0:
        raise file.error(f"{heads} attention heads cannot share {key_heads} key and value heads evenly")
    width = read_field(file, "embedding_length", int)
    head = read_field(file, "attention.key_length", int, optional=True)
    if head is None:
        if width % heads != 0:
            raise file.error(f"an embedding of {width} cannot be cut into {heads} heads")
        head = width // heads
    values = read_field(file, "attention.value_length", int, optional=True) or head
    if values != head:
        raise file.error(f"heads have keys of {head} and values of {values}; only equal ones are supported")
    return {"num_key_value_heads": key_heads, "head_dim": head}


def write_heads(config: Any) -> dict[str, Any]:
    """The other direction of :func:`read_heads`."""
    head = head_dim(config)
    return {
        "attention.head_count_kv": config.num_key_value_heads,
        "attention.key_length": head,
        "attention.value_length": head,
    }


def head_dim(config: Any) -> int:
    """Elements of a head."""
    return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)
