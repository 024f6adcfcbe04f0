"""Pictures with handwritten digits in them: scikit-learn's digits, written over crops of its two photographs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from examples.common import need
from torch import Tensor
from torch.nn import functional

SIZE = 64  # pixels of a picture's sides
DIGITS = (2, 3, 4)  # how many a picture may have
SIDES = (18, 28)  # pixels of the smallest and the largest square that a digit is drawn in
BACKGROUND = 10  # the class of what is no digit


@dataclass(frozen=True)
class Scene:
    """A picture ``[3, 64, 64]`` of 0 to 1, what each pixel shows, and a box (x1, y1, x2, y2) and a label a digit."""

    image: Tensor
    classes: Tensor
    boxes: Tensor
    labels: Tensor


def photographs() -> list[Path]:
    """The two sample images that scikit-learn has."""
    need("sklearn")
    import sklearn.datasets

    folder = Path(sklearn.datasets.__file__).parent / "images"
    return [folder / "china.jpg", folder / "flower.jpg"]


class Scenes:
    """Draws scenes, the same ones for a seed; those of ``held_out`` have handwriting that the others have not."""

    def __init__(self, seed: int, *, held_out: bool = False) -> None:
        need("sklearn")
        from sklearn.datasets import load_digits, load_sample_images

        data = load_digits()
        chosen = (np.arange(len(data.target)) % 5 == 0) == held_out
        self._digits = torch.from_numpy(data.images[chosen].astype(np.float32) / 16)
        self._labels = data.target[chosen]
        self._photographs = [torch.tensor(image).permute(2, 0, 1) / 255 for image in load_sample_images().images]
        self._random = np.random.default_rng(seed)

    def draw(self) -> Scene:
        """One more scene."""
        image = self._backdrop()
        classes = torch.full((SIZE, SIZE), BACKGROUND)
        boxes: list[tuple[int, int, int, int]] = []
        labels: list[int] = []
        for _ in range(self._random.choice(DIGITS)):
            place = self._free_square(boxes)
            if place is not None:
                box, label = self._write_digit(image, classes, *place)
                boxes.append(box)
                labels.append(label)
        return Scene(image, classes, torch.tensor(boxes, dtype=torch.float32), torch.tensor(labels))

    def _backdrop(self) -> Tensor:
        photograph = self._photographs[self._random.integers(len(self._photographs))]
        top, left = (int(self._random.integers(size - 2 * SIZE)) for size in photograph.shape[1:])
        crop = photograph[:, top : top + 2 * SIZE, left : left + 2 * SIZE]
        return functional.avg_pool2d(crop, 2)

    def _free_square(self, boxes: list[tuple[int, int, int, int]]) -> tuple[int, int, int] | None:
        """A square (left, top, side) that overlaps no digit; none where ten tries find none."""
        for _ in range(10):
            side = int(self._random.integers(*SIDES, endpoint=True))
            left, top = (int(value) for value in self._random.integers(SIZE - side, size=2))
            if all(left >= x2 or left + side <= x1 or top >= y2 or top + side <= y1 for x1, y1, x2, y2 in boxes):
                return left, top, side
        return None

    def _write_digit(
        self, image: Tensor, classes: Tensor, left: int, top: int, side: int
    ) -> tuple[tuple[int, int, int, int], int]:
        """Write a digit into a picture and its map of classes; its box is what its ink covers."""
        index = int(self._random.integers(len(self._labels)))
        strokes = functional.interpolate(self._digits[index][None, None], (side, side), mode="bilinear")[0, 0]
        ink = torch.from_numpy(self._random.uniform(0.75, 1.0, 3).astype(np.float32))
        square = (slice(top, top + side), slice(left, left + side))
        patch = image[:, square[0], square[1]]
        if patch.mean() > 0.5:
            ink = 1 - ink  # dark where it is light
        patch += strokes * (ink[:, None, None] - patch)
        written = strokes > 0.4
        label = int(self._labels[index])
        classes[square][written] = label
        rows, columns = (torch.nonzero(written.any(dim=dim)).flatten() for dim in (1, 0))
        box = (left + int(columns[0]), top + int(rows[0]), left + int(columns[-1]) + 1, top + int(rows[-1]) + 1)
        return box, label
