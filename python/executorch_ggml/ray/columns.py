"""Columns of a batch as a program's inputs, with errors that name the row and the column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from ..runtime.program_file import Port

Array: TypeAlias = npt.NDArray[Any]
Batch: TypeAlias = Mapping[str, Array]


class Rows:
    """The rows of a batch, for reading columns and for naming a row in an error."""

    def __init__(self, batch: Batch, key: str | None) -> None:
        self._batch = batch
        self._keys = None if key is None else self.column(key)

    def __len__(self) -> int:
        return len(next(iter(self._batch.values()), ()))

    def column(self, name: str) -> Array:
        """A column. Raises KeyError where there is none of that name."""
        if name not in self._batch:
            raise KeyError(f"the dataset has no column {name!r}, but {', '.join(map(repr, self._batch))}")
        return self._batch[name]

    def name(self, column: str, row: int) -> str:
        """How an error names a value."""
        key = "" if self._keys is None else f" ({self._keys[row]!s})"
        return f"column {column!r}, row {row} of the batch{key}"

    def texts(self, column: str) -> list[str]:
        """A column of texts. Raises TypeError for a row that is none."""
        values = self.column(column).tolist()
        for row, value in enumerate(values):
            if not isinstance(value, str):
                raise TypeError(f"{self.name(column, row)}: {type(value).__name__}, expected a text")
        return list(values)

    def results(self, outputs: Mapping[str, Array], keep: Sequence[str] | None) -> dict[str, Array]:
        """The columns to keep (all, where ``keep`` is None) and those that were computed."""
        kept = {name: self.column(name) for name in (self._batch if keep is None else keep)}
        if clash := kept.keys() & outputs.keys():
            raise ValueError(
                f"column {min(clash)!r} is in the dataset already: name the output otherwise, or leave it out of keep"
            )
        return kept | dict(outputs)


def stacked(rows: Rows, column: str, values: Sequence[Any], port: Port, first: int = 0) -> torch.Tensor:
    """Values of a column, the first of them row ``first``, as one input of a program."""
    arrays = [np.asarray(value) for value in values]
    for row, array in enumerate(arrays, first):
        _check(rows.name(column, row), array, arrays[0], port)
    return _converted(rows, column, np.stack(arrays), port, first)


def _check(name: str, array: Array, beside: Array, port: Port) -> None:
    expected = port.shape[1:]
    fits = len(array.shape) == len(expected) and all(
        size <= most if port.dynamic else size == most for size, most in zip(array.shape, expected, strict=True)
    )
    if not fits:
        at_most = " or smaller" if port.dynamic else ""
        raise ValueError(f"{name}: shape {list(array.shape)}, expected {list(expected)}{at_most}")
    if array.shape != beside.shape:
        raise ValueError(f"{name}: shape {list(array.shape)}, but the first row of the call has {list(beside.shape)}")
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name}: {array.dtype}, expected numbers")


def _converted(rows: Rows, column: str, values: Array, port: Port, first: int) -> torch.Tensor:
    """Values in the program's type: any number as a float, integers where they fit."""
    if port.dtype.is_floating_point:
        return torch.from_numpy(np.ascontiguousarray(values)).to(port.dtype)
    if values.dtype.kind == "f" or (port.dtype == torch.bool and values.dtype.kind != "b"):
        raise TypeError(f"column {column!r}: {values.dtype}, but the program takes {port.dtype}; convert it first")
    if port.dtype == torch.bool:
        return torch.from_numpy(np.ascontiguousarray(values))
    limits = torch.iinfo(port.dtype)
    outside = (values < limits.min) | (values > limits.max)
    if outside.any():
        row = int(np.argwhere(outside)[0][0])
        raise ValueError(f"{rows.name(column, first + row)}: a number outside of {port.dtype}")
    return torch.from_numpy(values.astype(np.dtype(str(port.dtype).removeprefix("torch."))))
