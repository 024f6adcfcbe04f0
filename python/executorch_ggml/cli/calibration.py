"""Calibration inputs from files: texts for what reads tokens, arrays, images and sound for the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ..runtime.program_file import Port
from . import arrays
from .models import Model

if TYPE_CHECKING:
    from ..llm import Tokenizer


def calls_of(files: Sequence[Path], model: Model, tokenizer: Tokenizer | None, context: int) -> list[dict[str, Any]]:
    """The arguments of calls by name, from files or all files in folders.

    A .txt file is read in pieces of ``context`` tokens. Of a .npz the arrays are arguments by their names, where the
    model has arguments of these names, else in their order; other files have the first argument. Arrays with more rows
    than the example inputs are of several calls.
    """
    paths = [path for file in files for path in (sorted(file.iterdir()) if file.is_dir() else [file])]
    calls = [call for path in paths for call in _calls(path, model, tokenizer, context)]
    if not calls:
        raise ValueError(f"--calibrate {', '.join(map(str, files))}: there is nothing in it to calibrate with")
    return calls


def _calls(path: Path, model: Model, tokenizer: Tokenizer | None, context: int) -> list[dict[str, Any]]:
    if path.suffix.lower() == ".txt":
        return _texts(path, model, tokenizer, context)
    example = dict(signature(model.module.forward).bind(*model.args, **model.kwargs).arguments)
    if path.suffix.lower() == ".npz":
        named = arrays.named_arrays(path)
        if not set(named) <= set(signature(model.module.forward).parameters):
            named = _in_order(path, list(named.values()), example)
    else:
        first = next((value for value in example.values() if isinstance(value, torch.Tensor)), None)
        if first is None:
            raise ValueError(f"{path}: the model's first input is no tensor; give its inputs by name in a .npz")
        port = Port(first.dtype, tuple(first.shape), dynamic=False)
        named = _in_order(path, arrays.read(path, port, model.image), example)
    return _pieces(named, example)


def _in_order(path: Path, tensors: Sequence[torch.Tensor], example: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    names = [name for name, value in example.items() if isinstance(value, torch.Tensor)]
    if len(tensors) != len(names):
        raise ValueError(f"{path}: {len(tensors)} arrays, and the model takes {len(names)}: {', '.join(names)}")
    return dict(zip(names, tensors, strict=True))


def _pieces(named: Mapping[str, torch.Tensor], example: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Calls of as many rows as the example's, if all arrays have the same number of them."""
    rows = {tensor.shape[0] if tensor.dim() else 0 for tensor in named.values()}
    sizes = {value.shape[0] for name in named if isinstance(value := example.get(name), torch.Tensor) and value.dim()}
    if len(rows) != 1 or len(sizes) != 1 or 0 in rows | sizes:
        return [dict(named)]
    (count,), (size,) = rows, sizes
    return [{name: tensor[at : at + size] for name, tensor in named.items()} for at in range(0, count, size)]


def _texts(path: Path, model: Model, tokenizer: Tokenizer | None, context: int) -> list[dict[str, Any]]:
    if "input_ids" not in signature(model.module.forward).parameters or _is_encoder_decoder(model.module):
        raise ValueError(
            f"{path}: {type(model.module).__name__} reads no text alone; give its inputs by name in a .npz"
        )
    if tokenizer is None:
        raise ValueError(f"{path}: the model has no tokenizer to read a text with; give tokens, as input_ids in a .npz")
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    ids = tokenizer.encode(path.read_text("utf-8"))
    return [{"input_ids": torch.tensor([ids[at : at + context]])} for at in range(0, len(ids), context)]


def _is_encoder_decoder(module: torch.nn.Module) -> bool:
    return bool(getattr(getattr(module, "config", None), "is_encoder_decoder", False))
