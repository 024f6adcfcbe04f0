"""Small language models with random weights, one of each family."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import tokenizers
import torch
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertModel,
    FalconConfig,
    FalconForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GemmaConfig,
    GemmaForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    GPTJConfig,
    GPTJForCausalLM,
    GPTNeoConfig,
    GPTNeoForCausalLM,
    LEDConfig,
    LEDForConditionalGeneration,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    MarianConfig,
    MarianMTModel,
    MistralConfig,
    MistralForCausalLM,
    MistralModel,
    MixtralConfig,
    MixtralForCausalLM,
    MPNetConfig,
    MPNetModel,
    Phi3Config,
    Phi3ForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3Model,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
    RobertaConfig,
    RobertaModel,
    T5Config,
    T5ForConditionalGeneration,
    WhisperConfig,
    WhisperForConditionalGeneration,
)

from executorch_ggml.llm import Tokenizer

SIZES: dict[str, Any] = {
    "vocab_size": 101,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 640,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
ALTERNATING = {**SIZES, "num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"]}

FAMILIES: dict[str, Callable[[], PreTrainedModel]] = {
    "llama": lambda: LlamaForCausalLM(
        LlamaConfig(
            **SIZES,
            attention_bias=True,
            rope_parameters={
                "rope_type": "llama3",
                "rope_theta": 10000.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            },
        )
    ),
    "mistral": lambda: MistralForCausalLM(MistralConfig(**SIZES, sliding_window=48)),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**SIZES, tie_word_embeddings=True)),
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**SIZES)),
    "gemma": lambda: GemmaForCausalLM(GemmaConfig(**SIZES)),
    "gemma2": lambda: Gemma2ForCausalLM(
        Gemma2Config(
            **ALTERNATING,
            sliding_window=40,
            query_pre_attn_scalar=20,
            attn_logit_softcapping=1.5,
            final_logit_softcapping=2.0,
        )
    ),
    "gemma3": lambda: Gemma3ForCausalLM(Gemma3TextConfig(**ALTERNATING, sliding_window=40, query_pre_attn_scalar=20)),
    "mixtral": lambda: MixtralForCausalLM(MixtralConfig(**SIZES, num_local_experts=4, num_experts_per_tok=2)),
    "qwen3_moe": lambda: Qwen3MoeForCausalLM(
        Qwen3MoeConfig(**SIZES, moe_intermediate_size=24, num_experts=6, num_experts_per_tok=3, norm_topk_prob=True)
    ),
    "phi3": lambda: Phi3ForCausalLM(
        Phi3Config(
            **{**SIZES, "head_dim": 8},
            sliding_window=None,
            resid_pdrop=0.1,
            original_max_position_embeddings=600,
            rope_parameters={
                "rope_type": "longrope",
                "rope_theta": 10000.0,
                "short_factor": [1.0, 1.1, 1.2, 1.3],
                "long_factor": [1.0, 2.0, 3.0, 4.0],
                "original_max_position_embeddings": 600,
            },
        )
    ),
    # These compute attention themselves.
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config(vocab_size=101, n_embd=32, n_layer=2, n_head=4, n_positions=640)),
    "gptj": lambda: GPTJForCausalLM(
        GPTJConfig(vocab_size=101, n_embd=32, n_layer=2, n_head=4, n_positions=640, rotary_dim=4)
    ),
    "falcon": lambda: FalconForCausalLM(
        FalconConfig(
            vocab_size=101,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_kv_heads=2,
            new_decoder_architecture=True,
        )
    ),
}

SPECIAL: dict[str, Any] = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
TRANSFORMER: dict[str, Any] = {
    **SPECIAL,
    "vocab_size": 101,
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 40,
}


def _with_generation(model: PreTrainedModel, **fields: Any) -> PreTrainedModel:
    for name, value in fields.items():
        setattr(model.generation_config, name, value)
    return model


ENCODER_DECODERS: dict[str, Callable[[], PreTrainedModel]] = {
    "t5": lambda: T5ForConditionalGeneration(
        T5Config(
            **SPECIAL,
            vocab_size=101,
            d_model=32,
            d_kv=16,
            d_ff=48,
            num_layers=2,
            num_heads=4,
            decoder_start_token_id=0,
            feed_forward_proj="gated-gelu",
        )
    ),
    "whisper": lambda: _with_generation(
        WhisperForConditionalGeneration(
            WhisperConfig(
                **TRANSFORMER,
                num_mel_bins=8,
                max_source_positions=30,
                max_target_positions=280,
                decoder_start_token_id=3,
                suppress_tokens=[7, 8, 9],
                begin_suppress_tokens=[10, 2],
            )
        ),
        is_multilingual=True,
        lang_to_id={"<|en|>": 20, "<|de|>": 21, "<|fr|>": 25},
        task_to_id={"transcribe": 22, "translate": 23},
        no_timestamps_token_id=24,
    ),
    "bart": lambda: BartForConditionalGeneration(
        BartConfig(
            **TRANSFORMER | {"decoder_layers": 1, "decoder_attention_heads": 1},
            max_position_embeddings=300,
            decoder_start_token_id=2,
            forced_bos_token_id=1,
            forced_eos_token_id=None,
        )
    ),
    "marian": lambda: MarianMTModel(
        MarianConfig(
            **TRANSFORMER | {"decoder_layers": 1},
            max_position_embeddings=300,
            decoder_start_token_id=0,
            forced_eos_token_id=None,
            scale_embedding=True,
        )
    ),
}

ENCODER: dict[str, Any] = {
    "vocab_size": 101,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "pad_token_id": 1,
}

ENCODERS: dict[str, Callable[[], PreTrainedModel]] = {
    "bert": lambda: BertModel(BertConfig(**ENCODER | {"pad_token_id": 0})),
    "mpnet": lambda: MPNetModel(MPNetConfig(**ENCODER)),
    "roberta": lambda: RobertaModel(RobertaConfig(**ENCODER)),
    "qwen3": lambda: Qwen3Model(Qwen3Config(**SIZES)),
    "mistral": lambda: MistralModel(MistralConfig(**SIZES, sliding_window=8)),
}


# What no program is made of: positions that follow from how long the cache is, and states that are no keys and values.
UNKNOWN: dict[str, Callable[[], PreTrainedModel]] = {
    "gpt_neo": lambda: GPTNeoForCausalLM(
        GPTNeoConfig(
            vocab_size=101,
            hidden_size=32,
            num_layers=2,
            num_heads=4,
            attention_types=[[["global", "local"], 1]],
            window_size=40,
            max_position_embeddings=640,
        )
    ),
    "led": lambda: LEDForConditionalGeneration(LEDConfig(**TRANSFORMER, attention_window=16)),
    "mamba": lambda: MambaForCausalLM(MambaConfig(vocab_size=101, hidden_size=32, num_hidden_layers=1, state_size=8)),
}


def make(family: str) -> PreTrainedModel:
    """A language model of a family."""
    return _random((FAMILIES | ENCODER_DECODERS | UNKNOWN)[family], family)


def make_encoder(family: str) -> PreTrainedModel:
    """A sentence encoder of a family."""
    return _random(ENCODERS[family], family)


def _random(made: Callable[[], PreTrainedModel], family: str) -> PreTrainedModel:
    torch.manual_seed(sum(map(ord, family)))
    return randomized(made())


def randomized(model: PreTrainedModel, seed: int | None = None) -> PreTrainedModel:
    """A model whose weights are large enough for its logits to differ."""
    if seed is not None:
        torch.manual_seed(seed)
    model.eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, parameter.shape[-1] ** -0.5)
            else:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


CHAT = (
    "{% for message in messages %}<s>{{ message['role'] }}: {{ message['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant: {% endif %}"
)


def tokenizer() -> Tokenizer:
    """A token for each printable character of ASCII, with three special ones before them."""
    vocabulary = {
        token: i for i, token in enumerate(["<unk>", "<s>", "</s>", *map(chr, range(32, 127)), "\n", "\t", "é"])
    }
    model = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))
    model.add_special_tokens(["<unk>", "<s>", "</s>"])
    model.decoder = tokenizers.decoders.Fuse()
    special = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    return Tokenizer(model, CHAT, special)


def slow_but(families: Iterable[str], *fast: str) -> list[Any]:
    """Parameters of a test: the families, of which only some are run by default."""
    return [pytest.param(family, marks=() if family in fast else pytest.mark.slow) for family in families]
