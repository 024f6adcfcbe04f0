"""Architectures in processes of their own, so that none hangs or takes down the others."""

from __future__ import annotations

import functools
import multiprocessing
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from typing import Any

from tests.architectures.table import KIND_OF

SECONDS = 600
_PRELOADED = ["transformers.modeling_utils", "tests.architectures.check"]  # imported once for all processes


def run(name: str) -> dict[str, Any]:
    """The verdict on one architecture; a process that dies or takes too long is one too."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = _context().Process(target=_report, args=(name, sender))
    process.start()
    sender.close()
    found: dict[str, Any] = {"name": name, "kind": KIND_OF[name], "outcome": "failed"}
    try:
        if receiver.poll(SECONDS):
            found |= receiver.recv()
        else:
            found["reason"] = f"no answer within {SECONDS} seconds"
    except EOFError:
        process.join()
        found["reason"] = f"the process died with exit code {process.exitcode}"
    process.kill()
    process.join()
    return found


@functools.cache
def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    return context


def _report(name: str, sender: Connection) -> None:
    from tests.architectures.check import verdict

    try:
        sender.send(verdict(name))
    except Exception as failure:
        sender.send({"outcome": "failed", "reason": f"{type(failure).__name__}: {failure}"[:300]})
