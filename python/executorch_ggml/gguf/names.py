"""Names of parameters in ``transformers`` and of tensors in GGUF files."""

from __future__ import annotations

import re
from collections.abc import Mapping

_LAYER = re.compile(r"model\.layers\.(\d+)\.(.+)")
_OUTSIDE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}

ATTENTION = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
}
HEAD_NORMS = {"self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm"}
FEED_FORWARD = {"mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
EXPERTS = {
    "mlp.gate": "ffn_gate_inp",
    "mlp.experts.gate_up_proj": "ffn_gate_exps ffn_up_exps",
    "mlp.experts.gate_proj": "ffn_gate_exps",
    "mlp.experts.up_proj": "ffn_up_exps",
    "mlp.experts.down_proj": "ffn_down_exps",
}
SHARED_EXPERT = {
    "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
    "mlp.shared_expert.up_proj": "ffn_up_shexp",
    "mlp.shared_expert.down_proj": "ffn_down_shexp",
    "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
}


class Names:
    """What the tensors of a family's parameters are called.

    ``layers`` has the modules of a layer, or parameters that have no module of their own, and for each the tensor, or
    two with a space between them for a parameter that is stored as two.
    """

    def __init__(self, layers: Mapping[str, str]) -> None:
        self._layers = layers

    def tensors(self, parameter: str) -> tuple[str, ...]:
        """The tensors of a parameter; () where the family has none for it."""
        layer = _LAYER.fullmatch(parameter)
        inner, prefix, known = (layer[2], f"blk.{layer[1]}.", self._layers) if layer else (parameter, "", _OUTSIDE)
        if inner in known:
            return tuple(f"{prefix}{name}.weight" for name in known[inner].split())
        module, _, kind = inner.rpartition(".")
        return (f"{prefix}{known[module]}.{kind}",) if module in known else ()
