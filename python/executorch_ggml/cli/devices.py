"""``executorch-ggml devices``: what ggml can run on here."""

from __future__ import annotations

import argparse
from typing import Any

from ..runtime import list_devices


def register(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser("devices", help="list ggml's devices on this machine")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Print one device a line."""
    del args
    for device in list_devices():
        print(f"{device.name}\t{device.kind}\t{device.description}")
