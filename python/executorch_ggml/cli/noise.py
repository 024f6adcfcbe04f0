"""Warnings of packages that commands import, about what their users can do nothing about."""

from __future__ import annotations

import logging
import warnings

# By logger: how the messages begin. They come whenever ExecuTorch is imported.
_ABOUT_NOTHING = {
    "torchao": "Failed to load ",  # its CUDA kernels, beside a torch without CUDA
    "torch.utils._pytree": "%s is an Enum subclass and is now natively supported",  # how torchao registers its enums
}
_OF_TREES = r"`isinstance\(treespec, LeafSpec\)` is deprecated"  # torch's, when ExecuTorch copies a graph


def quiet_dependencies() -> None:
    """Drop these messages in this process; all others are shown."""
    for name in _ABOUT_NOTHING:
        logging.getLogger(name).addFilter(_tells_something)
    warnings.filterwarnings("ignore", _OF_TREES, FutureWarning)


def _tells_something(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith(_ABOUT_NOTHING[record.name])
