"""Builds models of `timm` and `transformers` from rows of options, and the inputs that they are run on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from tests import torchvision_cpu
from torch import Tensor, nn

Inputs = Mapping[str, Tensor]

VOCABULARY = 100
IMAGE_TOKEN = 99


@dataclass(frozen=True)
class Config:
    """A configuration of transformers that is an option of another one."""

    name: str
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Architecture:
    """One row: a model, by its name in its library, its options and its inputs."""

    name: str
    model: Callable[[Mapping[str, Any]], nn.Module]
    inputs: Callable[[], Inputs]
    options: Mapping[str, Any] = field(default_factory=dict)

    def build(self) -> tuple[nn.Module, Inputs]:
        """The model with random weights, and its inputs."""
        return self.model(self.options), self.inputs()


def timm(name: str, size: int = 64, **options: Any) -> Architecture:
    """A model of timm, for ten classes."""
    return Architecture(f"timm {name}", partial(_timm_model, name), partial(features, x=(2, 3, size, size)), options)


def transformers(name: str, inputs: Callable[[], Inputs], **options: Any) -> Architecture:
    """A model of transformers, by the options of its configuration."""
    return Architecture(name, partial(_transformers_model, name), inputs, options)


def _timm_model(name: str, options: Mapping[str, Any]) -> nn.Module:
    torchvision_cpu.torchvision_models()
    import timm as library

    model: nn.Module = library.create_model(name, pretrained=False, num_classes=10, **options)
    return model


def _transformers_model(name: str, options: Mapping[str, Any]) -> nn.Module:
    import transformers as library

    def value_of(option: Any) -> Any:
        return getattr(library, option.name)(**option.options) if isinstance(option, Config) else option

    architecture = getattr(library, name)
    config = architecture.config_class(**{key: value_of(option) for key, option in options.items()})
    model: nn.Module = architecture(config)
    return model


# --------------------------------------------------------------------------------------------------------------- inputs


def features(**shapes: tuple[int, ...]) -> Inputs:
    """Normally distributed tensors."""
    return {name: torch.randn(shape) for name, shape in shapes.items()}


def image(size: int = 32) -> Inputs:
    """Two images."""
    return features(pixel_values=(2, 3, size, size))


def video(frames: int = 4, size: int = 32) -> Inputs:
    """One short video."""
    return features(pixel_values=(1, frames, 3, size, size))


def waveform(samples: int = 800) -> Inputs:
    """Two pieces of sound."""
    return features(input_values=(2, samples))


def tokens(length: int = 12) -> Inputs:
    """Two texts without padding."""
    return {"input_ids": torch.randint(3, IMAGE_TOKEN, (2, length))}


def text(length: int = 12) -> Inputs:
    """Two texts, the second one padded."""
    ids = tokens(length)["input_ids"]
    mask = torch.ones_like(ids)
    mask[1, length - 4 :] = 0
    return {"input_ids": ids.masked_fill(mask == 0, 0), "attention_mask": mask}


def captioned_image(size: int, image_tokens: int) -> Inputs:
    """Two images, each in the middle of a text."""
    ids = tokens(image_tokens + 4)["input_ids"]
    ids[:, 2 : image_tokens + 2] = IMAGE_TOKEN
    return {"input_ids": ids, **image(size)}


def prompted_image(size: int, image_tokens: int) -> Inputs:
    """Two images, each in the middle of a text, as PaliGemma's processor marks them: a prefix and a suffix."""
    inputs = captioned_image(size, image_tokens)
    ids = inputs["input_ids"]
    suffix = torch.zeros_like(ids)
    suffix[:, image_tokens + 2 :] = 1
    return {**inputs, "attention_mask": torch.ones_like(ids), "token_type_ids": suffix}


def spoken_text(samples: int, length: int = 6) -> Inputs:
    """Two waveforms, and the first tokens of their transcripts."""
    return {**waveform(samples), "decoder_input_ids": tokens(length)["input_ids"]}


def decisions(steps: int = 5) -> Inputs:
    """Two histories of an agent: states, actions, rewards and when they were."""
    moments = torch.arange(steps).expand(2, steps).contiguous()
    history = features(states=(2, steps, 5), actions=(2, steps, 3), rewards=(2, steps, 1), returns_to_go=(2, steps, 1))
    return {**history, "timesteps": moments, "attention_mask": torch.ones_like(moments)}
