"""Makes `torchvision` and `torchaudio` importable beside a CPU-only build of PyTorch (development only).

PyPI's Linux wheel of torchvision is compiled for CUDA: its `_C` library cannot be loaded here, so the operators `nms`
and `qnms` that it would register are missing, and `import torchvision` stops when it attaches shape functions to them.
The classification models need neither operator, so declaring the two schemas is enough for them. Detection needs `nms`,
which gets a kernel in PyTorch here; `qnms` has none, and calling it still fails.

Where to install it: such a torchvision must not lie on the normal module path together with Pillow, because
`transformers` imports it eagerly when both are found and then fails itself. So it gets a folder of its own,

    pip install --no-deps --target .venv/torchvision torchvision==0.28.0 torchaudio==2.11.0 pillow timm

which only this helper adds to the path. A torchvision on the normal path is used as it is. torchaudio's libraries are
for CUDA too; with `torchaudio/lib/*.so` removed it imports, and its models need none of them.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from types import ModuleType

SIDE_FOLDER = Path(sys.prefix) / "torchvision"
"""Where a torchvision that is kept off the normal module path is looked for."""

_NMS_ARGUMENTS = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


@cache
def declare_missing_operators() -> Any:
    """Declare the operators that torchvision's own native library would have brought, where it has not.

    Returns:
        The library that holds the declarations: they last as long as it does, so it is cached.
    """
    library: Any = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            library.define(name + _NMS_ARGUMENTS)
            if name == "nms":
                library.impl(name, _nms, "CPU")
    return library


def _nms(boxes: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    """What torchvision's own kernel does: boxes that overlap one of a higher score by more are left out."""
    from torchvision.ops import box_iou

    order = scores.argsort(descending=True, stable=True)
    overlap = box_iou(boxes[order], boxes[order]) > iou_threshold
    kept = torch.ones(len(order), dtype=torch.bool)
    for index in range(len(order)):
        if kept[index]:
            kept[index + 1 :] &= ~overlap[index, index + 1 :]
    return order[kept]


def _let_nms_run() -> None:
    """Have `torchvision.ops.nms` call the operator, though torchvision's own library is not there."""
    extension, boxes = (importlib.import_module(f"torchvision.{name}") for name in ("extension", "ops.boxes"))
    if not extension._has_ops():
        boxes.__dict__["_assert_has_ops"] = lambda: None


def torchvision_models() -> ModuleType:
    """The module `torchvision.models`, from the normal path or else from the side folder.

    Raises:
        ModuleNotFoundError: torchvision is in neither place; the message says how to install it.
    """
    if importlib.util.find_spec("torchvision") is None:
        if not (SIDE_FOLDER / "torchvision").is_dir():
            raise ModuleNotFoundError(
                "torchvision was not found: pip install --no-deps --target "
                f"{SIDE_FOLDER} torchvision==0.28.0 pillow (see tests/torchvision_cpu.py)",
                name="torchvision",
            )
        sys.path.append(str(SIDE_FOLDER))
    declare_missing_operators()
    models = importlib.import_module("torchvision.models")
    _let_nms_run()
    return models
