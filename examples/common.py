"""What the examples share."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor, nn

    from executorch_ggml.runtime import Module

THREADS = min(2, os.cpu_count() or 1)


def quiet() -> None:
    """Silence the notices that the imported packages give at import and export."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


def need(*modules: str) -> None:
    """Stop with a sentence where modules are missing that other packages have."""
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        packages = ("scikit-learn" if module == "sklearn" else module.replace("_", "-") for module in missing)
        sys.exit(f"{', '.join(missing)} missing: pip install {' '.join(packages)}")


def use_torchvision() -> None:
    """Find torchvision, also where `make setup` puts it; stop with a sentence where there is none."""
    from tests import torchvision_cpu

    if not (torchvision_cpu.SIDE_FOLDER / "torchvision").is_dir():
        need("torchvision")
    torchvision_cpu.torchvision_models()


@contextmanager
def downloading(name: str, instead: str) -> Iterator[None]:
    """Stop with a sentence where what is read in the body is neither here nor to be had."""
    try:
        yield
    except OSError as error:
        reason = str(error).strip().splitlines()[0]
        sys.exit(f"{name} is not on this machine and could not be downloaded ({reason}). {instead}")


def pretrained(kind: Any, checkpoint: str | Path, **options: Any) -> Any:
    """What a class of `transformers` reads from a checkpoint: a folder, or a name on Hugging Face's hub."""
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    with downloading(
        str(checkpoint), "Pass --checkpoint FOLDER, or nothing for the small model that is in this folder."
    ):
        return kind.from_pretrained(checkpoint, **options)


def exported(model: nn.Module, example: Tensor) -> Module:
    """A model of one image as a program, written and loaded as an application does."""
    import executorch_ggml

    with TemporaryDirectory(prefix="executorch-ggml-example-") as folder:
        path = Path(folder) / "model.pte"
        executorch_ggml.export(model, (example,)).save(str(path))
        return executorch_ggml.load(path)


def open_image(path: Path) -> Image:
    """An image in RGB; stops with a sentence where there is none."""
    from PIL import Image, UnidentifiedImageError

    try:
        return Image.open(path).convert("RGB")
    except (FileNotFoundError, UnidentifiedImageError) as error:
        sys.exit(f"{path}: {error}")
