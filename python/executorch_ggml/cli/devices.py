"""``executorch-ggml devices``: what ggml can run on here, and which instruction sets the CPU uses."""

from __future__ import annotations

from pathlib import Path

import click

from . import options
from .output import show


@click.command("devices", short_help="List ggml's devices.")
@click.option("--add-rpc", metavar="HOST:PORT", multiple=True, help="List a server's devices too; repeatable.")
@options.as_json
def command(add_rpc: tuple[str, ...], as_json: bool) -> None:
    """List ggml's devices on this machine and on RPC servers."""
    from ..runtime import add_rpc_server, cpu, list_devices

    for endpoint in add_rpc:
        add_rpc_server(endpoint)
    found, used = list_devices(), cpu()
    facts = {"devices": [device._asdict() for device in found], "cpu": used._asdict()}
    lines = [f"{device.name}\t{device.kind}\t{device.description}" for device in found]
    lines.append(f"CPU kernels: {used.kernels}; ggml's CPU library: {Path(used.library).name} ({used.library_isa})")
    show(facts, as_json, lines)
