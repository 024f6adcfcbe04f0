"""``executorch-ggml cache``: what compilers made for the compiled devices, and is kept."""

from __future__ import annotations

import argparse
import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..devices.compiled.cache import Cache


def register(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser("cache", help="list, verify or clear compiled graphs")
    parser.add_argument("action", choices=("list", "clear", "verify"), help="verify drops the damaged ones")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Do the action; ``verify`` fails where something was damaged."""
    from ..devices.compiled.cache import Cache

    _ACTIONS[args.action](Cache())


def _list(cache: Cache) -> None:
    entries = cache.entries()
    for entry in entries:
        about, used = entry.manifest, datetime.datetime.fromtimestamp(entry.used)
        what = f"{about['compiler']}\t{about['nodes']} nodes\t{entry.size} bytes"
        print(f"{entry.key[:16]}\t{what}\tused {used:%Y-%m-%d %H:%M}\tmade {about['created']}")
    size = sum(entry.size for entry in entries)
    print(f"{len(entries)} entries, {size} of {cache.limit} bytes, in {cache.folder}")


def _clear(cache: Cache) -> None:
    print(f"{cache.clear()} entries removed from {cache.folder}")


def _verify(cache: Cache) -> None:
    count, damaged = len(cache.entries()), cache.verify()
    for key, reason in damaged.items():
        print(f"{key[:16]}\tremoved: {reason}")
    if damaged:
        raise ValueError(f"{len(damaged)} damaged entries were removed from {cache.folder}")
    print(f"{count} entries are whole, in {cache.folder}")


_ACTIONS = {"list": _list, "clear": _clear, "verify": _verify}
