"""What a language model's program says of itself, by names that ExecuTorch's own text runner knows."""

from __future__ import annotations

TOKENIZER_KEY = "executorch_ggml.tokenizer"  # in the program's named data
METHODS = ("forward", "prefill", "decode")  # one method under three names: ExecuTorch's runner calls the first
