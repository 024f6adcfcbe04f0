"""What a quantization costs: per tensor its size and error, for the whole model how far its answers move."""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd

from ..frontends.aten.weights import check_values
from ..ir.codec import dequantize
from ..ir.dtypes import DType
from ..progress import counted
from .config import GgmlQuantConfig
from .importance import Args, arguments, call, used_weights


@dataclass(frozen=True)
class TensorReport:
    """One parameter: its type and size before and after, the relative error of its values, and what is to be said.

    Where the configuration has an importance matrix for it, columns count by their mean squared inputs: the error is
    then that of the layer's output, were the columns of its input not correlated.
    """

    name: str
    shape: tuple[int, ...]
    type: str
    bytes: int
    bytes_before: int
    error: float  # root of the mean square of the difference, over that of the values
    note: str = ""


@dataclass(frozen=True)
class Quality:
    """A model's answers beside another's: over how many positions, how far apart, and how often the best one agrees."""

    positions: int
    kl: float  # mean divergence of the answers from the reference's, in nats
    kl_max: float
    top1: float  # how often the most likely one is the same

    def __str__(self) -> str:
        return (
            f"over {self.positions} positions: KL divergence {self.kl:.3g} (largest {self.kl_max:.3g}), "
            f"top-1 agreement {self.top1:.2%}"
        )


@dataclass(frozen=True)
class QuantReport:
    """Of all weights that a configuration decides on; prints as a table. ``quality`` where inputs were given."""

    tensors: tuple[TensorReport, ...]
    quality: Quality | None = None
    unmatched: tuple[str, ...] = field(default=())  # globs of the configuration that match no parameter

    @property
    def bytes(self) -> int:
        """Size of the weights as they are stored."""
        return sum(tensor.bytes for tensor in self.tensors)

    @property
    def bytes_before(self) -> int:
        """Size of the weights as the module has them."""
        return sum(tensor.bytes_before for tensor in self.tensors)

    @property
    def bits_per_weight(self) -> float:
        """Bits that a weight takes on average."""
        return 8 * self.bytes / max(sum(math.prod(tensor.shape) for tensor in self.tensors), 1)

    def __str__(self) -> str:
        rows = [("parameter", "shape", "type", "KiB", "of", "error", "")]
        for tensor in self.tensors:
            shape = "x".join(map(str, tensor.shape))
            sizes = (f"{tensor.bytes / 1024:.1f}", f"{tensor.bytes_before / 1024:.1f}")
            rows.append((tensor.name, shape, tensor.type, *sizes, f"{tensor.error:.2%}", tensor.note))
        widths = [max(len(row[column]) for row in rows) for column in range(6)]
        lines = [line_of_table(row, widths, names=3) for row in rows]
        share = self.bytes / max(self.bytes_before, 1)
        size = f"{self.bytes / 2**20:.2f} MiB of {self.bytes_before / 2**20:.2f} ({share:.1%})"
        lines.append(f"{size}, {self.bits_per_weight:.2f} bits a weight")
        lines += [str(self.quality)] if self.quality is not None else []
        lines += [f"no parameter is called {glob!r}" for glob in self.unmatched]
        return "\n".join(line.rstrip() for line in lines)


def line_of_table(cells: Sequence[str], widths: Sequence[int], names: int) -> str:
    """A row of a table: names to the left, numbers to the right, and what is to be said of it after them."""
    padded = [
        cell.ljust(width) if column < names else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=False))
    ]
    return "  ".join([*padded, *cells[len(widths) :]])


def report(
    model: nn.Module,
    config: GgmlQuantConfig | str,
    inputs: Iterable[Args] = (),
    *,
    program: Callable[..., Any] | None = None,
    example: Args | None = None,
) -> QuantReport:
    """Report on what a configuration makes of a model's weights.

    With ``inputs``, each the arguments of a call, also on its answers, the last dim being what is chosen from: those of
    the module with dequantized weights, or of ``program`` where one is given, such as what ``executorch_ggml.load``
    returns, beside those of the module as it is. Where there are none, ``example`` may be the arguments of a call that
    uses all weights (see :func:`quantizable`).
    """
    chosen = GgmlQuantConfig.of(config)
    check_values(model)
    calls = list(inputs)
    args, kwargs = arguments(calls[0] if calls else () if example is None else example)
    tensors = tensor_reports(model, chosen, *args, **kwargs)
    quality = None
    if calls:
        other = program if program is not None else dequantized(model, chosen, *args, **kwargs)
        quality = compare(model, other, calls)
    known = [name for name, _ in model.named_parameters(remove_duplicate=False)]
    return QuantReport(tensors, quality, tuple(chosen.unmatched(known)))


def tensor_reports(model: nn.Module, config: GgmlQuantConfig, *args: Any, **kwargs: Any) -> tuple[TensorReport, ...]:
    """What a configuration makes of each weight that :func:`quantizable` names for the arguments of a call."""
    weights = _weights(model, *args, **kwargs).items()
    return tuple(_stored(config, model, name, by_columns)[1] for name, by_columns in counted("quantizing", weights))


def quantizable(model: nn.Module, *args: Any, **kwargs: Any) -> list[str]:
    """The names of the weights that can be stored in another type: of linear layers, experts and embeddings.

    With the arguments of a call, those that the call uses; else those of the layers that are known as such.
    """
    return list(_weights(model, *args, **kwargs))


def _weights(model: nn.Module, *args: Any, **kwargs: Any) -> dict[str, bool]:
    """What :func:`quantizable` names, and whether it is the columns that are multiplied with."""
    if args or kwargs:
        return used_weights(model, *args, **kwargs)
    transformers = sys.modules.get("transformers.pytorch_utils")
    by_columns = () if transformers is None else (transformers.Conv1D,)
    layers = (nn.Linear, nn.Embedding, *by_columns)
    owners = {id(module.weight): module for module in model.modules() if isinstance(module, layers)}
    found = {name: owners.get(id(parameter)) for name, parameter in model.named_parameters()}
    return {name: isinstance(owner, by_columns) for name, owner in found.items() if owner is not None}


def dequantized(model: nn.Module, config: GgmlQuantConfig | str, *args: Any, **kwargs: Any) -> nn.Module:
    """A copy of a model whose weights are what a quantization leaves of them.

    With the arguments of a call, the weights that the call uses; else those of linear layers and embeddings.
    """
    check_values(model)
    chosen = GgmlQuantConfig.of(config)
    made = copy.deepcopy(model)
    for name, by_columns in counted("quantizing", _weights(model, *args, **kwargs).items()):
        with torch.no_grad():
            made.get_parameter(name).copy_(_stored(chosen, model, name, by_columns)[0])
    return made


def _stored(
    config: GgmlQuantConfig, model: nn.Module, name: str, by_columns: bool
) -> tuple[torch.Tensor, TensorReport]:
    """A parameter as it comes back from its stored form, and the report on it."""
    own: torch.Tensor = model.get_parameter(name)
    parameter = own.t() if by_columns else own
    shape, before = tuple(parameter.shape), parameter.nbytes
    note = config.choice(name, shape).note
    stored = config.find(name, parameter)
    if stored is None:
        known = DType.from_torch(parameter.dtype)
        kind = known.name.lower() if known is not None else str(parameter.dtype).removeprefix("torch.")
        return own, TensorReport(name, shape, kind, before, before, 0.0, note)
    dtype = stored.dtype
    if dtype.is_quantized and isinstance(model.get_submodule(name.rpartition(".")[0]), _ConvNd):
        dtype, note = DType.F16, f"not {dtype.name.lower()}: packed for convolutions, which has no blocks"
    data = config.encoded(name, parameter, dtype)
    values = dequantize(data, dtype, shape)
    error = relative_error(values, parameter.detach(), config.importance.find(name, shape))
    values = values.t() if by_columns else values
    return values, TensorReport(name, shape, dtype.name.lower(), data.numel(), before, error, note)


def relative_error(values: torch.Tensor, reference: torch.Tensor, importance: torch.Tensor | None = None) -> float:
    """The root of the mean square of the difference, over that of the reference; columns count by their importance."""
    exact = reference.double().contiguous()  # so that sums do not depend on how it lies
    difference, squares = (values.double() - exact).square().contiguous(), exact.square()
    if importance is not None:  # [columns], or of experts [matrices, columns]
        weights = importance.double() if importance.dim() == 1 else importance.double().unsqueeze(1)
        difference, squares = difference * weights, squares * weights
    return float((difference.sum() / squares.sum().clamp_min(1e-300)).sqrt())


def compare(reference: Callable[..., Any], other: Callable[..., Any], inputs: Iterable[Args]) -> Quality:
    """The answers of two models to the same inputs: distributions over the last dim of the first output, as logits."""
    positions, total, largest, agreed = 0, 0.0, 0.0, 0
    with torch.no_grad():
        for args in counted("comparing answers", inputs):
            wanted, given = (_logits(call(model, args)).log_softmax(-1) for model in (reference, other))
            kl = (wanted.exp() * (wanted - given)).nan_to_num(0.0).sum(-1)  # 0 * (-inf - -inf) is nothing
            positions += len(kl)
            total += float(kl.sum())
            largest = max(largest, float(kl.max()))
            agreed += int((wanted.argmax(-1) == given.argmax(-1)).sum())
    return Quality(positions, total / max(positions, 1), largest, agreed / max(positions, 1))


def _logits(output: Any) -> torch.Tensor:
    """The first output, as rows in double precision: a small divergence is a difference of nearly equal numbers."""
    output = getattr(output, "logits", output)
    first = output[0] if isinstance(output, (tuple, list)) else output
    return torch.as_tensor(first).double().reshape(-1, first.shape[-1])
