"""The real models that the whole project is held against: one function per model, and a registry of them.

Each function returns a `Model`, the triple `(module, args, dynamic_shapes)` that `torch.export.export` takes. Weights
are random but seeded, and batch norms get random running statistics, so that folding them wrongly is seen.
`small=True` gives the same architecture in a size for tests; the full size is for benchmarks. The sizes in `args` are
only examples: `resized` gives inputs of other sizes within the model's dynamic dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from tests import torchvision_cpu
from torch import Tensor, nn
from torch.export import Dim

EXAMPLE_BATCH = 3
MAX_BATCH = 8
MAX_TOKENS = 512

DimsOfInput = Mapping[int, Any]


class Model(NamedTuple):
    """A module in eval mode with what `torch.export.export` needs beside it."""

    module: nn.Module
    args: tuple[Tensor, ...]
    dynamic_shapes: tuple[DimsOfInput, ...]


Builder = Callable[[bool], Model]


def batch_dim() -> Any:
    return Dim("batch", min=1, max=MAX_BATCH)


def tokens_dim(most: int = MAX_TOKENS) -> Any:
    return Dim("tokens", min=2, max=most)


# ---------------------------------------------------------------------------------------------------------------------
# Transformers
# ---------------------------------------------------------------------------------------------------------------------


def _padded_batch(module: nn.Module, vocabulary: int, max_tokens: int = MAX_TOKENS) -> Model:
    """A model of token ids and their mask, both symbolic in batch and length; all but the first text are padded."""
    input_ids = torch.randint(0, vocabulary, (EXAMPLE_BATCH, 24))
    attention_mask = torch.ones(EXAMPLE_BATCH, 24, dtype=torch.int64)
    attention_mask[1, 17:] = 0
    attention_mask[2, 5:] = 0
    dims = {0: batch_dim(), 1: tokens_dim(max_tokens)}
    return Model(module, (input_ids, attention_mask), (dims, dims))


class SentenceEncoder(nn.Module):
    """BERT with an attention mask, returning the token states."""

    def __init__(self, bert: nn.Module) -> None:
        super().__init__()
        self.bert = bert

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        states: Tensor = self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        return states


def bert(small: bool = False, max_tokens: int = MAX_TOKENS) -> Model:
    """A BERT of MiniLM's size (6 layers, 384 wide); batch and sequence length are symbolic, the batch is padded."""
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(
        num_hidden_layers=2 if small else 6,
        hidden_size=64 if small else 384,
        num_attention_heads=4 if small else 12,
        intermediate_size=128 if small else 1536,
        vocab_size=500 if small else 30522,
        max_position_embeddings=max_tokens,
        attn_implementation="sdpa",
    )
    module = SentenceEncoder(BertModel(config, add_pooling_layer=False)).eval()
    return _padded_batch(module, config.vocab_size, max_tokens)


class ImageClassifier(nn.Module):
    """An image model of `transformers`, returning the logits as a tensor."""

    def __init__(self, vit: nn.Module) -> None:
        super().__init__()
        self.vit = vit

    def forward(self, pixels: Tensor) -> Tensor:
        logits: Tensor = self.vit(pixel_values=pixels).logits
        return logits


def vit(small: bool = False) -> Model:
    """A vision transformer: 6 layers, 384 wide, 16x16 patches of a 224x224 image; the batch is symbolic."""
    from transformers import ViTConfig, ViTForImageClassification

    torch.manual_seed(0)
    config = ViTConfig(
        num_hidden_layers=2 if small else 6,
        hidden_size=64 if small else 384,
        num_attention_heads=4 if small else 6,
        intermediate_size=128 if small else 1536,
        image_size=64 if small else 224,
        patch_size=16,
        num_labels=10 if small else 1000,
        attn_implementation="sdpa",
    )
    module = ImageClassifier(ViTForImageClassification(config)).eval()
    pixels = torch.randn(EXAMPLE_BATCH, 3, config.image_size, config.image_size)
    return Model(module, (pixels,), ({0: batch_dim()},))


class Prefill(nn.Module):
    """A decoder over a whole prompt without a cache: the logits that follow its last token."""

    def __init__(self, decoder: nn.Module) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        logits: Tensor = self.decoder(
            input_ids=input_ids, attention_mask=attention_mask, use_cache=False, logits_to_keep=1
        ).logits
        return logits


CAUSAL_ATTENTION = "sdpa_is_causal"


def register_causal_attention() -> None:
    """Let a decoder call scaled-dot-product attention with `is_causal` and grouped keys, and build no mask tensor.

    When `transformers` is traced it always writes the causal mask out as index arithmetic on int64, for packed batches
    that a prefill does not have. An attention without a mask function of its own is spared that.
    """
    from transformers import AttentionInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    AttentionInterface.register(CAUSAL_ATTENTION, sdpa_attention_forward)


def _llama(small: bool, attention: str) -> tuple[nn.Module, int]:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        num_hidden_layers=2 if small else 4,
        hidden_size=64 if small else 512,
        intermediate_size=160 if small else 1408,
        vocab_size=300 if small else 8192,
        num_attention_heads=8,
        num_key_value_heads=4,
        max_position_embeddings=MAX_TOKENS,
        use_cache=False,
        attn_implementation=attention,
    )
    return Prefill(LlamaForCausalLM(config)).eval(), config.vocab_size


def llama(small: bool = False) -> Model:
    """A Llama-type prefill: RMSNorm, RoPE, SwiGLU, grouped queries, causal attention; its length is symbolic."""
    register_causal_attention()
    module, vocabulary = _llama(small, CAUSAL_ATTENTION)
    return Model(module, (torch.randint(0, vocabulary, (1, 24)),), ({1: tokens_dim()},))


def llama_masked(small: bool = False) -> Model:
    """The same decoder as `transformers` exports it for a batch of padded prompts; batch and length are symbolic."""
    module, vocabulary = _llama(small, "sdpa")
    return _padded_batch(module, vocabulary)


def llama_packed(small: bool = False) -> Model:
    """The same decoder as `transformers` exports it without a mask: its causal mask allows for packed sequences."""
    module, vocabulary = _llama(small, "sdpa")
    return Model(module, (torch.randint(0, vocabulary, (1, 24)),), ({1: tokens_dim()},))


# ---------------------------------------------------------------------------------------------------------------------
# Convolutional networks
# ---------------------------------------------------------------------------------------------------------------------


def randomize_batch_norms(module: nn.Module) -> None:
    """Give every batch norm statistics, scale and shift that differ per channel, as after training."""
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm2d):
            assert layer.running_mean is not None
            assert layer.running_var is not None
            layer.running_mean.normal_(0.0, 0.2)
            layer.running_var.uniform_(0.5, 1.5)
            nn.init.uniform_(layer.weight, 0.5, 1.5)
            nn.init.normal_(layer.bias, 0.0, 0.2)


def torchvision_model(name: str, pixels: int, **options: Any) -> Model:
    """A classifier of torchvision; the batch is symbolic."""
    torch.manual_seed(0)
    module: nn.Module = getattr(torchvision_cpu.torchvision_models(), name)(weights=None, **options)
    randomize_batch_norms(module)
    return Model(module.eval(), (torch.randn(EXAMPLE_BATCH, 3, pixels, pixels),), ({0: batch_dim()},))


def resnet18(small: bool = False) -> Model:
    """torchvision's ResNet-18; the batch is symbolic."""
    return torchvision_model("resnet18", 64 if small else 224, num_classes=10 if small else 1000)


def mobilenet_v2(small: bool = False) -> Model:
    """torchvision's MobileNetV2 (depthwise convolutions, ReLU6); the batch is symbolic."""
    if small:
        return torchvision_model("mobilenet_v2", 64, num_classes=10, width_mult=0.25)
    return torchvision_model("mobilenet_v2", 224)


def _conv_block(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.SiLU())


class UNet(nn.Module):
    """A U-Net of three levels whose three ways up differ: bilinear, nearest, and a transposed convolution."""

    def __init__(self, width: int, classes: int = 4) -> None:
        super().__init__()
        self.down = nn.ModuleList(
            [_conv_block(3, width), _conv_block(width, 2 * width), _conv_block(2 * width, 4 * width)]
        )
        self.pool = nn.MaxPool2d(2)
        self.middle = _conv_block(4 * width, 4 * width)
        self.ways_up = nn.ModuleList(
            [
                nn.ConvTranspose2d(4 * width, 4 * width, 2, stride=2),
                nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False),
                nn.Upsample(scale_factor=2, mode="nearest"),
            ]
        )
        self.up = nn.ModuleList(
            [_conv_block(8 * width, 2 * width), _conv_block(4 * width, width), _conv_block(2 * width, width)]
        )
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, image: Tensor) -> Tensor:
        skips = []
        x = image
        for block in self.down:
            x = block(x)
            skips.append(x)
            x = self.pool(x)
        x = self.middle(x)
        for way_up, block in zip(self.ways_up, self.up, strict=True):
            x = block(torch.cat([way_up(x), skips.pop()], dim=1))
        logits: Tensor = self.head(x)
        return logits


def unet(small: bool = False) -> Model:
    """A small U-Net; the batch is symbolic."""
    torch.manual_seed(0)
    module = UNet(width=4 if small else 16)
    randomize_batch_norms(module)
    pixels = 32 if small else 128
    return Model(module.eval(), (torch.randn(EXAMPLE_BATCH, 3, pixels, pixels),), ({0: batch_dim()},))


# ---------------------------------------------------------------------------------------------------------------------
# Recurrent networks
# ---------------------------------------------------------------------------------------------------------------------


class SequenceTagger(nn.Module):
    """A recurrent network with a linear head on every step."""

    def __init__(self, recurrent: nn.LSTM | nn.GRU, classes: int) -> None:
        super().__init__()
        self.recurrent = recurrent
        width = recurrent.hidden_size * (2 if recurrent.bidirectional else 1)
        self.head = nn.Linear(width, classes)

    def forward(self, sequence: Tensor) -> Tensor:
        states, _ = self.recurrent(sequence)
        logits: Tensor = self.head(states)
        return logits


def _tagger(kind: type[nn.LSTM] | type[nn.GRU], small: bool) -> Model:
    torch.manual_seed(0)
    features, width, steps = (12, 16, 6) if small else (64, 128, 16)
    recurrent = kind(features, width, num_layers=2, batch_first=True)
    # The number of steps is part of the exported program: torch.export unrolls a recurrence.
    return Model(
        SequenceTagger(recurrent, classes=8).eval(), (torch.randn(EXAMPLE_BATCH, steps, features),), ({0: batch_dim()},)
    )


def lstm(small: bool = False) -> Model:
    """A 2-layer LSTM; the batch is symbolic, the number of steps fixed."""
    return _tagger(nn.LSTM, small)


def gru(small: bool = False) -> Model:
    """A 2-layer GRU; the batch is symbolic, the number of steps fixed.

    ExecuTorch's check of the edge program makes this batch a constant: for an operator that returns a list of tensors
    it takes the first tensor for the list and asks for its length, which here is the symbolic batch of the gates'
    `split_with_sizes_copy`. `EdgeCompileConfig(_check_ir_validity=False)` avoids that.
    """
    return _tagger(nn.GRU, small)


MODELS: dict[str, Builder] = {
    "bert": bert,
    "llama": llama,
    "llama_masked": llama_masked,
    "llama_packed": llama_packed,
    "vit": vit,
    "resnet18": resnet18,
    "mobilenet_v2": mobilenet_v2,
    "unet": unet,
    "lstm": lstm,
    "gru": gru,
}


def load(name: str, small: bool = False) -> Model:
    """Build the model of that name."""
    if name not in MODELS:
        raise KeyError(f"zoo: no model {name!r}; there are {', '.join(MODELS)}")
    return MODELS[name](small)


def _resized(arg: Tensor, dims: DimsOfInput, sizes: Mapping[str, int], generator: torch.Generator) -> Tensor:
    for axis, dim in dims.items():
        size = sizes.get(dim.__name__, arg.shape[axis])
        index, _ = torch.randint(0, arg.shape[axis], (size,), generator=generator).sort()
        index[0] = 0
        arg = arg.index_select(axis, index)
    return arg


def resized(model: Model, **sizes: int) -> tuple[Tensor, ...]:
    """Inputs for `model` whose dynamic dimensions have the sizes given by name: `resized(model, batch=1, tokens=128)`.

    Entries are drawn from the example's own along each resized dimension, so that token ids stay in the vocabulary, and
    in order, so that padding stays at the end. Names that the model lacks are ignored: one call serves the whole zoo.
    """
    generator = torch.Generator().manual_seed(sum(sizes.values()))
    return tuple(
        _resized(arg, dims, sizes, generator) for arg, dims in zip(model.args, model.dynamic_shapes, strict=True)
    )
