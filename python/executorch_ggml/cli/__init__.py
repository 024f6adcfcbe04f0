"""The command line: ``executorch-ggml <command>``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ..webnn.errors import BackendUnavailable, OperationError
from . import cache, devices, export, export_gguf, generate, inspect, webnn

COMMANDS = (export, generate, inspect, export_gguf, devices, cache, webnn)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; errors that a user can mend are one line on stderr."""
    parser = argparse.ArgumentParser(prog="executorch-ggml", description="PyTorch models on ggml.")
    commands = parser.add_subparsers(required=True, metavar="command")
    for command in COMMANDS:
        command.register(commands)
    args = parser.parse_args(argv)
    try:
        args.run(args)
    except (OSError, ValueError, BackendUnavailable, OperationError) as error:
        print(f"executorch-ggml: {error}", file=sys.stderr)
        return 1
    return 0
