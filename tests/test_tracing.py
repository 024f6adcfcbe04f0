"""Models of transformers and timm as `executorch_ggml.export` traces them, and what torch.export cannot trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tests import torchvision_cpu
from torch import Tensor, nn
from torch.export import export

import executorch_ggml

TEXT = {
    "vocab_size": 100,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
VISION = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "image_size": 16,
    "patch_size": 8,
}
TOKENS = torch.tensor([[5, 6, 99, 99, 99, 99, 7, 8]])


class Logits(nn.Module):
    """A model of transformers without its cache."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model.eval()

    def forward(self, tokens: Tensor, pixels: Tensor | None = None) -> Tensor:
        pictures = {} if pixels is None else {"pixel_values": pixels}
        logits: Tensor = self.model(input_ids=tokens, use_cache=False, **pictures).logits
        return logits


def llava() -> tuple[nn.Module, tuple[Tensor, ...]]:
    config = transformers.LlavaConfig(
        vision_config=transformers.CLIPVisionConfig(**VISION),
        text_config=transformers.LlamaConfig(**TEXT),
        image_token_index=99,
        vision_feature_layer=-1,
    )
    return Logits(transformers.LlavaForConditionalGeneration(config)), (TOKENS, torch.randn(1, 3, 16, 16))


def paligemma() -> tuple[nn.Module, tuple[Tensor, ...]]:
    config = transformers.PaliGemmaConfig(
        vision_config=transformers.SiglipVisionConfig(**VISION),
        text_config=transformers.GemmaConfig(**TEXT, head_dim=8),
        image_token_index=99,
        projection_dim=32,
    )
    return Logits(transformers.PaliGemmaForConditionalGeneration(config)), (TOKENS, torch.randn(1, 3, 16, 16))


def llama4() -> tuple[nn.Module, tuple[Tensor, ...]]:
    config = transformers.Llama4TextConfig(**TEXT, head_dim=8, intermediate_size_mlp=64, num_local_experts=2)
    config.pad_token_id = 0
    return Logits(transformers.Llama4ForCausalLM(config)), (TOKENS,)


def gemma3n() -> tuple[nn.Module, tuple[Tensor, ...]]:
    config = transformers.Gemma3nTextConfig(
        **TEXT,
        head_dim=8,
        vocab_size_per_layer_input=100,
        hidden_size_per_layer_input=8,
        laurel_rank=4,
        num_kv_shared_layers=0,
        layer_types=["sliding_attention", "full_attention"],
        activation_sparsity_pattern=[0.9, 0.0],
    )
    return Logits(transformers.Gemma3nForCausalLM(config)), (TOKENS,)


def qwen2_moe() -> tuple[nn.Module, tuple[Tensor, ...]]:
    config = transformers.Qwen2MoeConfig(
        **TEXT, moe_intermediate_size=16, num_experts=4, num_experts_per_tok=2, shared_expert_intermediate_size=32
    )
    return Logits(transformers.Qwen2MoeForCausalLM(config)), (TOKENS,)


def gpt_oss() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Its experts have biases and transposed, interleaved weights."""
    config = transformers.GptOssConfig(**TEXT, head_dim=8, num_local_experts=4, num_experts_per_tok=2)
    return Logits(transformers.GptOssForCausalLM(config)), (TOKENS,)


def efficientvit() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Its attention switches autocast off."""
    try:
        torchvision_cpu.torchvision_models()
    except ModuleNotFoundError as error:
        pytest.skip(str(error))
    timm = pytest.importorskip("timm")
    return timm.create_model("efficientvit_b0", num_classes=7).eval(), (torch.randn(1, 3, 64, 64),)


QUICK = (llava, qwen2_moe)
SLOW = (paligemma, llama4, gemma3n, gpt_oss, efficientvit)
MODELS = [*QUICK, *(pytest.param(make, marks=pytest.mark.slow) for make in SLOW)]


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_model(make: Any, tmp_path: Path) -> None:
    model, args = make()
    with torch.no_grad():  # traced, PaliGemma masks other tokens than called by itself
        expected = export(model, args).module()(*args)
    executorch_ggml.export(model, args).save(str(tmp_path / "model.pte"))
    torch.testing.assert_close(executorch_ggml.load(tmp_path / "model.pte")(*args), expected, rtol=1e-4, atol=1e-5)
