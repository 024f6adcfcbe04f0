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
    from ..images import ImageInput
    from ..pte import Port

IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")


def read(path: Path, port: Port, image: ImageInput | None = None) -> list[torch.Tensor]:
    """The tensors in a file: one, or all of a .npz in its order. ``port`` is the input that the first of them is for.

    Images are transformed as ``image`` says, else resized to the input's last two sizes, scaled to 0 to 1 and
    normalized by ImageNet's mean and standard deviation; sound is float32 from -1 to 1, of shape ``[1, samples]``, its
    channels averaged. Raises ValueError for what cannot be read.
    """
    suffix = path.suffix.lower()
    reader = _READERS.get(suffix)
    if reader is None and suffix not in IMAGES:
        raise ValueError(f"{path}: expected a file of {', '.join((*_READERS, *IMAGES))}")
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    arrays = _image(path, port, image) if reader is None else reader(path, port)
    return [_tensor(array) for array in arrays]


def named_arrays(path: Path) -> dict[str, torch.Tensor]:
    """The tensors in a .npz by name."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    with np.load(path, allow_pickle=False) as file:
        return {name: _tensor(file[name]) for name in file.files}


def _tensor(array: np.ndarray[Any, Any]) -> torch.Tensor:
    return torch.from_numpy(array if array.flags.c_contiguous else np.ascontiguousarray(array))


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


def _image(path: Path, port: Port, transforms: ImageInput | None) -> list[np.ndarray[Any, Any]]:
    from PIL import Image

    from ..images import ImageInput

    with Image.open(path) as image:
        try:
            return [(transforms or ImageInput()).array(image, port.shape)[None]]
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
