"""Where things are in an image: the network gives a box and scores for each cell, torchvision's NMS picks among them.

python examples/detect.py                             a small YOLO-like network on digits written over a photograph
python examples/detect.py --model ssdlite320_mobilenet_v3_large IMAGE         SSD of torchvision, downloaded
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

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from examples.common import downloading, exported, open_image, quiet, use_torchvision

if TYPE_CHECKING:
    from PIL.Image import Image

SSDS = ("ssd300_vgg16", "ssdlite320_mobilenet_v3_large")
OVERLAP = 0.45  # of two boxes (intersection over union) that are taken for the same thing


@dataclass(frozen=True)
class Detector:
    """A network from an image to ``(boxes [1, n, 4], scores [1, n, classes])``, boxes as x1, y1, x2, y2 in pixels."""

    module: nn.Module
    transform: Callable[[Any], Tensor]
    classes: Sequence[str]


@dataclass(frozen=True)
class Found:
    """A thing in an image."""

    label: str
    score: float
    box: tuple[float, float, float, float]


class Ssd(nn.Module):
    """An SSD of torchvision up to its boxes and scores: the rest, with NMS in it, is left outside."""

    anchors: Tensor

    def __init__(self, model: Any, example: Tensor) -> None:
        super().__init__()
        from torchvision.models.detection.image_list import ImageList

        self.backbone, self.head, self.box_coder = model.backbone, model.head, model.box_coder
        with torch.inference_mode():
            features = list(self.backbone(example).values())
            sizes = [(example.shape[2], example.shape[3])]
            anchors = model.anchor_generator(ImageList(example, sizes), features)[0]
        self.register_buffer("anchors", anchors.clone())

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """The boxes and the scores of each anchor."""
        outputs = self.head(list(self.backbone(images).values()))
        boxes = self.box_coder.decode_single(outputs["bbox_regression"][0], self.anchors)
        return boxes.unsqueeze(0), outputs["cls_logits"].softmax(-1)[..., 1:]  # the first class is the background


def digits() -> Detector:
    """The small network that ships with the examples."""
    from examples.stand_ins import detector
    from examples.stand_ins.scenes import SIZE
    from torchvision.transforms import v2

    transform = v2.Compose([v2.ToImage(), v2.Resize((SIZE, SIZE)), v2.ToDtype(torch.float32, scale=True)])
    return Detector(detector.trained(), transform, detector.CLASSES)


def of_torchvision(name: str, *, random: bool) -> Detector:
    """An SSD of torchvision with its best weights, or with random ones."""
    from torchvision import models
    from torchvision.transforms import v2

    if name not in SSDS:
        sys.exit(f"{name!r}: expected one of {', '.join(SSDS)}")
    weights: Any = models.get_model_weights(name)
    best = weights.DEFAULT
    with downloading(f"{name}'s weights", "Leave --model out for the small network, or pass --random."):
        model: Any = models.get_model(name, weights=None if random else best, weights_backbone=None).eval()
    size, rule = model.transform.fixed_size, model.transform
    transform = v2.Compose(
        [
            v2.ToImage(),
            v2.Resize(size[::-1]),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(rule.image_mean, rule.image_std),
        ]
    )
    module = Ssd(model, torch.zeros(1, 3, *size[::-1])).eval()
    return Detector(module, transform, best.meta["categories"][1:])


def detect(detector: Detector, image: Image, least: float) -> list[Found]:
    """What is in an image with a score of ``least`` or more, the most certain first."""
    pixels = detector.transform(image).unsqueeze(0)
    boxes, scores = exported(detector.module, pixels)(pixels)
    scale = torch.tensor([image.width / pixels.shape[3], image.height / pixels.shape[2]]).repeat(2)
    return picked(boxes[0] * scale, scores[0], detector.classes, least)


def picked(boxes: Tensor, scores: Tensor, classes: Sequence[str], least: float) -> list[Found]:
    """Of the boxes that overlap those with the highest score, by torchvision's NMS, whatever their classes are."""
    from torchvision.ops import nms

    best, labels = scores.max(dim=1)
    certain = best >= least
    boxes, best, labels = boxes[certain], best[certain], labels[certain]
    return [
        Found(classes[int(labels[index])], float(best[index]), tuple(boxes[index].tolist()))
        for index in nms(boxes, best, OVERLAP).tolist()
    ]


def write_boxes(path: Path, image: Image, found: Sequence[Found]) -> None:
    """Write the image with the boxes over it, four times as large if it is small."""
    from torchvision.transforms.v2.functional import pil_to_tensor, to_pil_image
    from torchvision.utils import draw_bounding_boxes

    scale = 4 if max(image.size) < 200 else 1
    large = pil_to_tensor(image.resize((image.width * scale, image.height * scale), 0))
    boxes = torch.tensor([each.box for each in found]).reshape(-1, 4) * scale
    labels = [f"{each.label} {each.score:.0%}" for each in found]
    to_pil_image(draw_bounding_boxes(large, boxes, labels, colors="red", width=2)).save(path)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the boxes and write the image with them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("image", nargs="?", type=Path, help="by default a picture with digits is drawn")
    parser.add_argument(
        "--model", help=f"a network of torchvision's, whose weights are downloaded: {' or '.join(SSDS)}"
    )
    parser.add_argument("--random", action="store_true", help="random weights for --model: nothing is downloaded")
    parser.add_argument("--least", type=float, default=0.4, help="the score from which on a box is shown")
    parser.add_argument("--seed", type=int, default=5, help="of the picture that is drawn")
    parser.add_argument("-o", "--out", type=Path, default=Path("boxes.png"), help="where to write the image with boxes")
    args = parser.parse_args(arguments)
    quiet()
    use_torchvision()
    from examples.segment import drawn_scene

    detector = of_torchvision(args.model, random=args.random) if args.model else digits()
    if args.image is None:
        image, scene = drawn_scene(args.seed)
        print(f"a picture with the digits {', '.join(map(str, sorted(scene.labels.tolist())))}")
    else:
        image = open_image(args.image)
    found = detect(detector, image, args.least)
    for each in found:
        print(f"  {each.score:6.1%}  {each.label:12}  at {', '.join(f'{value:.0f}' for value in each.box)}")
    write_boxes(args.out, image, found)
    print(f"{len(found)} found; wrote {args.out}")


if __name__ == "__main__":
    main()
