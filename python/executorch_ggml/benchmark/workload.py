"""What is timed: a model with its inputs, or a program that is a file already."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten


@dataclass(frozen=True)
class Workload:
    """A module and the inputs that it is timed on."""

    module: nn.Module | None
    """In f32; None for a program whose module is not known."""
    args: tuple[Tensor, ...]
    examples: tuple[Tensor, ...] | None = None
    """What ours is exported with, where that is not `args`: its dynamic sizes are not 1."""
    dynamic_shapes: Any = None
    int8: nn.Module | None = None
    """The quantized module, with the static shapes of `args`, that is run in place of `module`."""
    calibration: Sequence[tuple[Tensor, ...]] = ()
    """What it was quantized with."""
    step: float | None = None
    """How far apart two neighbouring numbers of its output are, if that is quantized."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What ours is exported with beside."""
    program: Path | None = None
    """The program of ours, where there is one already."""

    @property
    def reference(self) -> nn.Module:
        """What eager runs. Raises ValueError where there is no module."""
        module = self.module if self.int8 is None else self.int8
        if module is None:
            raise ValueError(f"{self.program} has no module of PyTorch")
        return module


class Add(nn.Module):
    """The smallest program: one node."""

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return left + right


def one_node() -> Workload:
    """The program that each process loads first, to start its libraries and threads."""
    generator = torch.Generator().manual_seed(0)
    return Workload(Add().eval(), (torch.randn(4, generator=generator), torch.randn(4, generator=generator)))


class Flat(nn.Module):
    """A module that takes tensors alone, in order, and returns a tuple of tensors: every engine is called so."""

    def __init__(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        super().__init__()
        self.module = module
        self.training = module.training  # by itself: exported modules refuse eval()
        leaves, self.spec = tree_flatten((args, dict(kwargs)))
        self.others = [None if isinstance(leaf, Tensor) else (leaf,) for leaf in leaves]
        """What an input is that is no tensor, in a tuple, as it may be None."""

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        rest = iter(tensors)
        leaves = [next(rest) if other is None else other[0] for other in self.others]
        args, kwargs = tree_unflatten(leaves, self.spec)
        return tuple(leaf for leaf in tree_leaves(self.module(*args, **kwargs)) if isinstance(leaf, Tensor))


class Exported(nn.Module):
    """The module of a .pt2 file's contents, which it is pickled as: what `torch.export` makes cannot be pickled."""

    def __init__(self, contents: bytes) -> None:
        super().__init__()
        self.contents = contents
        self.module = torch.export.load(io.BytesIO(contents)).module()
        self.training = False

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def __reduce__(self) -> tuple[type[Exported], tuple[bytes]]:
        return Exported, (self.contents,)


def flat(module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The module as a `Flat` one, and the tensors among its inputs."""
    tensors = tuple(leaf for leaf in tree_leaves((args, dict(kwargs))) if isinstance(leaf, Tensor))
    return Flat(module, args, kwargs), tensors
