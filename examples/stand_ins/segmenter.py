"""A U-Net that says of each pixel of a scene which digit it belongs to."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from .scenes import BACKGROUND, Scenes
from .training import fit, restore, save

NAME = "segmenter"
CLASSES = (*(f"digit {digit}" for digit in range(10)), "background")


def block(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    """A convolution of 3x3, batch norm and ReLU."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)
    )


class SegmentationNet(nn.Module):
    """``images [b, 3, h, w] -> logits [b, 11, h, w]``; height and width are multiples of 8."""

    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.stem = block(3, width)
        self.down = nn.ModuleList(
            nn.Sequential(block(inputs, outputs, 2), block(outputs, outputs))
            for inputs, outputs in ((width, 2 * width), (2 * width, 3 * width), (3 * width, 3 * width))
        )
        self.up = nn.ModuleList(
            block(inputs, outputs)
            for inputs, outputs in ((6 * width, 3 * width), (5 * width, 2 * width), (3 * width, 2 * width))
        )
        self.head = nn.Conv2d(2 * width, len(CLASSES), 1)

    def forward(self, images: Tensor) -> Tensor:
        """Go down to an eighth of the size, and up again beside what was there."""
        x = self.stem(images)
        skipped = []
        for down in self.down:
            skipped.append(x)
            x = down(x)
        for up in self.up:
            larger = functional.interpolate(x, scale_factor=2.0, mode="nearest")
            x = up(torch.cat([larger, skipped.pop()], dim=1))
        logits: Tensor = self.head(x)
        return logits


def trained() -> nn.Module:
    """The network with the weights that ship with it."""
    return restore(SegmentationNet(), NAME)


def train(steps: int = 1500, batch: int = 16) -> tuple[SegmentationNet, float]:
    """A network, and its last loss."""
    torch.manual_seed(0)
    scenes = Scenes(0)
    model = SegmentationNet()
    weights = torch.ones(len(CLASSES))
    weights[BACKGROUND] = 0.2  # nine pixels in ten

    def loss(_: int) -> Tensor:
        drawn = [scenes.draw() for _ in range(batch)]
        images = torch.stack([scene.image for scene in drawn]).contiguous(memory_format=torch.channels_last)
        return functional.cross_entropy(model(images), torch.stack([scene.classes for scene in drawn]), weights)

    return model, fit(model, loss, steps=steps, rate=8e-3)


def main() -> None:
    """Train and write the weights."""
    print(save(train()[0], NAME))
