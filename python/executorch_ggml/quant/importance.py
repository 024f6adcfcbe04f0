"""Importance matrices: how much each input column of a weight matters, measured on calibration inputs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ..frontends.aten.ops.experts import expert_linear
from ..ir.dtypes import DType
from ..progress import counted
from ..runtime.gguf_file import GgufFile, GgufTensor

aten = torch.ops.aten

SUMS, COUNTS = ".in_sum2", ".counts"  # llama.cpp's names of an entry's two tensors


Args = Sequence[Any] | Mapping[str, Any] | torch.Tensor  # of a call: in their order, by name, or a single one


def call(model: Callable[..., Any], call_args: Args) -> Any:
    """What a model answers."""
    args, kwargs = arguments(call_args)
    return model(*args, **kwargs)


def arguments(call_args: Args) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Those by place, and those by name."""
    if isinstance(call_args, Mapping):
        return (), dict(call_args)
    return ((call_args,) if isinstance(call_args, torch.Tensor) else tuple(call_args)), {}


@dataclass(frozen=True)
class Entry:
    """Of one parameter, per matrix (experts have several): the sums of squared inputs by column, over how many rows."""

    sums: torch.Tensor  # f32 [matrices, columns]
    counts: torch.Tensor  # f32 [matrices]

    @property
    def means(self) -> torch.Tensor:
        """The mean squares by column; 1 for a matrix that no input reached, as llama.cpp has it."""
        reached = self.counts.unsqueeze(1) > 0
        return torch.where(reached, self.sums / self.counts.unsqueeze(1).clamp_min(1), 1.0)

    def __add__(self, other: Entry) -> Entry:
        return Entry(self.sums + other.sums, self.counts + other.counts)


@dataclass(frozen=True)
class Importance:
    """Importance matrices by parameter name. Empty by default: then all columns matter alike."""

    entries: Mapping[str, Entry] = field(default_factory=dict)
    datasets: tuple[str, ...] = ()

    def __contains__(self, name: str) -> bool:
        return name in self.entries

    def find(self, name: str, shape: Sequence[int]) -> torch.Tensor | None:
        """A parameter's mean squared inputs: by column, or for experts by matrix and column. None where unknown."""
        entry = self.entries.get(name)
        if entry is None:
            return None
        matrices, columns = (int(shape[0]) if len(shape) == 3 else 1), int(shape[-1])
        if tuple(entry.sums.shape) != (matrices, columns):
            raise ValueError(
                f"{name}: the importance matrix has {list(entry.sums.shape)} numbers, expected {[matrices, columns]} "
                f"for a parameter of shape {list(shape)}; was it collected from another model?"
            )
        return entry.means if len(shape) == 3 else entry.means[0]

    def renamed(self, names: Mapping[str, str | Sequence[str]]) -> Importance:
        """With other names for the parameters, as between PyTorch's and llama.cpp's; those not named keep theirs.

        A parameter that llama.cpp has in two parts has its matrix under several names.
        """
        several = {name: [other] if isinstance(other, str) else other for name, other in names.items()}
        entries = {other: entry for name, entry in self.entries.items() for other in several.get(name, [name])}
        return Importance(entries, self.datasets)

    # -------------------------------------------------------------------------------------------------- collecting

    @classmethod
    def collect(cls, model: torch.nn.Module, inputs: Iterable[Args]) -> Importance:
        """Run a model on calibration inputs, each the arguments of a call, and measure what its weights are given.

        A parameter of several names, as a tied head is, has its matrix under each of them.
        """
        with observed(model) as seen, torch.no_grad():
            for args in counted("calibrating", inputs):
                call(model, args)
        first = {id(parameter): name for name, parameter in model.named_parameters()}
        names = {name: first[id(parameter)] for name, parameter in model.named_parameters(remove_duplicate=False)}
        entries = {name: seen.entries.get(name_of_first) for name, name_of_first in names.items()}
        return cls({name: entry for name, entry in entries.items() if entry is not None})

    # --------------------------------------------------------------------------------------------------- as a file

    def save(self, path: str | Path, *, chunk_size: int = 512) -> None:
        """Write llama.cpp's GGUF form."""
        from gguf import GGUFWriter

        writer = GGUFWriter(path, arch="imatrix")
        writer.kv_data[0].pop("general.architecture")
        writer.add_type("imatrix")
        writer.add_array("imatrix.datasets", list(self.datasets))
        rows = max((float(entry.counts.max()) for entry in self.entries.values()), default=0.0)
        writer.add_uint32("imatrix.chunk_count", -(-int(rows) // chunk_size))
        writer.add_uint32("imatrix.chunk_size", chunk_size)
        for name, entry in sorted(self.entries.items()):
            writer.add_tensor(name + SUMS, entry.sums.numpy())
            writer.add_tensor(name + COUNTS, entry.counts.unsqueeze(1).numpy())
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()

    @classmethod
    def load(cls, path: str | Path, names: Mapping[str, str | Sequence[str]] | None = None) -> Importance:
        """Read llama.cpp's GGUF form; ``names`` gives the parameters' names by those in the file."""
        file = GgufFile(path)
        if file.field("general.type", str, "") != "imatrix":
            raise ValueError(f"{path} is no importance matrix: its general.type is not 'imatrix'")
        tensors = {name: _values(tensor) for name, tensor in file.tensors.items()}
        entries = {}
        for name in (key.removesuffix(SUMS) for key in tensors if key.endswith(SUMS)):
            sums, counts = tensors[name + SUMS], tensors.get(name + COUNTS)
            matrices = sums.reshape(-1, sums.shape[-1])
            if counts is None or counts.numel() != len(matrices):
                raise ValueError(f"{path}: {name} has sums of {len(matrices)} matrices, and not as many counts")
            entries[name] = Entry(matrices, counts.reshape(-1))
        datasets = file.values("imatrix.datasets", str) if "imatrix.datasets" in file.metadata else []
        made = cls(entries, tuple(datasets))
        return made.renamed(names or {})


def _values(tensor: GgufTensor) -> torch.Tensor:
    if tensor.dtype != DType.F32:
        raise tensor.file.error(f"tensor {tensor.name} is {tensor.dtype.name.lower()}, expected f32")
    return tensor.data.view(torch.float32).reshape(tensor.shape).clone()


# ------------------------------------------------------------------------------------------------------- observing


@dataclass(frozen=True)
class _Place:
    """A parameter by its storage: a view of it, as of one expert's matrix, is told by its offset."""

    name: str
    parameter: torch.Tensor

    @property
    def matrices(self) -> int:
        return int(self.parameter.shape[0]) if self.parameter.dim() == 3 else 1

    def matrix_of(self, view: torch.Tensor) -> int:
        """Which of the parameter's matrices a view begins in."""
        offset = view.storage_offset() - self.parameter.storage_offset()
        return offset * self.matrices // max(self.parameter.numel(), 1)


class Observer(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch has no types for it
    """Sees every product with a parameter, and every look-up in one, whichever module or function makes it.

    ``entries`` has the parameters by name, in the order of their first use; None for those of embeddings, whose inputs
    are no numbers, and of convolutions, which are kept in half types at the least. ``by_columns`` names those that are
    not multiplied with by their rows but by their columns (``x @ weight``).
    """

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # torch has no types for it
        self.entries: dict[str, Entry | None] = {}
        self.by_columns: set[str] = set()
        self._places = {
            parameter.untyped_storage().data_ptr(): _Place(name, parameter)
            for name, parameter in model.named_parameters()
            if parameter.dim() > 1 and parameter.untyped_storage().nbytes() == parameter.nbytes
        }

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Note a product's inputs, and compute it."""
        if func is aten.linear.default:  # as a whole only in inference mode
            self._product(args[0], args[1].transpose(-1, -2))
        elif (at := _PRODUCTS.get(func)) is not None:
            self._product(args[at], args[at + 1])
        elif func is expert_linear:
            self._experts(*args)
        elif func is aten._grouped_mm.default:
            self._groups(*args, **(kwargs or {}))
        elif (at := _LOOKED_UP.get(func)) is not None and (place := self._place(args[at])) is not None:
            self.entries.setdefault(place.name, None)
        return func(*args, **(kwargs or {}))

    def _place(self, tensor: torch.Tensor) -> _Place | None:
        return self._places.get(tensor.untyped_storage().data_ptr())

    def _product(self, x: torch.Tensor, weight: torch.Tensor) -> None:
        """``x @ weight`` of matrices or batches of them: ``weight`` is a parameter, or has one's rows as columns."""
        place = self._place(weight)
        columns = x.shape[-1]
        if place is None or not self._reads(place, weight, columns):
            return
        squares = x.detach().to(torch.float32).square()
        sums, counts = torch.zeros(place.matrices, columns), torch.zeros(place.matrices)
        if x.dim() == 3 and place.matrices > 1:  # all experts at once
            sums, counts = squares.sum(1), torch.full((place.matrices,), float(x.shape[1]))
        else:
            at = place.matrix_of(weight)
            sums[at], counts[at] = squares.reshape(-1, columns).sum(0), float(x.numel() // max(columns, 1))
        self._add(place, Entry(sums, counts))

    def _reads(self, place: _Place, weight: torch.Tensor, columns: int) -> bool:
        """Whether a product is along rows of a parameter, or along the columns of one whose rows nothing reads."""
        if weight.stride(-2) == 1 and place.parameter.shape[-1] == columns:
            return place.name not in self.by_columns
        if weight.shape != place.parameter.shape or weight.dim() != 2 or weight.stride(-1) != 1:
            return False
        if place.name not in self.entries:
            self.by_columns.add(place.name)
        return place.name in self.by_columns

    def _experts(self, x: torch.Tensor, weight: torch.Tensor, ids: torch.Tensor) -> None:
        """``weight[ids] @ x``: each expert's inputs are its own."""
        if (place := self._place(weight)) is not None:
            squares = x.detach().to(torch.float32).square().expand(*ids.shape, -1).reshape(-1, x.shape[-1])
            chosen = ids.reshape(-1)
            sums = torch.zeros(place.matrices, x.shape[-1]).index_add_(0, chosen, squares)
            self._add(place, Entry(sums, torch.bincount(chosen, minlength=place.matrices).float()))

    def _groups(
        self, x: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor | None = None, *rest: Any, **options: Any
    ) -> None:
        """Runs of rows, each times a matrix of its own; ``offs`` says where they end."""
        if x.dim() == 2 and weight.dim() == 3 and offs is not None:
            starts = [0, *offs.tolist()]
            for matrix, (start, stop) in enumerate(itertools.pairwise(starts)):
                self._product(x[start:stop], weight[matrix])

    def _add(self, place: _Place, entry: Entry) -> None:
        known = self.entries.get(place.name)
        self.entries[place.name] = entry if known is None else known + entry


# Where these ops have their parameter; products have it after their input.
_CONVOLUTIONS = (aten.convolution.default, aten.conv1d.default, aten.conv2d.default, aten.conv3d.default)
_LOOKED_UP: dict[Any, int] = {aten.embedding.default: 0, **dict.fromkeys(_CONVOLUTIONS, 1)}
_PRODUCTS: dict[Any, int] = {aten.mm.default: 0, aten.bmm.default: 0, aten.addmm.default: 1, aten.baddbmm.default: 1}


@contextmanager
def observed(model: torch.nn.Module) -> Iterator[Observer]:
    """Observe the products of a model's calls."""
    with Observer(model) as observer:
        yield observer


def used_weights(model: Callable[..., Any], *args: Any, **kwargs: Any) -> dict[str, bool]:
    """A module's parameters that a call multiplies by or looks rows up in: whether it reads them by their columns."""
    assert isinstance(model, torch.nn.Module)
    with observed(model) as seen, torch.no_grad():
        model(*args, **kwargs)
    return {name: name in seen.by_columns for name in seen.entries}
