"""Images as the inputs of programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def as_input(
    image: Image, shape: Sequence[int], mean: Sequence[float] = IMAGENET_MEAN, std: Sequence[float] = IMAGENET_STD
) -> np.ndarray[Any, Any]:
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
