"""Images as the inputs of programs: the transforms that a model was trained with, and what its classes are called."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .runtime.program_file import named_data

if TYPE_CHECKING:
    from PIL.Image import Image

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
IMAGE_KEY = "executorch_ggml.image"
"""Of the named data of a program that says how images become its inputs."""

Array = np.ndarray[Any, Any]


def as_input(
    image: Image, shape: Sequence[int], mean: Sequence[float] = IMAGENET_MEAN, std: Sequence[float] = IMAGENET_STD
) -> Array:
    """An image as ``[channels, height, width]``, the last of an input's sizes: resized, scaled to 0 to 1, normalized.

    ``mean`` and ``std`` are of color images; images of one channel are not normalized.

    Raises ValueError where the input takes no image.
    """
    from PIL.Image import Resampling

    channels, height, width = shape[-3:] if len(shape) >= 3 else (0, 0, 0)
    if channels not in (1, 3):
        raise ValueError(f"an input {list(shape)} takes no image, which has 1 or 3 channels, a height and a width")
    pixels = image.convert("RGB" if channels == 3 else "L").resize((width, height), Resampling.BILINEAR)
    array = np.asarray(pixels, np.float32).reshape(height, width, channels) / 255
    if channels == 3:
        array = (array - np.array(mean, np.float32)) / np.array(std, np.float32)
    return np.ascontiguousarray(array.transpose(2, 0, 1))


@dataclass(frozen=True)
class ImageInput:
    """How images become the input of a program: by whose transforms, with which options; and the labels of classes.

    Of ``"torchvision"`` the option ``weights`` names those that the transforms belong to, of ``"timm"`` the options are
    its data configuration. ``"resize"`` needs neither package: see :func:`as_input`, whose ``mean`` and ``std`` are its
    options.
    """

    library: str = "resize"
    options: Mapping[str, Any] = field(default_factory=dict)
    labels: tuple[str, ...] = ()

    def array(self, image: Image, shape: Sequence[int]) -> Array:
        """An image as ``[channels, height, width]`` for an input of a shape, which ends in these.

        Where the input has another size than the transforms give, they keep the share of the image that is cropped.
        Raises ValueError where the input takes no image.
        """
        from PIL import ImageOps

        if len(shape) < 3:
            raise ValueError(f"an input {list(shape)} takes no image, which has channels, a height and a width")
        array = _TRANSFORMS[self.library](ImageOps.exif_transpose(image), tuple(shape), **self.options)
        if tuple(array.shape) != tuple(shape[-3:]):
            raise ValueError(
                f"the transforms of {self.library} give {list(array.shape)}, and the input takes {list(shape)}; pass "
                f"other transforms, such as resize"
            )
        return array

    def to_bytes(self) -> bytes:
        """All of it, to be kept in a program."""
        return json.dumps(asdict(self), ensure_ascii=False).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> ImageInput:
        """What :meth:`to_bytes` wrote. Raises ValueError for anything else."""
        try:
            fields = json.loads(data)
            options, labels = dict(fields["options"]), tuple(map(str, fields["labels"]))
            return cls(_known(fields["library"]), options, labels)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"the program's image transforms are damaged: {error}") from error

    @classmethod
    def of_program(cls, path: str | os.PathLike[str]) -> ImageInput | None:
        """What a program says of its images, if it does."""
        data = named_data(path, IMAGE_KEY)
        return None if data is None else cls.from_bytes(data)

    @classmethod
    def named(cls, name: str) -> ImageInput:
        """``torchvision:NAME`` of a model or of weights, ``timm:NAME`` of a model, or ``resize``.

        Raises ValueError for another name.
        """
        library, _, what = name.partition(":")
        if library == "torchvision" and what:
            return of_torchvision(what)
        if library == "timm" and what:
            return of_timm(what)
        if name == "resize":
            return cls()
        raise ValueError(f"transforms {name!r}: expected torchvision:NAME, timm:NAME or resize")


def of_torchvision(name: str) -> ImageInput:
    """The transforms and labels of a torchvision model's default weights, or of weights by their name."""
    from torchvision import models

    try:
        weights = models.get_weight(name) if "." in name else models.get_model_weights(name).DEFAULT
    except (ValueError, AttributeError) as error:
        raise ValueError(f"torchvision has no model or weights {name!r}: {error}") from error
    return ImageInput("torchvision", {"weights": str(weights)}, tuple(weights.meta.get("categories", ())))


def of_timm(model: Any) -> ImageInput:
    """The transforms and labels of a timm model, or of its name."""
    import timm
    import torch

    if isinstance(model, str):
        if not timm.is_model(model):
            raise ValueError(f"timm has no model {model!r}; timm.list_models() lists them")
        with torch.device("meta"):
            model = timm.create_model(model, pretrained=False)
    return ImageInput("timm", timm.data.resolve_model_data_config(model), _timm_labels(model))


def _timm_labels(model: Any) -> tuple[str, ...]:
    from timm.data import ImageNetInfo, infer_imagenet_subset

    if names := model.pretrained_cfg.get("label_names"):
        return tuple(names)
    subset = infer_imagenet_subset(model)
    if subset is None:
        return ()
    info = ImageNetInfo(subset)
    return tuple(info.index_to_description(index) for index in range(info.num_classes()))


def _by_torchvision(image: Image, shape: tuple[int, ...], *, weights: str) -> Array:
    from torchvision import models

    transforms = models.get_weight(weights).transforms
    preset, (height, width) = transforms(), shape[-2:]
    image = image.convert("RGB")
    if not hasattr(preset, "crop_size"):  # of segmentation and detection: any size
        image = image.resize((width, height))
        preset = transforms(resize_size=None) if hasattr(preset, "resize_size") else preset
    elif height == width and preset.crop_size != [width]:
        resize = round(width * preset.resize_size[0] / preset.crop_size[0])
        preset = transforms(crop_size=width, resize_size=resize)
    return _numpy(preset(image))


def _by_timm(image: Image, shape: tuple[int, ...], **config: Any) -> Array:
    from timm.data import create_transform

    size = (config["input_size"][0], *shape[-2:])
    transform = create_transform(**{**config, "input_size": size})
    return _numpy(transform(image.convert("RGB" if size[0] == 3 else "L")))


def _numpy(tensor: Any) -> Array:
    array: Array = tensor.numpy()
    return array


def _known(library: str) -> str:
    if library not in _TRANSFORMS:
        raise ValueError(f"transforms of {library!r}, expected one of {', '.join(_TRANSFORMS)}")
    return library


_TRANSFORMS: dict[str, Callable[..., Array]] = {"resize": as_input, "torchvision": _by_torchvision, "timm": _by_timm}


def with_labels(image: ImageInput, path: str | os.PathLike[str]) -> ImageInput:
    """With the labels in a file: one a line, or a JSON list or object by index."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if not os.fspath(path).endswith(".json"):
        return replace(image, labels=tuple(text.splitlines()))
    try:
        found = json.loads(text)
        if isinstance(found, dict):
            found = [found[str(index)] for index in range(len(found))]
        return replace(image, labels=tuple(map(str, found)))
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{os.fspath(path)}: expected a JSON list of labels, or an object by index: {error}"
        ) from error
