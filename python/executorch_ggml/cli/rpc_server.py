"""``executorch-ggml rpc-server``: lends this machine's devices to programs on others, by ggml-rpc."""

from __future__ import annotations

import argparse
import ipaddress
import signal
import socket
import sys
from typing import Any

from .. import _session
from ..runtime import get_num_threads


def register(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "rpc-server",
        help="lend devices to programs on other machines",
        description="Lends devices to one client at a time, which names them RPC[host:port]. The protocol has no "
        "authentication: whoever reaches the port can read and write the server's memory.",
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen at (this machine alone)")
    parser.add_argument("--port", type=int, default=50052)
    parser.add_argument("--device", action="append", help="a device to lend, by ggml's name; repeatable (cpu)")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads (one a core)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Serve until the process is ended."""
    if not 1 <= args.port <= 65535:
        raise ValueError(f"--port {args.port}: expected 1 to 65535")
    if args.threads < 0:
        raise ValueError(f"--threads {args.threads}: expected 1 or more, or 0 for one a core")
    address = _address(args.host, args.port)
    if not ipaddress.ip_address(address).is_loopback:
        print(
            f"warning: {address} can be reached from other machines, and the protocol has no authentication: whoever "
            "reaches the port can read and write this process's memory; use it in networks that you trust alone",
            file=sys.stderr,
        )
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # ggml's loop does not return to Python
    _session.serve_rpc(f"{address}:{args.port}", args.device or ["cpu"], args.threads or get_num_threads())


def _address(host: str, port: int) -> str:
    """The IPv4 address of a host, at which this process can listen."""
    try:
        address = socket.gethostbyname(host)
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind((address, port))
            trial.listen(1)
    except OSError as error:
        raise OSError(f"cannot listen at {host}:{port}: {error.strerror or error}") from error
    return address
