"""``executorch-ggml rpc-server``: lends this machine's devices to programs on others, by ggml-rpc."""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
import sys

import click

from . import options
from .output import show_line


@click.command("rpc-server", short_help="Lend devices to other machines.")
@click.option("--host", default="127.0.0.1", help="The address to listen at (this machine alone).")
@click.option("--port", type=click.IntRange(1, 65535), default=50052, show_default=True)
@click.option("--device", "devices", multiple=True, help="A device to lend, by ggml's name; repeatable (cpu).")
@options.threads
@click.option("--json", "as_json", is_flag=True, help="Say where it serves as a JSON object in a line.")
def command(host: str, port: int, devices: tuple[str, ...], threads: int, as_json: bool) -> None:
    """Lend devices to programs on other machines.

    One client at a time has them, and names them RPC[host:port]. The protocol has no authentication: whoever reaches
    the port can read and write the server's memory. Serves until the process is ended.
    """
    from .. import _session
    from ..runtime import get_num_threads

    address = _address(host, port)
    if not ipaddress.ip_address(address).is_loopback:
        print(
            f"warning: {address} can be reached from other machines, and the protocol has no authentication: whoever "
            "reaches the port can read and write this process's memory; use it in networks that you trust alone",
            file=sys.stderr,
        )
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # ggml's loop does not return to Python
    endpoint, lent, threads = f"{address}:{port}", list(devices) or ["cpu"], threads or get_num_threads()
    if as_json:
        show_line({"endpoint": endpoint, "name": f"RPC[{endpoint}]", "devices": lent, "threads": threads})
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # ggml describes itself on standard output
    _session.serve_rpc(endpoint, lent, threads)


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
