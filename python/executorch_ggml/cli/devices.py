"""``executorch-ggml devices``: what ggml can run on here, and which instruction sets the CPU uses."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..runtime import add_rpc_server, cpu, list_devices


def register(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser("devices", help="list ggml's devices on this machine and on RPC servers")
    parser.add_argument(
        "--add-rpc", metavar="HOST:PORT", action="append", default=[], help="list a server's devices too; repeatable"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Print one device a line, then what the CPU uses."""
    for endpoint in args.add_rpc:
        add_rpc_server(endpoint)
    for device in list_devices():
        print(f"{device.name}\t{device.kind}\t{device.description}")
    used = cpu()
    print(f"CPU kernels: {used.kernels}; ggml's CPU library: {Path(used.library).name} ({used.library_isa})")
