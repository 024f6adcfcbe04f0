"""The short way from a module to a program."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

import executorch_ggml


def test_export_and_load(tmp_path: Path) -> None:
    model = nn.Linear(4, 3).eval()
    shapes = ({0: Dim("rows", max=9)},)
    executorch_ggml.export(model, (torch.randn(2, 4),), dynamic_shapes=shapes).save(str(tmp_path / "model.pte"))
    module = executorch_ggml.load(tmp_path / "model.pte")
    for rows in (9, 1, 4):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(module(x), model(x))


def test_a_dim_without_a_maximum_is_named() -> None:
    with pytest.raises(ValueError, match=r"input input.*, dim 0: .*no maximum.*max="):
        executorch_ggml.export(nn.Linear(4, 3), (torch.randn(2, 4),), dynamic_shapes=({0: Dim("rows")},))


@pytest.mark.parametrize("depthwise", [False, True])
def test_a_batch_of_images_as_large_as_was_declared(depthwise: bool, tmp_path: Path) -> None:
    """Torch's choice of a library for 16 images and more says nothing about the program."""
    path = tmp_path / "model.pte"
    more = [nn.Conv2d(4, 4, 3, groups=4)] if depthwise else []
    model, images = nn.Sequential(nn.Conv2d(3, 4, 3), *more).eval(), torch.randn(32, 3, 8, 8)
    executorch_ggml.export(model, (images[:2],), dynamic_shapes=({0: Dim("batch", max=32)},)).save(str(path))
    torch.testing.assert_close(executorch_ggml.load(path)(images), model(images))


def test_keyword_inputs(tmp_path: Path) -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor, *, y: torch.Tensor) -> torch.Tensor:
            return x * 2 + y

    x, y = torch.randn(3), torch.randn(3)
    executorch_ggml.export(Model(), (x,), kwargs={"y": y}).save(str(tmp_path / "model.pte"))
    torch.testing.assert_close(executorch_ggml.load(tmp_path / "model.pte")(x, y), x * 2 + y)


def test_a_part_without_gradients(tmp_path: Path) -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                y = x.cos()
            return x * y

    x = torch.randn(3)
    executorch_ggml.export(Model(), (x,)).save(str(tmp_path / "model.pte"))
    torch.testing.assert_close(executorch_ggml.load(tmp_path / "model.pte")(x), x * x.cos())


class DropsLayers(nn.Module):
    """Stochastic depth: no op of its graph has a flag for training."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.empty_like(x).bernoulli_(0.5) if self.training else x


class Attention(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(x, x, x, dropout_p=0.1 if self.training else 0.0)


class Branch(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        dropped, kept = (lambda y: F.dropout(y, 0.1, self.training)), (lambda y: y.clone())
        return torch.cond(x.sum() > 0, dropped, kept, (x,))


TRAINED = {
    "dropout": (nn.Dropout(0.2), (2, 3)),
    "dropout of channels": (nn.Dropout2d(0.2), (2, 3, 4, 4)),
    "batch norm": (nn.BatchNorm1d(3), (2, 3)),
    "instance norm": (nn.InstanceNorm1d(3, track_running_stats=True), (2, 3, 4)),
    "recurrent": (nn.LSTM(3, 3, num_layers=2, dropout=0.1), (2, 3)),
    "attention": (Attention(), (1, 2, 4, 8)),
    "layers": (DropsLayers(), (2, 3)),
    "random slopes": (nn.RReLU(), (2, 3)),
    "a branch": (Branch(), (2, 3)),
}


@pytest.mark.parametrize("name", TRAINED)
def test_a_model_in_training_mode_is_refused(name: str) -> None:
    model, shape = TRAINED[name]
    with pytest.raises(ValueError, match=r"training mode.*aten\..*call model\.eval\(\)"):
        executorch_ggml.export(nn.Sequential(model), (torch.randn(shape),))


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (nn.Dropout(0.0), (2, 3)),
        (nn.InstanceNorm1d(3), (2, 3, 4)),
        (nn.GRU(3, 3), (2, 3)),
        (nn.BatchNorm1d(3).eval(), (2, 3)),  # frozen
    ],
    ids=["dropout of none", "instance norm", "recurrent", "frozen batch norm"],
)
def test_training_mode_that_changes_nothing_is_exported(model: nn.Module, shape: tuple[int, ...]) -> None:
    executorch_ggml.export(nn.Sequential(model), (torch.randn(shape),))


def test_a_branch_that_depends_on_values_is_named() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.sum() > 0:  # the line to be named
                return x * 2
            return x

    message = r"test_export.py:\d+, in forward: `if x.sum\(\) > 0:  # the line to be named` depends on the values"
    with pytest.raises(ValueError, match=message):
        executorch_ggml.export(Model(), (torch.randn(3, 3),))


def test_a_size_that_depends_on_values_is_named() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found = x.nonzero()[None]  # the line to be named
            return found * 2

    with pytest.raises(ValueError, match=r"test_export.py:\d+, in forward: `found = x.nonzero\(\)\[None\]"):
        executorch_ggml.export(Model(), (torch.randn(3, 3),))
