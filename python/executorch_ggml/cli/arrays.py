"""Files with tensors: .npy, .npz, .json, images and .wav, in and out."""

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
    from ..runtime.program_file import Port

IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
_SAMPLE_RATE = 16000


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
    """Write outputs: all to a .npz (``output_0`` ...) or a .json, one to a .npy, an image or a .wav.

    An image is ``[channels, height, width]`` or ``[height, width]``, floats of 0 to 1 or integers of 0 to 255; sound is
    ``[samples]`` from -1 to 1, at 16000 a second. Dims of one before these are left out. Raises ValueError for others.
    """
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
    np.save(path, _only(path, arrays))


def _only(path: Path, arrays: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    if len(arrays) != 1:
        raise ValueError(f"{path}: the program has {len(arrays)} outputs; write them to a .npz")
    return arrays[0]


def _without_ones(array: np.ndarray[Any, Any], dims: int) -> np.ndarray[Any, Any]:
    """The array without as many of its first dims as are of one and too many."""
    while array.ndim > dims and array.shape[0] == 1:
        array = array[0]
    return array


def _write_image(path: Path, arrays: Sequence[np.ndarray[Any, Any]]) -> None:
    from PIL import Image

    array = _without_ones(_only(path, arrays), 3)
    if array.ndim == 3 and array.shape[0] in (1, 3):
        array = array[0] if array.shape[0] == 1 else array.transpose(1, 2, 0)
    elif array.ndim != 2:
        raise ValueError(f"{path}: an output {list(array.shape)} is no image, [1 or 3, height, width]; write a .npy")
    if np.issubdtype(array.dtype, np.floating):
        array = 255 * np.nan_to_num(array).clip(0, 1)
    Image.fromarray(array.round().clip(0, 255).astype(np.uint8)).save(path)


def _write_sound(path: Path, arrays: Sequence[np.ndarray[Any, Any]]) -> None:
    array = _without_ones(_only(path, arrays), 1)
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.floating):
        raise ValueError(
            f"{path}: an output {array.dtype}{list(array.shape)} is no sound, floats [samples]; write a .npy"
        )
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(_SAMPLE_RATE)
        file.writeframes((np.nan_to_num(array).clip(-1, 1) * 32767).round().astype("<i2").tobytes())


def _write_json(path: Path, arrays: Sequence[np.ndarray[Any, Any]]) -> None:
    path.write_text(json.dumps([array.tolist() for array in arrays]), "utf-8")


_WRITERS: dict[str, Callable[[Path, Sequence[np.ndarray[Any, Any]]], None]] = {
    ".npy": _write_npy,
    ".npz": _write_npz,
    ".json": _write_json,
    **dict.fromkeys(IMAGES, _write_image),
    ".wav": _write_sound,
}
