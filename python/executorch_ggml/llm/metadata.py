"""What a language model's program says of itself, by names that ExecuTorch's own text runner knows."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Any

from ..runtime import Module
from ..runtime.program_file import named_data
from .tokenizer import Tokenizer

TOKENIZER_KEY = "executorch_ggml.tokenizer"  # in the program's named data
METHODS = ("forward", "prefill", "decode")  # one method under three names: ExecuTorch's runner calls the first
# Of models that rotate short texts by other factors than long ones: the length of the longest short text, and the
# method of a causal language model that reads these.
SHORT_LENGTH, SHORT_METHOD = "get_max_short_context_len", "forward_short"
DETECTED = -1  # among the tokens that a decoder starts with: that of the language, which the model finds out


def metadata_of(module: Module, required: Collection[str], kind: str) -> dict[str, Any]:
    """What the program's metadata methods give; a ValueError where those of its kind are not there."""
    names = [name for name in module.method_names if name.startswith(("get_", "use_", "enable_"))]
    found = {name: module.run(name, ()) for name in names}
    missing = set(required) - set(found)
    if missing:
        raise ValueError(f"not a program of a {kind}: it has no {', '.join(sorted(missing))}")
    lists = {name: value for name, value in found.items() if name.endswith("_ids")}
    return found | {name: value if isinstance(value, tuple) else (value,) for name, value in lists.items()}


def tokenizer_of(path: str | os.PathLike[str], tokenizer: Any) -> Tokenizer | None:
    """The tokenizer that is given (see :meth:`Tokenizer.load`), or else the one in a program's file."""
    if tokenizer is not None:
        return Tokenizer.load(tokenizer)
    stored = named_data(path, TOKENIZER_KEY)
    return None if stored is None else Tokenizer.from_bytes(stored)
