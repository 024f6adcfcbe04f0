"""The command line: ``executorch-ggml <command>``.

Commands import what they run with when they run: torch and ExecuTorch take seconds, which ``--help`` should not.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from .. import __version__
from . import cache, devices, export, export_gguf, generate, inspect, rpc_server, webnn
from .noise import quiet_dependencies

COMMANDS = (export, generate, inspect, export_gguf, devices, rpc_server, cache, webnn)

# What files, options and memory may be to blame for; the runtime raises RuntimeError for programs that it cannot load.
_USERS = (OSError, ValueError, RuntimeError, MemoryError)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; errors that a user can mend are one line on stderr, and a pipe's end or Ctrl-C none."""
    parser = argparse.ArgumentParser(prog="executorch-ggml", description="PyTorch models on ggml.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")
    for command in COMMANDS:
        command.register(commands)
    args = parser.parse_args(argv)
    quiet_dependencies()
    try:
        args.run(args)
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what Python still writes at its end
        return 1
    except _USERS as error:
        print(f"executorch-ggml: {error}", file=sys.stderr)
        return 1
    return 0
