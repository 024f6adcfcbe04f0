"""A small convolutional network for scikit-learn's handwritten digits."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

EPOCHS = 12
BATCH = 64


class Digits(NamedTuple):
    """1797 images of 8x8 pixels, four fifths of them to learn from."""

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor


def load_digits() -> Digits:
    """The images, scaled to 0..1, in a split that is the same every time."""
    from sklearn.datasets import load_digits as sklearn_digits
    from sklearn.model_selection import train_test_split

    data = sklearn_digits()
    images = (data.images / 16.0).astype("float32")
    parts = train_test_split(images, data.target, test_size=0.2, random_state=0, stratify=data.target)
    train_images, test_images, train_labels, test_labels = (torch.from_numpy(part) for part in parts)
    return Digits(train_images.unsqueeze(1), train_labels, test_images.unsqueeze(1), test_labels)


class DigitNet(nn.Module):
    """Three convolutions with batch norm, a pooling between each two, and a linear layer."""

    def __init__(self, width: int = 32, classes: int = 10) -> None:
        super().__init__()
        self.features = nn.Sequential(
            *self._block(1, width),
            nn.MaxPool2d(2),
            *self._block(width, 2 * width),
            nn.MaxPool2d(2),
            *self._block(2 * width, 2 * width),
        )
        self.classifier = nn.Linear(2 * width, classes)

    @staticmethod
    def _block(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
        return nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.features(images).mean(dim=(2, 3)))
        return logits


def train(digits: Digits) -> DigitNet:
    """Train the network for a few seconds."""
    torch.manual_seed(0)
    model = DigitNet()
    # Steps this small take longer to be shared out than to be done.
    torch.set_num_threads(1)
    steps = EPOCHS * -(-len(digits.train_images) // BATCH)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=6e-3, total_steps=steps)
    model.train()
    for _ in range(EPOCHS):
        for index in torch.split(torch.randperm(len(digits.train_images)), BATCH):
            loss = functional.cross_entropy(model(digits.train_images[index]), digits.train_labels[index])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call] # torch has no types for it
            optimizer.step()
            schedule.step()
    return model.eval()


def accuracy(logits: Tensor, labels: Tensor) -> float:
    """The share of the images whose digit was recognized."""
    return float((logits.argmax(dim=1) == labels).float().mean())
