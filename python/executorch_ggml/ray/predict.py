"""Actors that run any program: on columns of arrays, or on images."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ..images import IMAGENET_MEAN, IMAGENET_STD, ImageInput
from ..runtime import DeviceNames, load
from ..runtime.program_file import Port, input_ports
from .columns import Array, Batch, Rows, stacked
from .program import Program, path_of, use_threads


class Predictor:
    """Runs a program on columns of numbers: each row is one element of the program's batch, its first dimension.

    A batch of more rows than the program takes is split. What is left over of a program with a fixed batch is padded by
    its last row, and the padding's results are dropped. State of the program is reset before each call, so that a
    result depends on its row alone, and a batch that Ray runs again gives the same.
    """

    def __init__(
        self,
        program: Program,
        *,
        inputs: str | Sequence[str],
        outputs: str | Sequence[str] = "output",
        method: str = "forward",
        num_threads: int = 1,
        keep: Sequence[str] | None = None,
        key: str | None = None,
        data_path: str | os.PathLike[str] | None = None,
        gguf: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
        device: DeviceNames = "",
    ) -> None:
        """Load a program, a path or bytes.

        ``inputs`` are the columns of the program's inputs, and ``outputs`` those that its outputs become. ``keep`` are
        the columns of the dataset to keep (all by default), and ``key`` one that names a row in errors. ``data_path``,
        ``gguf`` and ``device`` are as for :func:`executorch_ggml.load`.
        """
        use_threads(num_threads)
        path = path_of(program)
        self._inputs, self._outputs = _names(inputs), _names(outputs)
        self._method, self._keep, self._key = method, keep, key
        self._ports = _batched_ports(path, method, self._inputs)
        self._max_batch = min(port.shape[0] for port in self._ports)
        self._fixed_batch = not all(port.dynamic for port in self._ports)
        self._module = load(path, data_path=data_path, gguf=gguf, device=device)
        self._module.load_method(method)

    def __call__(self, batch: Batch) -> dict[str, Array]:
        """The batch with the program's outputs as columns."""
        rows = Rows(batch, self._key)
        columns = [self._values(rows, name, port) for name, port in zip(self._inputs, self._ports, strict=True)]
        starts = range(0, len(rows), self._max_batch)
        calls = [self._call(rows, columns, first) for first in starts]
        empty = [np.empty(0, np.float32)] * len(self._outputs)
        parts = zip(*(calls or [empty]), strict=True)
        outputs = {name: np.concatenate(arrays) for name, arrays in zip(self._outputs, parts, strict=True)}
        return rows.results(outputs, self._keep)

    def _values(self, rows: Rows, column: str, port: Port) -> Sequence[Any]:
        """What the rows of a column are as the program's input."""
        del port
        return list(rows.column(column))

    def _call(self, rows: Rows, columns: Sequence[Sequence[Any]], first: int) -> list[Array]:
        """The outputs of one call of the program, for the rows from ``first`` on."""
        count = min(self._max_batch, len(rows) - first)
        inputs = [
            stacked(rows, name, values[first : first + count], port, first)
            for name, values, port in zip(self._inputs, columns, self._ports, strict=True)
        ]
        if self._fixed_batch and count < self._max_batch:
            padding = self._max_batch - count
            inputs = [torch.cat([tensor, tensor[-1:].expand(padding, *tensor.shape[1:])]) for tensor in inputs]
        self._module.reset_state()
        try:
            result = self._module.run(self._method, inputs)
        except RuntimeError as error:
            raise RuntimeError(f"rows {first} to {first + count - 1} of the batch: {error}") from error
        tensors = result if isinstance(result, tuple) else (result,)
        if len(tensors) != len(self._outputs):
            raise ValueError(
                f"the program has {len(tensors)} outputs, but {len(self._outputs)} columns are named for them"
            )
        expected = inputs[0].shape[0]
        return [
            self._rows_of(name, tensor, expected)[:count] for name, tensor in zip(self._outputs, tensors, strict=True)
        ]

    @staticmethod
    def _rows_of(name: str, tensor: Any, expected: int) -> Array:
        if not isinstance(tensor, torch.Tensor) or not tensor.dim() or tensor.shape[0] != expected:
            shape = list(tensor.shape) if isinstance(tensor, torch.Tensor) else type(tensor).__name__
            raise ValueError(f"output {name!r}: {shape}, expected a tensor with a row for each of {expected}")
        array: Array = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
        return array


class ImagePredictor(Predictor):
    """Runs a program on a column of images, as ``ray.data.read_images`` or files' bytes give them.

    An image is an array ``[height, width, 3]`` or ``[height, width]`` of uint8, or the bytes of a file that Pillow
    reads. It is transformed as the program says, or else resized to its size, scaled to 0 to 1 and normalized.
    """

    def __init__(
        self,
        program: Program,
        *,
        inputs: str = "image",
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        **options: Any,
    ) -> None:
        """Load a program; ``options`` are :class:`Predictor`'s.

        With ``mean`` or ``std``, which are of color images, these are resized and normalized, whatever the program
        says; what is not given is ImageNet's.
        """
        path = path_of(program)
        normalized = {"mean": tuple(mean or IMAGENET_MEAN), "std": tuple(std or IMAGENET_STD)}
        own = None if mean is not None or std is not None else ImageInput.of_program(path)
        self._transforms = own or ImageInput("resize", normalized)
        super().__init__(path, inputs=inputs, **options)

    def _values(self, rows: Rows, column: str, port: Port) -> Sequence[Any]:
        return [self._image(rows.name(column, row), value, port) for row, value in enumerate(rows.column(column))]

    def _image(self, name: str, value: Any, port: Port) -> Array:
        from PIL import Image, UnidentifiedImageError

        try:
            if isinstance(value, bytes):
                with Image.open(io.BytesIO(value)) as image:
                    return self._transforms.array(image, port.shape)
            pixels = np.asarray(value)
            if pixels.dtype != np.uint8:
                raise ValueError(f"{pixels.dtype}, expected an image of uint8 or the bytes of a file")
            return self._transforms.array(Image.fromarray(pixels), port.shape)
        except (ValueError, TypeError, OSError, UnidentifiedImageError) as error:
            raise ValueError(f"{name}: {error}") from error


def _names(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _batched_ports(path: os.PathLike[str], method: str, columns: Sequence[str]) -> list[Port]:
    """The inputs of a method, all tensors with a batch."""
    ports = input_ports(path, method)
    if len(ports) != len(columns):
        raise ValueError(f"{path}: {method} has {len(ports)} inputs, but {len(columns)} columns are named for them")
    batched = [port for port in ports if port is not None and port.shape]
    if len(batched) != len(ports):
        raise ValueError(f"{path}: {method} has an input without a batch: {', '.join(map(str, ports))}")
    return batched
