"""Architectures of `timm` and `transformers` that are checked end to end, tiny and with random weights.

Each row is a name and a function that builds the model and its inputs, run in a process of its own (`check.py`). What
`tests/zoo.py` and the language models' tests have is not repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from tests import torchvision_cpu
from torch import Tensor, nn

Inputs = Mapping[str, Tensor]
Built = tuple[nn.Module, Inputs]

VOCABULARY = 100
TEXT: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
TOWER: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
IMAGE: dict[str, Any] = TOWER | {"image_size": 32, "patch_size": 8}
SPEECH: dict[str, Any] = TOWER | {
    "vocab_size": 32,
    "conv_dim": (16, 16, 16),
    "conv_stride": (4, 2, 2),
    "conv_kernel": (8, 3, 2),
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
}


@dataclass(frozen=True)
class Architecture:
    """One row: what it is an example of, and how to build it."""

    kind: str
    build: Callable[[], Built]
    quick: bool = False  # among the few that run by default


# --------------------------------------------------------------------------------------------------------------- inputs


def text(length: int = 12) -> Inputs:
    """Two texts, the second one padded."""
    tokens = torch.randint(3, VOCABULARY, (2, length))
    mask = torch.ones(2, length, dtype=torch.int64)
    mask[1, length - 4 :] = 0
    return {"input_ids": tokens.masked_fill(mask == 0, 0), "attention_mask": mask}


def tokens(length: int = 12) -> Inputs:
    """Two texts without padding."""
    return {"input_ids": torch.randint(3, VOCABULARY, (2, length))}


def image(size: int = 32, channels: int = 3) -> Inputs:
    """Two images."""
    return {"pixel_values": torch.randn(2, channels, size, size)}


def video(frames: int = 4, size: int = 32) -> Inputs:
    """One short video."""
    return {"pixel_values": torch.randn(1, frames, 3, size, size)}


def waveform(samples: int = 800) -> Inputs:
    """Two pieces of sound."""
    return {"input_values": torch.randn(2, samples)}


def features(name: str, *shape: int) -> Inputs:
    """One tensor of features."""
    return {name: torch.randn(shape)}


# ----------------------------------------------------------------------------------------------------------- libraries


def from_timm(name: str, size: int = 64, **options: Any) -> Built:
    """A model of timm, for ten classes."""
    torchvision_cpu.torchvision_models()
    import timm

    return timm.create_model(name, pretrained=False, num_classes=10, **options), {"x": torch.randn(2, 3, size, size)}


def from_transformers(name: str, inputs: Callable[[], Inputs], nested: Mapping[str, Any], **options: Any) -> Built:
    """A model of transformers, from its configuration; ``nested`` has those inside it, by option."""
    import transformers

    model = getattr(transformers, name)
    for key, (config, values) in nested.items():
        options[key] = getattr(transformers, config)(**values)
    return model(model.config_class(**options)), inputs()


def _timm(kind: str, name: str, size: int = 64, **options: Any) -> None:
    _add(f"timm {name}", Architecture(kind, partial(from_timm, name, size, **options)))


def _transformers(
    kind: str,
    name: str,
    inputs: Callable[[], Inputs],
    *,
    quick: bool = False,
    nested: Mapping[str, Any] | None = None,
    **options: Any,
) -> None:
    _add(name, Architecture(kind, partial(from_transformers, name, inputs, nested or {}, **options), quick))


ARCHITECTURES: dict[str, Architecture] = {}


def _add(name: str, architecture: Architecture) -> None:
    if name in ARCHITECTURES:
        raise ValueError(f"architecture {name} is listed twice")
    ARCHITECTURES[name] = architecture


# --------------------------------------------------------------------------------------------------------------- images

_timm("image", "mobilenetv3_small_050")
_timm("image", "lcnet_050")
_timm("image", "mixer_s32_224", img_size=64)
_timm("image", "cait_xxs24_224", img_size=64, depth=2)
_timm("image", "convit_tiny", img_size=64, depth=2)
_timm("image", "xcit_nano_12_p16_224", img_size=64, depth=2)
_timm("image", "eva02_tiny_patch14_224", 56, img_size=56, depth=2)
_timm("image", "nfnet_l0")
_timm("image", "efficientvit_b0")

_transformers(
    "image", "ConvNextV2Model", image, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_stages=4, image_size=32
)
_transformers(
    "image",
    "Swinv2Model",
    image,
    image_size=32,
    patch_size=4,
    embed_dim=16,
    depths=[2, 2],
    num_heads=[2, 4],
    window_size=4,
)
_transformers(
    "image",
    "FocalNetModel",
    image,
    image_size=32,
    patch_size=4,
    embed_dim=16,
    depths=[1, 1],
    focal_levels=[2, 2],
    focal_windows=[3, 3],
    hidden_sizes=[16, 32],
)
_transformers("image", "Dinov2WithRegistersModel", image, **IMAGE, mlp_ratio=2)
_transformers("image", "DINOv3ViTModel", image, **IMAGE)
_transformers("image", "BeitModel", image, **IMAGE, use_relative_position_bias=True)
_transformers(
    "image", "CvtModel", image, embed_dim=[16, 24, 32], num_heads=[1, 2, 2], depth=[1, 2, 3], drop_path_rate=[0.0] * 3
)
_transformers(
    "segmentation",
    "SegformerForSemanticSegmentation",
    lambda: image(64),
    hidden_sizes=[8, 16, 24, 32],
    depths=[1, 1, 1, 1],
    num_attention_heads=[1, 2, 2, 4],
    decoder_hidden_size=16,
)
_transformers(
    "segmentation",
    "DPTForSemanticSegmentation",
    image,
    **IMAGE | {"num_hidden_layers": 4},
    backbone_out_indices=[0, 1, 2, 3],
    neck_hidden_sizes=[8, 8, 16, 16],
    fusion_hidden_size=16,
    is_hybrid=False,
    use_auxiliary_head=False,
)
_transformers(
    "segmentation",
    "GLPNForDepthEstimation",
    lambda: image(64),
    hidden_sizes=[8, 16, 24, 32],
    depths=[1, 1, 1, 1],
    num_attention_heads=[1, 2, 2, 4],
    decoder_hidden_size=16,
)
_transformers(
    "segmentation",
    "SamVisionModel",
    lambda: image(64),
    image_size=64,
    patch_size=8,
    **TOWER | {"mlp_dim": 64},
    output_channels=16,
    window_size=4,
    global_attn_indexes=[1],
    num_pos_feats=8,
)

# ------------------------------------------------------------------------------------------------------------ detection

_RESNET = {
    "embedding_size": 8,
    "hidden_sizes": [8, 12, 16, 20],
    "depths": [1, 1, 1, 1],
    "layer_type": "basic",
    "out_features": ["stage2", "stage3", "stage4"],
}
_DETR: dict[str, Any] = {
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "num_queries": 8,
}
_RT_DETR: dict[str, Any] = {
    "d_model": 16,
    "encoder_hidden_dim": 16,
    "encoder_in_channels": [12, 16, 20],
    "decoder_in_channels": [16, 16, 16],
    "encoder_layers": 1,
    "encoder_ffn_dim": 32,
    "encoder_attention_heads": 2,
    "num_queries": 10,
    "decoder_layers": 2,
    "decoder_ffn_dim": 32,
    "decoder_attention_heads": 2,
    "num_denoising": 0,
}
for _name in ("DetrForObjectDetection", "ConditionalDetrForObjectDetection"):
    _transformers(
        "detection",
        _name,
        lambda: image(64),
        **_DETR,
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        backbone=None,
        nested={"backbone_config": ("ResNetConfig", _RESNET | {"out_features": ["stage4"]})},
    )
_transformers(
    "detection",
    "RTDetrV2ForObjectDetection",
    lambda: image(64),
    **_RT_DETR,
    hidden_expansion=0.5,
    nested={"backbone_config": ("RTDetrResNetConfig", _RESNET)},
)
_transformers("detection", "YolosForObjectDetection", image, **IMAGE | {"image_size": [32, 32]}, num_detection_tokens=4)

# ----------------------------------------------------------------------------------------------------------------- text

_transformers("text", "DistilBertModel", text, vocab_size=VOCABULARY, dim=32, hidden_dim=64, n_layers=2, n_heads=4)
_transformers("text", "AlbertModel", text, **TEXT, embedding_size=16, quick=True)
_transformers("text", "ElectraModel", text, **TEXT, embedding_size=16)
_transformers(
    "text", "DebertaV2Model", text, **TEXT, relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8
)
_transformers("text", "DebertaModel", text, **TEXT, relative_attention=True, pos_att_type=["p2c", "c2p"])
_transformers("text", "ConvBertModel", text, **TEXT, embedding_size=16)
_transformers("text", "SqueezeBertModel", text, **TEXT, embedding_size=32)
_transformers(
    "text", "MobileBertModel", text, **TEXT | {"intermediate_size": 32}, embedding_size=16, intra_bottleneck_size=16
)
_transformers("text", "NystromformerModel", lambda: tokens(16), **TEXT, num_landmarks=4, segment_means_seq_len=16)
_transformers("text", "RoFormerModel", text, **TEXT, embedding_size=32)
_transformers("text", "FNetModel", tokens, **TEXT, tpu_short_seq_length=12)
_transformers("text", "XLNetModel", text, vocab_size=VOCABULARY, d_model=32, n_layer=2, n_head=4, d_inner=64)
_transformers("text", "XLMModel", text, vocab_size=VOCABULARY, emb_dim=32, n_layers=2, n_heads=4, n_words=VOCABULARY)
_transformers(
    "text",
    "FunnelModel",
    text,
    vocab_size=VOCABULARY,
    d_model=32,
    d_head=8,
    d_inner=64,
    n_head=4,
    block_sizes=[1, 1],
    num_decoder_layers=1,
)
_transformers("text", "ModernBertModel", text, **TEXT, cls_token_id=1, sep_token_id=2, bos_token_id=1, eos_token_id=2)
_transformers("text", "EsmModel", text, **TEXT, position_embedding_type="rotary", mask_token_id=4)

# ---------------------------------------------------------------------------------------------------------------- audio

_transformers(
    "audio",
    "Wav2Vec2BertModel",
    lambda: features("input_features", 2, 20, 16),
    **TOWER,
    feature_projection_input_dim=16,
    conv_depthwise_kernel_size=5,
    max_source_positions=64,
)

# ---------------------------------------------------------------------------------------------------- multimodal towers

_transformers("text tower", "CLIPTextModelWithProjection", text, **TEXT, projection_dim=16, eos_token_id=2)
_transformers("image tower", "CLIPVisionModelWithProjection", image, **IMAGE, projection_dim=16)
_transformers("image tower", "SiglipVisionModel", image, **IMAGE, quick=True)
_transformers("image tower", "BlipVisionModel", image, **IMAGE)
_transformers(
    "image tower",
    "GroupViTVisionModel",
    image,
    **IMAGE | {"num_hidden_layers": 3},
    depths=[1, 1, 1],
    num_group_tokens=[4, 2, 0],
    num_output_groups=[4, 2, 0],
)
_transformers("image tower", "Idefics3VisionTransformer", image, **IMAGE)
_transformers("video", "VideoMAEModel", video, **IMAGE, num_frames=4)
_transformers("video", "TimesformerModel", video, **IMAGE, num_frames=4)

# ---------------------------------------------------------------------------------------------------------- time series

_transformers(
    "time series",
    "PatchTSTModel",
    lambda: features("past_values", 2, 32, 3),
    d_model=16,
    num_attention_heads=2,
    ffn_dim=32,
    num_hidden_layers=2,
    context_length=32,
    patch_length=8,
    patch_stride=8,
    num_input_channels=3,
    quick=True,
)
_transformers(
    "time series",
    "PatchTSMixerModel",
    lambda: features("past_values", 2, 32, 3),
    d_model=16,
    num_layers=2,
    context_length=32,
    patch_length=8,
    patch_stride=8,
    num_input_channels=3,
)
