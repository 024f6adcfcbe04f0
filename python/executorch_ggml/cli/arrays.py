"""Files with tensors: .npy, .npz, .json, images and .wav in; .npy, .npz and .json out."""

from __future__ import annotations

import json
import wave
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from ..pte import Port


def read(path: Path, port: Port) -> list[torch.Tensor]:
    """The tensors in a file: one, or all of a .npz in its order. ``port`` is the input that the first of them is for.

    Images are resized to the input's last two sizes, scaled to 0 to 1 and normalized by ImageNet's mean and standard
    deviation; sound is float32 from -1 to 1, of shape ``[1, samples]``, its channels averaged. Raises ValueError for
    what cannot be read.
    """
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise ValueError(f"{path}: expected a file of {', '.join(_READERS)}")
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    return [torch.from_numpy(np.ascontiguousarray(array)) for array in reader(path, port)]


def arrays_of(outputs: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """Outputs as arrays, of bf16 as float32, which numpy does not have; numbers as arrays of no dims."""
    tensors = [torch.as_tensor(output) for output in outputs]
    return [(tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy() for tensor in tensors]


def check_writes(path: Path) -> None:
    """Raise where no file of this name can be written."""
    if path.suffix.lower() not in _WRITERS:
        raise ValueError(f"{path}: expected a file of {', '.join(_WRITERS)}")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path.parent}: no such folder to write {path.name} to")


def write(path: Path, arrays: Sequence[np.ndarray[Any, Any]]) -> None:
    """Write outputs: all to a .npz (``output_0`` ...) or a .json, one to a .npy."""
    _WRITERS[path.suffix.lower()](path, arrays)


def _npz(path: Path, _port: Port) -> list[np.ndarray[Any, Any]]:
    with np.load(path, allow_pickle=False) as file:
        return [file[name] for name in file.files]


def _json(path: Path, port: Port) -> list[np.ndarray[Any, Any]]:
    return [torch.tensor(json.loads(path.read_text("utf-8")), dtype=port.dtype).numpy()]


def _image(path: Path, port: Port) -> list[np.ndarray[Any, Any]]:
    from PIL import Image

    from ..images import as_input

    with Image.open(path) as image:
        try:
            return [as_input(image, port.shape)[None]]
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error


def _sound(path: Path, _port: Port) -> list[np.ndarray[Any, Any]]:
    with wave.open(str(path)) as file:
        bytes_each, channels = file.getsampwidth(), file.getnchannels()
        data = file.readframes(file.getnframes())
    if bytes_each not in (2, 4):
        raise ValueError(f"{path}: samples of {8 * bytes_each} bits; convert them to 16")
    samples = np.frombuffer(data, f"<i{bytes_each}").astype(np.float32) / 2 ** (8 * bytes_each - 1)
    return [samples.reshape(-1, channels).mean(axis=1)[None]]


_READERS: dict[str, Callable[[Path, Port], list[np.ndarray[Any, Any]]]] = {
    ".npy": lambda path, _: [np.load(path, allow_pickle=False)],
    ".npz": _npz,
    ".json": _json,
    **dict.fromkeys((".png", ".jpg", ".jpeg", ".bmp", ".webp"), _image),
    ".wav": _sound,
}


def _write_npz(path: Path, arrays: Sequence[np.ndarray[Any, Any]]) -> None:
    named: dict[str, Any] = {f"output_{index}": array for index, array in enumerate(arrays)}
    np.savez(path, **named)


def _write_npy(path: Path, arrays: Sequence[np.ndarray[Any, Any]]) -> None:
    if len(arrays) != 1:
        raise ValueError(f"{path}: the program has {len(arrays)} outputs; write them to a .npz")
    np.save(path, arrays[0])


def _write_json(path: Path, arrays: Sequence[np.ndarray[Any, Any]]) -> None:
    path.write_text(json.dumps([array.tolist() for array in arrays]), "utf-8")


_WRITERS: dict[str, Callable[[Path, Sequence[np.ndarray[Any, Any]]], None]] = {
    ".npy": _write_npy,
    ".npz": _write_npz,
    ".json": _write_json,
}
