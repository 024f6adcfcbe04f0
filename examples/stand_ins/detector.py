"""A detector as YOLO's later versions have it: a grid without anchors, each cell with a box and a score a class."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torchvision.ops import generalized_box_iou_loss

from .scenes import Scene, Scenes
from .segmenter import block
from .training import fit, restore, save

NAME = "detector"
CLASSES = tuple(str(digit) for digit in range(10))
STRIDE = 8  # pixels of a cell's sides


class DetectionNet(nn.Module):
    """``images [b, 3, h, w] -> (boxes [b, cells, 4], scores [b, cells, 10])``: each cell's, NMS is to pick among them.

    Boxes are x1, y1, x2, y2 in pixels.
    """

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.features = nn.Sequential(
            block(3, width, 2),
            block(width, 2 * width, 2),
            block(2 * width, 3 * width, 2),
            block(3 * width, 3 * width),
            block(3 * width, 3 * width),
        )
        self.head = nn.Conv2d(3 * width, 4 + 1 + len(CLASSES), 1)

    def raw(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Boxes, logits of there being an object, and logits of its class."""
        grid = self.head(self.features(images))
        height, width = grid.shape[-2:]
        y = (torch.arange(height).reshape(-1, 1) + 0.5) * STRIDE
        x = (torch.arange(width).reshape(1, -1) + 0.5) * STRIDE
        left, top, right, bottom = (functional.softplus(side) * STRIDE for side in grid[:, :4].unbind(1))
        boxes = torch.stack([x - left, y - top, x + right, y + bottom], dim=1)
        flat = torch.cat([boxes, grid[:, 4:]], dim=1).flatten(2).transpose(1, 2)
        return flat[..., :4], flat[..., 4], flat[..., 5:]

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """The boxes with their scores: that there is an object, times that it is of a class."""
        boxes, objects, classes = self.raw(images)
        return boxes, objects.sigmoid().unsqueeze(-1) * classes.softmax(-1)


def trained() -> nn.Module:
    """The network with the weights that ship with it."""
    return restore(DetectionNet(), NAME)


def targets(scene: Scene) -> Tensor:
    """Of each cell the number of the digit that it is to find, or -1: its center is in the middle of that's box."""
    height, width = (size // STRIDE for size in scene.image.shape[1:])
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    centers = torch.stack([x, y], dim=-1).reshape(-1, 1, 2) * STRIDE + STRIDE / 2
    middles = (scene.boxes[:, :2] + scene.boxes[:, 2:]) / 2
    distances = (centers - middles).abs().amax(dim=-1)  # [cells, digits]
    nearest, digit = distances.min(dim=1)
    return torch.where(nearest <= 0.75 * STRIDE, digit, -1)


def train(steps: int = 2500, batch: int = 16) -> tuple[DetectionNet, float]:
    """A network, and its last loss."""
    torch.manual_seed(0)
    scenes = Scenes(0)
    model = DetectionNet()

    def loss(_: int) -> Tensor:
        drawn = [scene for scene in (scenes.draw() for _ in range(batch)) if len(scene.labels)]
        images = torch.stack([scene.image for scene in drawn]).contiguous(memory_format=torch.channels_last)
        boxes, objects, classes = model.raw(images)
        found = torch.stack([targets(scene) for scene in drawn])
        wanted = found >= 0
        parts = [(scene, digits[digits >= 0]) for scene, digits in zip(drawn, found, strict=True)]
        true_boxes = torch.cat([scene.boxes[digits] for scene, digits in parts])
        true_labels = torch.cat([scene.labels[digits] for scene, digits in parts])
        box_loss = generalized_box_iou_loss(boxes[wanted], true_boxes, reduction="mean")
        object_loss = functional.binary_cross_entropy_with_logits(objects, wanted.float(), reduction="none").mean() * 4
        total: Tensor = object_loss + box_loss + functional.cross_entropy(classes[wanted], true_labels)
        return total

    return model, fit(model, loss, steps=steps, rate=8e-3)


def main() -> None:
    """Train and write the weights."""
    print(save(train()[0], NAME))
