"""Hooks for pytest-xdist: a worker that crashes fails the run at once.

By default xdist starts another worker in its place, and its `loadfile` scheduler hands it the crashed worker's file
from the test that crashed on: worker after worker dies, and the last one waits forever for the test after its own.
"""

from __future__ import annotations

import os

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Start no worker in place of one that crashed, and let the controller notice each crash."""
    config.option.maxworkerrestart = "0"
    if hasattr(config, "workerinput"):
        _keep_pipe_from_children(config)


def _keep_pipe_from_children(config: pytest.Config) -> None:
    """Take the controller's pipe from forked children: it sees a worker's end only when the last writer is gone."""
    worker = next(plugin for plugin in config.pluginmanager.get_plugins() if hasattr(plugin, "workerid"))
    pipe = worker.channel.gateway._io.outfile.fileno()
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.register_at_fork(after_in_child=lambda: os.dup2(nothing, pipe))
