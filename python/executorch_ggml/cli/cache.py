"""``executorch-ggml cache``: what compilers made for the compiled devices, and is kept."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from . import options
from .output import show

if TYPE_CHECKING:
    from ..devices.compiled.cache import Cache


@click.command("cache", short_help="List, verify or clear compiled graphs.")
@click.argument("action", type=click.Choice(["list", "clear", "verify"]))
@options.as_json
def command(action: str, as_json: bool) -> None:
    """List, verify or clear compiled graphs; verify drops the damaged ones, and fails where there are any."""
    from ..devices.compiled.cache import Cache

    _ACTIONS[action](Cache(), as_json)


def _list(cache: Cache, as_json: bool) -> None:
    entries = cache.entries()
    size = sum(entry.size for entry in entries)
    lines = []
    for entry in entries:
        about, used = entry.manifest, datetime.datetime.fromtimestamp(entry.used)
        what = f"{about['compiler']}\t{about['nodes']} nodes\t{entry.size} bytes"
        lines.append(f"{entry.key[:16]}\t{what}\tused {used:%Y-%m-%d %H:%M}\tmade {about['created']}")
    lines.append(f"{len(entries)} entries, {size} of {cache.limit} bytes, in {cache.folder}")
    facts = {
        "folder": cache.folder,
        "limit": cache.limit,
        "entries": [{"key": e.key, "bytes": e.size, "used": e.used, **e.manifest} for e in entries],
    }
    show(facts, as_json, lines)


def _clear(cache: Cache, as_json: bool) -> None:
    removed = cache.clear()
    facts = {"folder": cache.folder, "removed": removed}
    show(facts, as_json, [f"{removed} entries removed from {cache.folder}"])


def _verify(cache: Cache, as_json: bool) -> None:
    count, damaged = len(cache.entries()), cache.verify()
    lines = [f"{key[:16]}\tremoved: {reason}" for key, reason in damaged.items()]
    if not damaged:
        lines.append(f"{count} entries are whole, in {cache.folder}")
    show({"folder": cache.folder, "whole": count - len(damaged), "damaged": damaged}, as_json, lines)
    if damaged:
        raise ValueError(f"{len(damaged)} damaged entries were removed from {cache.folder}")


_ACTIONS: dict[str, Callable[[Cache, bool], None]] = {"list": _list, "clear": _clear, "verify": _verify}
