"""What the device tells: a logger, shown on stderr from the level that ``GGML_LOG_LEVEL`` names."""

from __future__ import annotations

import logging
import os

LEVEL = "GGML_LOG_LEVEL"
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}

log = logging.getLogger("executorch_ggml.devices.compiled")


def set_up() -> None:
    """Follow the environment; a program that configures logging itself, and sets no such variable, has its own way."""
    name = os.environ.get(LEVEL, "").lower()
    if name not in _LEVELS:
        return
    log.setLevel(_LEVELS[name])
    if not log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("executorch-ggml: compiled: %(message)s"))
        log.addHandler(handler)
        log.propagate = False
