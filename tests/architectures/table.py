"""Architectures of `timm` and `transformers` that are checked end to end, tiny and with random weights.

Each runs in a process of its own (`run.py`). What `tests/zoo.py` and the language models' tests have is not repeated,
but for models whose exports went wrong once.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from tests.architectures.build import (
    IMAGE_TOKEN,
    VOCABULARY,
    Architecture,
    Config,
    captioned_image,
    decisions,
    features,
    image,
    prompted_image,
    spoken_text,
    text,
    timm,
    tokens,
    transformers,
    video,
    waveform,
)

Options = Mapping[str, Any]

# -------------------------------------------------------------------------------------------------------------- options

_TOWER: Options = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
_IMAGE: Options = {**_TOWER, "image_size": 32, "patch_size": 8}
_TEXT: Options = {**_TOWER, "vocab_size": VOCABULARY, "max_position_embeddings": 64, "pad_token_id": 0}
_DEBERTA: Options = {**_TEXT, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}
_DECODER: Options = {**_TEXT, "num_key_value_heads": 2, "use_cache": False, "bos_token_id": 1, "eos_token_id": 2}
_EXPERTS: Options = {**_DECODER, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
_SPEECH: Options = {
    **_TOWER,
    "vocab_size": 32,
    "conv_dim": (16, 16, 16),
    "conv_stride": (4, 2, 2),
    "conv_kernel": (8, 3, 2),
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
}
_PYRAMID: Options = {
    "hidden_sizes": [8, 16, 24, 32],
    "depths": [1, 1, 1, 1],
    "num_attention_heads": [1, 2, 2, 4],
    "decoder_hidden_size": 16,
}
_RESNET: Options = {
    "embedding_size": 8,
    "hidden_sizes": [8, 12, 16, 20],
    "depths": [1, 1, 1, 1],
    "layer_type": "basic",
}
_DETR: Options = {
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "num_queries": 8,
    "use_timm_backbone": False,
    "use_pretrained_backbone": False,
    "backbone": None,
    "backbone_config": Config("ResNetConfig", {**_RESNET, "out_features": ["stage4"]}),
}
_RT_DETR: Options = {
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
    "hidden_expansion": 0.5,
    "backbone_config": Config("RTDetrResNetConfig", {**_RESNET, "out_features": ["stage2", "stage3", "stage4"]}),
}
_CODEC: Options = {
    "hidden_size": 32,
    "num_filters": 4,
    "upsampling_ratios": [4, 2],
    "codebook_size": 16,
    "codebook_dim": 32,
}
_SERIES: Options = {"context_length": 32, "patch_length": 8, "patch_stride": 8, "num_input_channels": 3, "d_model": 16}
_SMALL_IMAGE: Options = {**_IMAGE, "image_size": 16, "num_hidden_layers": 1}

_series = partial(features, past_values=(2, 32, 3))
_larger_image = partial(image, 64)
_image_in_text = partial(captioned_image, 16, 4)

# ----------------------------------------------------------------------------------------------------------------- rows

KINDS: Mapping[str, tuple[Architecture, ...]] = {
    "image": (
        timm("mobilenetv3_small_050"),
        timm("lcnet_050"),
        timm("mixer_s32_224", img_size=64),
        timm("cait_xxs24_224", img_size=64, depth=2),
        timm("convit_tiny", img_size=64, depth=2),
        timm("xcit_nano_12_p16_224", img_size=64, depth=2),
        timm("eva02_tiny_patch14_224", 56, img_size=56, depth=2),
        timm("nfnet_l0"),
        timm("efficientvit_b0"),
        transformers(
            "ConvNextV2Model", image, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_stages=4, image_size=32
        ),
        transformers(
            "Swinv2Model",
            image,
            image_size=32,
            patch_size=4,
            embed_dim=16,
            depths=[2, 2],
            num_heads=[2, 4],
            window_size=4,
        ),
        transformers(
            "Swin2SRForImageSuperResolution",
            partial(image, 16),
            image_size=16,
            embed_dim=16,
            depths=[2],
            num_heads=[2],
            window_size=4,
            upscale=2,
        ),
        transformers(
            "FocalNetModel",
            image,
            image_size=32,
            patch_size=4,
            embed_dim=16,
            depths=[1, 1],
            focal_levels=[2, 2],
            focal_windows=[3, 3],
            hidden_sizes=[16, 32],
        ),
        transformers("Dinov2WithRegistersModel", image, **_IMAGE, mlp_ratio=2),
        transformers("DINOv3ViTModel", image, **_IMAGE),
        transformers("BeitModel", image, **_IMAGE, use_relative_position_bias=True),
        transformers(
            "CvtModel", image, embed_dim=[16, 24, 32], num_heads=[1, 2, 2], depth=[1, 2, 3], drop_path_rate=[0.0] * 3
        ),
    ),
    "segmentation": (
        transformers("SegformerForSemanticSegmentation", _larger_image, **_PYRAMID),
        transformers(
            "DPTForSemanticSegmentation",
            image,
            **{**_IMAGE, "num_hidden_layers": 4},
            backbone_out_indices=[0, 1, 2, 3],
            neck_hidden_sizes=[8, 8, 16, 16],
            fusion_hidden_size=16,
            is_hybrid=False,
            use_auxiliary_head=False,
        ),
        transformers("GLPNForDepthEstimation", _larger_image, **_PYRAMID),
        transformers(
            "SamVisionModel",
            _larger_image,
            **_TOWER,
            image_size=64,
            patch_size=8,
            mlp_dim=64,
            output_channels=16,
            window_size=4,
            global_attn_indexes=[1],
            num_pos_feats=8,
        ),
    ),
    "detection": (
        transformers("DetrForObjectDetection", _larger_image, **_DETR),
        transformers("ConditionalDetrForObjectDetection", _larger_image, **_DETR),
        transformers("RTDetrForObjectDetection", _larger_image, **_RT_DETR, initializer_range=0.2),
        transformers("RTDetrV2ForObjectDetection", _larger_image, **_RT_DETR),
        transformers("YolosForObjectDetection", image, **{**_IMAGE, "image_size": [32, 32]}, num_detection_tokens=4),
        transformers(
            "SuperPointForKeypointDetection",
            image,
            encoder_hidden_sizes=[8, 8, 8, 8],
            decoder_hidden_size=16,
            descriptor_decoder_dim=16,
        ),
    ),
    "text": (
        transformers("DistilBertModel", text, vocab_size=VOCABULARY, dim=32, hidden_dim=64, n_layers=2, n_heads=4),
        transformers("AlbertModel", text, **_TEXT, embedding_size=16),
        transformers("ElectraModel", text, **_TEXT, embedding_size=16),
        transformers("DebertaV2Model", text, **_DEBERTA, position_buckets=8),
        transformers("DebertaModel", text, **_DEBERTA),
        transformers("ConvBertModel", text, **_TEXT, embedding_size=16),
        transformers("SqueezeBertModel", text, **_TEXT, embedding_size=32),
        transformers(
            "MobileBertModel",
            text,
            **{**_TEXT, "intermediate_size": 32},
            embedding_size=16,
            intra_bottleneck_size=16,
        ),
        transformers("NystromformerModel", partial(tokens, 16), **_TEXT, num_landmarks=4, segment_means_seq_len=16),
        transformers("RoFormerModel", text, **_TEXT, embedding_size=32),
        transformers("FNetModel", tokens, **_TEXT, tpu_short_seq_length=12),
        transformers("LongformerModel", partial(text, 16), **_TEXT, attention_window=[8, 8]),
        transformers("XLNetModel", text, vocab_size=VOCABULARY, d_model=32, n_layer=2, n_head=4, d_inner=64),
        transformers("XLMModel", text, n_words=VOCABULARY, emb_dim=32, n_layers=2, n_heads=4),
        transformers(
            "FunnelModel",
            text,
            vocab_size=VOCABULARY,
            d_model=32,
            d_head=8,
            d_inner=64,
            n_head=4,
            block_sizes=[1, 1],
            num_decoder_layers=1,
        ),
        transformers("ModernBertModel", text, **_TEXT, cls_token_id=1, sep_token_id=2, bos_token_id=1, eos_token_id=2),
        transformers("EsmModel", text, **_TEXT, position_embedding_type="rotary", mask_token_id=4),
    ),
    "language model": (
        transformers(
            "Gemma3nForCausalLM",
            tokens,
            **_DECODER,
            head_dim=8,
            vocab_size_per_layer_input=VOCABULARY,
            hidden_size_per_layer_input=8,
            laurel_rank=4,
            num_kv_shared_layers=0,
            layer_types=["sliding_attention", "full_attention"],
            activation_sparsity_pattern=[0.9, 0.0],
        ),
        transformers(
            "Llama4ForCausalLM", tokens, **_DECODER, head_dim=8, intermediate_size_mlp=64, num_local_experts=2
        ),
        # Experts with biases and transposed, interleaved weights.
        transformers("GptOssForCausalLM", tokens, **_DECODER, head_dim=8, num_local_experts=4, num_experts_per_tok=2),
        transformers("Qwen2MoeForCausalLM", tokens, **_EXPERTS, shared_expert_intermediate_size=32),
        transformers(
            "Qwen3NextForCausalLM",
            tokens,
            **_EXPERTS,
            shared_expert_intermediate_size=32,
            head_dim=8,
            layer_types=["linear_attention", "full_attention"],
            linear_key_head_dim=8,
            linear_value_head_dim=8,
            linear_num_key_heads=2,
            linear_num_value_heads=4,
        ),
        transformers(
            "MambaForCausalLM",
            tokens,
            vocab_size=VOCABULARY,
            hidden_size=32,
            state_size=8,
            num_hidden_layers=2,
            use_cache=False,
        ),
        transformers(
            "JambaForCausalLM",
            tokens,
            **_DECODER,
            num_experts=2,
            attn_layer_period=2,
            attn_layer_offset=1,
            mamba_d_state=8,
        ),
        transformers(
            "Zamba2ForCausalLM",
            tokens,
            **_DECODER,
            layers_block_type=["mamba", "hybrid"],
            mamba_d_state=8,
            n_mamba_heads=4,
            chunk_size=8,
            adapter_rank=4,
        ),
        transformers("Lfm2ForCausalLM", tokens, **_DECODER, layer_types=["conv", "full_attention"]),
    ),
    "audio": (
        transformers("Wav2Vec2Model", waveform, **_SPEECH),
        transformers("HubertModel", waveform, **_SPEECH),
        transformers("WavLMModel", waveform, **_SPEECH, num_buckets=16, max_bucket_distance=32),
        transformers("UniSpeechModel", waveform, **_SPEECH),
        transformers("SEWModel", waveform, **_SPEECH, squeeze_factor=2),
        transformers(
            "Data2VecAudioModel",
            waveform,
            **{**_SPEECH, "num_conv_pos_embeddings": 2},
            conv_pos_kernel_size=5,
        ),
        transformers(
            "Wav2Vec2BertModel",
            partial(features, input_features=(2, 20, 16)),
            **_TOWER,
            feature_projection_input_dim=16,
            conv_depthwise_kernel_size=5,
            max_source_positions=64,
        ),
        transformers(
            "ASTModel",
            partial(features, input_values=(2, 32, 16)),
            **_TOWER,
            max_length=32,
            num_mel_bins=16,
            patch_size=8,
        ),
        transformers(
            "MoonshineModel",
            partial(spoken_text, 3200),
            vocab_size=VOCABULARY,
            hidden_size=32,
            intermediate_size=64,
            encoder_num_hidden_layers=1,
            decoder_num_hidden_layers=1,
            encoder_num_attention_heads=4,
            decoder_num_attention_heads=4,
            use_cache=False,
        ),
        transformers("EncodecModel", partial(features, input_values=(1, 1, 256)), **_CODEC, num_lstm_layers=1),
        transformers(
            "MimiModel",
            partial(features, input_values=(1, 1, 256)),
            **_CODEC,
            num_quantizers=4,
            vector_quantization_hidden_dimension=32,
            upsample_groups=32,
            num_hidden_layers=1,
            intermediate_size=64,
            num_attention_heads=4,
            num_key_value_heads=4,
        ),
    ),
    "text tower": (transformers("CLIPTextModelWithProjection", text, **_TEXT, projection_dim=16, eos_token_id=2),),
    "image tower": (
        transformers("CLIPVisionModelWithProjection", image, **_IMAGE, projection_dim=16),
        transformers("SiglipVisionModel", image, **_IMAGE),
        transformers("BlipVisionModel", image, **_IMAGE),
        transformers(
            "GroupViTVisionModel",
            image,
            **{**_IMAGE, "num_hidden_layers": 3},
            depths=[1, 1, 1],
            num_group_tokens=[4, 2, 0],
            num_output_groups=[4, 2, 0],
        ),
        transformers("Idefics3VisionTransformer", image, **_IMAGE),
    ),
    "image and text": (
        transformers(
            "LlavaForConditionalGeneration",
            _image_in_text,
            vision_config=Config("CLIPVisionConfig", _SMALL_IMAGE),
            text_config=Config("LlamaConfig", _DECODER),
            image_token_index=IMAGE_TOKEN,
            vision_feature_layer=-1,
        ),
        # Without token types transformers masks other tokens when it is traced than when it is called.
        transformers(
            "PaliGemmaForConditionalGeneration",
            partial(prompted_image, 16, 4),
            vision_config=Config("SiglipVisionConfig", _SMALL_IMAGE),
            text_config=Config("GemmaConfig", {**_DECODER, "head_dim": 8}),
            image_token_index=IMAGE_TOKEN,
            projection_dim=32,
        ),
        transformers("ViltModel", lambda: {**text(), **image()}, **_IMAGE, vocab_size=VOCABULARY),
    ),
    "video": (
        transformers("VideoMAEModel", video, **_IMAGE, num_frames=4),
        transformers("TimesformerModel", video, **_IMAGE, num_frames=4),
    ),
    "control": (
        transformers(
            "DecisionTransformerModel",
            decisions,
            state_dim=5,
            act_dim=3,
            hidden_size=32,
            max_ep_len=32,
            n_layer=2,
            n_head=4,
            use_cache=False,
        ),
    ),
    "time series": (
        transformers("PatchTSTModel", _series, **_SERIES, num_attention_heads=2, ffn_dim=32, num_hidden_layers=2),
        transformers("PatchTSMixerModel", _series, **_SERIES, num_layers=2),
    ),
}

ARCHITECTURES: Mapping[str, Architecture] = {row.name: row for rows in KINDS.values() for row in rows}
KIND_OF: Mapping[str, str] = {row.name: kind for kind, rows in KINDS.items() for row in rows}

if len(ARCHITECTURES) != sum(map(len, KINDS.values())):
    raise ValueError("two rows of the table have the same name")
