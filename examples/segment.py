"""Which pixels of an image are what: a mask as a PNG, and the share of each class.

python examples/segment.py                                     a small U-Net on digits written over a photograph
python examples/segment.py --model lraspp_mobilenet_v3_large IMAGE          any of torchvision's, downloaded
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from examples.common import downloading, exported, open_image, quiet, use_torchvision

if TYPE_CHECKING:
    from examples.stand_ins.scenes import Scene
    from PIL.Image import Image


@dataclass(frozen=True)
class Segmenter:
    """A network from an image to logits ``[1, classes, h, w]``, and what its images need before it."""

    module: nn.Module
    transform: Callable[[Any], Tensor]
    classes: Sequence[str]


class OnlyOut(nn.Module):
    """The logits of a network of torchvision, which gives a dictionary with those of its auxiliary head too."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        """The main head's."""
        logits: Tensor = self.model(images)["out"]
        return logits


def digits() -> Segmenter:
    """The small network that ships with the examples."""
    from examples.stand_ins import segmenter
    from examples.stand_ins.scenes import SIZE
    from torchvision.transforms import v2

    transform = v2.Compose([v2.ToImage(), v2.Resize((SIZE, SIZE)), v2.ToDtype(torch.float32, scale=True)])
    return Segmenter(segmenter.trained(), transform, segmenter.CLASSES)


def of_torchvision(name: str, *, random: bool) -> Segmenter:
    """One of torchvision's networks with its best weights, or with random ones."""
    from torchvision import models

    known = models.list_models(module=models.segmentation)
    if name not in known:
        sys.exit(f"torchvision has no network for segmentation {name!r}; it has {', '.join(known)}")
    weights: Any = models.get_model_weights(name)
    best = weights.DEFAULT
    classes = best.meta["categories"]
    with downloading(f"{name}'s weights", "Leave --model out for the small network, or pass --random."):
        module = models.get_model(
            name, weights=None if random else best, weights_backbone=None, num_classes=len(classes)
        )
    return Segmenter(OnlyOut(module).eval(), best.transforms(), classes)


def segment(segmenter: Segmenter, image: Image) -> Tensor:
    """The class of each pixel, int64 ``[h, w]`` of the image."""
    pixels = segmenter.transform(image).unsqueeze(0)
    logits = exported(segmenter.module, pixels)(pixels)
    resized = functional.interpolate(logits, (image.height, image.width), mode="bilinear", align_corners=False)
    return resized[0].argmax(dim=0)


def shares(mask: Tensor, classes: Sequence[str]) -> dict[str, float]:
    """Of the classes in a mask the share of its pixels, the largest first."""
    counts = torch.bincount(mask.flatten(), minlength=len(classes)) / mask.numel()
    found = {classes[index]: float(counts[index]) for index in counts.argsort(descending=True).tolist()}
    return {name: share for name, share in found.items() if share > 0}


def write_mask(path: Path, image: Image, mask: Tensor, classes: Sequence[str]) -> None:
    """Write the image with each class in a color of its own over it, four times as large if it is small."""
    from torchvision.transforms.v2.functional import pil_to_tensor, to_pil_image
    from torchvision.utils import draw_segmentation_masks

    painted = draw_segmentation_masks(
        pil_to_tensor(image), torch.stack([mask == index for index in range(len(classes))]), alpha=0.6
    )
    scale = 4 if max(image.size) < 200 else 1
    to_pil_image(painted).resize((image.width * scale, image.height * scale), 0).save(path)


def drawn_scene(seed: int) -> tuple[Image, Scene]:
    """A picture with digits that the small networks have not seen, and what is in it."""
    from examples.stand_ins.scenes import Scenes
    from torchvision.transforms.v2.functional import to_pil_image

    scene = Scenes(seed, held_out=True).draw()
    return to_pil_image(scene.image), scene


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the share of each class and write the mask."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("image", nargs="?", type=Path, help="by default a picture with digits is drawn")
    parser.add_argument("--model", help="a network of torchvision's, whose weights are downloaded")
    parser.add_argument("--random", action="store_true", help="random weights for --model: nothing is downloaded")
    parser.add_argument("--seed", type=int, default=5, help="of the picture that is drawn")
    parser.add_argument("-o", "--out", type=Path, default=Path("mask.png"), help="where to write the mask")
    args = parser.parse_args(arguments)
    quiet()
    use_torchvision()
    segmenter = of_torchvision(args.model, random=args.random) if args.model else digits()
    if args.image is None:
        image, scene = drawn_scene(args.seed)
        print(f"a picture with the digits {', '.join(map(str, sorted(scene.labels.tolist())))}")
    else:
        image = open_image(args.image)
    mask = segment(segmenter, image)
    for name, share in shares(mask, segmenter.classes).items():
        print(f"  {share:6.1%}  {name}")
    write_mask(args.out, image, mask, segmenter.classes)
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
